// SPDX-License-Identifier: Apache-2.0
#pragma once

// Our own 2^x, the same in every instruction set (the definition is ref/exp2.h). Constants only.
namespace taproot {

// 2^f = 1 + f*(c1 + f*(c2 + ...)) on [-1/2, 1/2]; minimax in relative error with the constant
// fixed at 1 (so that 2^0 is exactly 1); 2.6e-9 before rounding. Found by a Remez exchange.
inline constexpr float kExp2C1 = 0x1.62e432p-1f;
inline constexpr float kExp2C2 = 0x1.ebfbe2p-3f;
inline constexpr float kExp2C3 = 0x1.c6ae72p-5f;
inline constexpr float kExp2C4 = 0x1.3b270ep-7f;
inline constexpr float kExp2C5 = 0x1.5f7276p-10f;
inline constexpr float kExp2C6 = 0x1.470b48p-13f;

inline constexpr float kExp2Underflow = -126.0f;  // below: exactly 0 (never a subnormal)
inline constexpr float kExp2Overflow = 128.0f;    // from here on: +infinity

inline constexpr float kLog2E = 0x1.715476p+0f;     // log2(e) rounded
inline constexpr float kLog2ELow = 0x1.4ae0cp-26f;  // log2(e) - kLog2E

}  // namespace taproot
