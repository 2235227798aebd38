// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "config/problem.h"
#include "config/schema.h"

namespace taproot::config {

// A configuration and where each of its keys stands in the file.
struct Parsed {
    Config config;
    Places places;
};

// YAML to structs, strictly: an unknown or repeated key, a wrong type or a value out of range is an
// error that says file:line:column, the key, what is allowed and the key that was probably meant.
// null means the default. Several errors are told at once. No rule that needs two keys is checked.
// `name` stands for the file in messages.
Result<Parsed> parse_text(std::string_view yaml, const std::string& name);

// A configuration that is ready to run: parsed, the keys of api_keys_file added to api_keys, and
// every rule of validate.h kept. Relative paths are meant from the working directory.
Result<Config> load_text(std::string_view yaml, const std::string& name);
Result<Config> load_file(const std::string& path);

}  // namespace taproot::config
