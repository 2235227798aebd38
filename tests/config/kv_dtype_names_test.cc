// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "config/fields.h"
#include "config/schema.h"
#include "kernels/kv_dtype.h"

namespace taproot {
namespace {

// config/ may not include kernels/, so the names stand in both; here they meet.
TEST(KvDTypeNames, AreTheSameInTheConfigurationAndTheKernels) {
    const config::Field* field = config::worker_table().find("kv_dtype");
    ASSERT_NE(field, nullptr);
    for (std::string_view name : field->choices) EXPECT_TRUE(parse_kv_dtype(name)) << name;
    EXPECT_EQ(field->choices.size(), kKvDTypes);
    EXPECT_EQ(parse_kv_dtype(config::Worker{}.kv_dtype), KvDType::kF16);
}

}  // namespace
}  // namespace taproot
