// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "kernels/context.h"
#include "kernels/dispatch.h"

// The kernels of the model over the shapes that matter, each with what it costs and how to check
// it. `bench kernels` times them.
namespace taproot::cli {

struct KernelCheck {
    std::size_t compared = 0;   // outputs that the scalar reference computed too
    std::size_t differing = 0;  // of them, in any bit
    double error = 0;           // relative L2 distance from arithmetic in double
};

struct KernelCase {
    std::string name;           // "linear/Q4_1/576x3072/rows:16"
    double ops = 0;             // a multiply-add is two
    double bytes = 0;           // that one run must read (and write, where that is as much)
    bool int8 = false;          // which roof the ops have: int8, else fp32
    bool from_memory = false;   // the bytes do not fit a cache: the read roof holds too
    bool roofed = true;         // false: latency-bound little passes, no share
    std::function<void()> run;  // one call
    std::function<KernelCheck()> check;
};

// What a family needs. Its memory lives only while its cases are used.
struct KernelCases {
    KernelContext& context;
    KernelContext& reference;  // the scalar one, same threads
    // Which names are wanted: asked before anything is allocated.
    std::function<bool(const std::string& name)> wanted;
    std::function<void(const KernelCase& one)> use;
};

void linear_cases(const KernelCases& cases);       // every weight type
void attention_cases(const KernelCases& cases);    // decode by depth, prefill tiles
void elementwise_cases(const KernelCases& cases);  // norm, activation, rotation, quantise, argmax

// |a - b| / |b| over sequences of doubles.
class RelativeError {
public:
    void add(double value, double exact) {
        difference_ += (value - exact) * (value - exact);
        norm_ += exact * exact;
    }
    [[nodiscard]] double value() const;

private:
    double difference_ = 0, norm_ = 0;
};

// Values of a and b that differ in any bit (two NaN are equal: a payload means nothing).
std::size_t count_differing(const float* a, const float* b, std::size_t count);

}  // namespace taproot::cli
