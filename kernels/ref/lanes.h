// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace taproot::ref {

// Sums over many values run in 16 lanes: value i belongs to lane i mod 16, each lane adds its
// values in ascending order, and the lanes fold in halves.
inline constexpr int kLanes = 16;

inline float sum_lanes(const float* lanes) {
    float fold[kLanes];
    for (int i = 0; i < kLanes; ++i) fold[i] = lanes[i];
    for (int width = kLanes / 2; width > 0; width /= 2) {
        for (int i = 0; i < width; ++i) fold[i] = fold[i] + fold[i + width];
    }
    return fold[0];
}

}  // namespace taproot::ref
