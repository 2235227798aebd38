// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "config/problem.h"
#include "config/schema.h"

namespace taproot::config {

// The rules that need more than one key, or more than a range. Each is one function in validate.cc
// with a test of its name:
//   - at least one worker; worker names unique and usable as file names and labels
//   - link addresses well-formed, with a port, distinct, and distinct from gateway.listen
//   - gateway.listen is host:port; a public address needs keys or `auth: none`; `auth: none`
//     contradicts keys
//   - model.path is there when a worker runs on this host
//   - a prompt of max_model_len fits each queue
// Problems carry keys; whoever read a file adds the places. Empty = valid.
std::vector<Problem> find_problems(const Config& config);

// The same for a configuration made by code, as one error.
Result<void> validate(const Config& config);

// What is allowed but should be said loudly at start, one sentence each.
std::vector<std::string> warnings(const Config& config);

// Whether only programs on this host can reach a listener bound to `host`. An empty host is all
// interfaces to gateway.listen.
bool is_loopback(std::string_view host);

}  // namespace taproot::config
