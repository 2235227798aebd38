// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "config/fields.h"
#include "config/schema.h"
#include "policies/registry.h"

namespace taproot {
namespace {

// config/ may not include policies/, so the names stand in both; here they meet.
TEST(RoutePolicyNames, AreTheSameInTheConfigurationAndTheRegistry) {
    const config::Field* field = config::gateway_table().find("route_policy");
    ASSERT_NE(field, nullptr);
    for (const auto& policy : route_policies())
        EXPECT_EQ(std::count(field->choices.begin(), field->choices.end(), policy.name), 1)
            << policy.name;
    EXPECT_EQ(field->choices.size(), route_policies().size());
    EXPECT_TRUE(find_route_policy(config::Gateway{}.route_policy));
}

}  // namespace
}  // namespace taproot
