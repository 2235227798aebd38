// SPDX-License-Identifier: Apache-2.0
#include "base/result.h"

#include <gtest/gtest.h>

#include "base/units.h"

namespace taproot {
namespace {

Result<int> half(int n) {
    if (n % 2 != 0) return invalid_argument("must be even", "n");
    return n / 2;
}

Result<int> quarter(int n) {
    TAPROOT_TRY(int first, half(n));
    TAPROOT_TRY(int second, half(first));
    return second;
}

TEST(Result, TryPassesTheValueOn) {
    EXPECT_EQ(*quarter(8), 2);
}

TEST(Result, TryReturnsTheFirstErrorWithItsPlace) {
    Result<int> result = quarter(6);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(result.error().describe(), "n: must be even");
}

TEST(ResultDeathTest, ReadingTheWrongSideAborts) {
    Result<int> result = half(1);
    EXPECT_DEATH(static_cast<void>(result.value()), "assertion failed");
}

TEST(Units, CheckedArithmeticReportsOverflow) {
    EXPECT_EQ(checked_mul(1ull << 32, 1ull << 31), 1ull << 63);
    EXPECT_FALSE(checked_mul(1ull << 32, 1ull << 32));
    EXPECT_FALSE(checked_add(~0ull, 1));
}

}  // namespace
}  // namespace taproot
