// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "kernels/context.h"
#include "kernels/linear.h"
#include "kernels/work_ranges.h"

namespace taproot {

// Several operations in one pass, by the thread that has the values in its cache. Bits equal those
// of the calls one after another.

// rmsnorm, then quantize_rows of its result. out may be x.
void rmsnorm_quantized(KernelContext& context, ConstRows x, const float* weight, float eps,
                       Rows out, QuantizedRows* quantized);
// swiglu, then quantize_rows of its result. out may be gate.
void swiglu_quantized(KernelContext& context, ConstRows gate, ConstRows up, Rows out,
                      QuantizedRows* quantized);

// The first two matrices of a gated feed-forward layer and what follows them: h = silu(gate * x) *
// (up * x), quantised, a tile of 32 columns of h at a time, so that gate * x and up * x never leave
// the L1 cache. w: gate's F rows, then up's; F a multiple of 32. in: as for linear(). To the rows
// of `precise`, ascending, w * remainder is added before silu (quantize_remainders of x); their h
// is written to `h` too, [rows][F], of which the other rows stay as they are.
bool gate_up_fits(const PanelMatrix& w);  // F is a multiple of 32
void gate_up_quantized(KernelContext& context, const PanelMatrix& w, const LinearInput& in,
                       std::span<const Range> precise, const QuantizedRows& remainders, Rows h,
                       QuantizedRows* quantized);

}  // namespace taproot
