// SPDX-License-Identifier: Apache-2.0
#include "kernels/dispatch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "kernels/ops.h"

namespace taproot {
namespace {

class Dispatch : public ::testing::Test {
protected:
    void SetUp() override {
        if (const char* old = std::getenv("TAPROOT_ISA")) old_ = old;
        unsetenv("TAPROOT_ISA");
    }
    void TearDown() override {
        old_.empty() ? unsetenv("TAPROOT_ISA") : setenv("TAPROOT_ISA", old_.c_str(), 1);
    }
    std::string old_;
};

TEST_F(Dispatch, ReferenceIsAlwaysThereAndComesFirst) {
    const auto isas = available_isas();
    ASSERT_FALSE(isas.empty());
    EXPECT_EQ(isas.front(), Isa::kRef);
    for (Isa isa : isas) EXPECT_EQ(ops_for(isa).name, to_string(isa));
}

TEST_F(Dispatch, ChoosesTheFastestUnlessToldOtherwise) {
    ASSERT_TRUE(choose_isa());
    EXPECT_EQ(*choose_isa(), available_isas().back());
    setenv("TAPROOT_ISA", "", 1);
    EXPECT_EQ(*choose_isa(), available_isas().back());
    for (Isa isa : available_isas()) {
        setenv("TAPROOT_ISA", std::string(to_string(isa)).c_str(), 1);
        ASSERT_TRUE(choose_isa());
        EXPECT_EQ(*choose_isa(), isa);
    }
}

TEST_F(Dispatch, RefusesAnUnknownNameAndSaysWhatIsAllowed) {
    for (const char* name : {"AVX2", "neon", "ref ", "avx"}) {
        setenv("TAPROOT_ISA", name, 1);
        const auto chosen = choose_isa();
        ASSERT_FALSE(chosen) << name;
        EXPECT_EQ(chosen.error().code, ErrorCode::kInvalidArgument);
        EXPECT_EQ(chosen.error().where, "TAPROOT_ISA");
        EXPECT_NE(chosen.error().message.find(name), std::string::npos);
        EXPECT_NE(chosen.error().message.find("ref, avx2, avx512"), std::string::npos);
    }
}

TEST_F(Dispatch, RefusesWhatThisCpuCannotRun) {
    const auto isas = available_isas();
    for (Isa isa : {Isa::kAvx2, Isa::kAvx512}) {
        if (std::find(isas.begin(), isas.end(), isa) != isas.end()) continue;
        setenv("TAPROOT_ISA", std::string(to_string(isa)).c_str(), 1);
        ASSERT_FALSE(choose_isa());
        EXPECT_EQ(choose_isa().error().code, ErrorCode::kUnsupported);
    }
}

}  // namespace
}  // namespace taproot
