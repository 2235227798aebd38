// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <cstdlib>

// TAPROOT_ASSERT: a rule of our own, checked in release builds too; one condition each. Never
// reachable from user input: bad input is a Result. TAPROOT_DASSERT: inside kernels, debug builds
// only.
namespace taproot::detail {

[[noreturn]] inline void assert_failed(const char* condition, const char* file, int line) {
    std::fprintf(stderr, "taproot: assertion failed: %s at %s:%d\n", condition, file, line);
    std::fflush(stderr);
    std::abort();
}

}  // namespace taproot::detail

#define TAPROOT_ASSERT(condition) \
    (static_cast<bool>(condition) \
         ? void()                 \
         : ::taproot::detail::assert_failed(#condition, __FILE__, __LINE__))

#ifdef NDEBUG
#define TAPROOT_DASSERT(condition) static_cast<void>(0)
#else
#define TAPROOT_DASSERT(condition) TAPROOT_ASSERT(condition)
#endif

#define TAPROOT_UNREACHABLE() ::taproot::detail::assert_failed("unreachable", __FILE__, __LINE__)
