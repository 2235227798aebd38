// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "config/load.h"

namespace taproot::config::testing {

// The shortest valid file; the tests add to it.
inline const std::string kMinimal = "model: {path: m.gguf}\nworkers:\n- name: a\n";

// What parsing says about `yaml`; "" when it is accepted.
inline std::string refusal(const std::string& yaml) {
    const auto result = parse_text(yaml, "t.yaml");
    return result ? "" : result.error().describe();
}

inline void expect_refused(const std::string& yaml, const std::string& where,
                           const std::string& message_part) {
    const auto result = parse_text(yaml, "t.yaml");
    ASSERT_FALSE(result) << yaml;
    EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(result.error().where, where) << yaml << result.error().message;
    EXPECT_NE(result.error().message.find(message_part), std::string::npos)
        << yaml << result.error().message;
}

}  // namespace taproot::config::testing
