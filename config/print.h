// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "config/schema.h"

namespace taproot::config {

struct PrintOptions {
    bool show_secrets = false;  // else API keys are only counted
};

// The effective configuration as YAML: every key, in the order of the tables. With show_secrets,
// parse_text() of it gives `config` again.
std::string print(const Config& config, const PrintOptions& options = {});

// The text of config/reference.yaml: every key with its default, meaning and range, and an example
// where a value is required.
std::string print_reference();

}  // namespace taproot::config
