// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"

namespace taproot::config {

// A place in the file, counted from 1 as editors do. 0 = unknown.
struct Place {
    int line = 0;
    int column = 0;

    friend bool operator==(const Place&, const Place&) = default;
};

// One thing that is wrong. `key` is the path from the top: "gateway.limits.n", "workers[1].link".
struct Problem {
    std::string key;
    std::string message;  // what is wrong and what is allowed
    Place place;
};

// Where each key of a file stands; a key that the file does not have is not in it.
using Places = std::map<std::string, Place>;

// All problems of a file as one error, at most ten in words: `where` is file:line:column of the
// first, the others follow on lines of their own. `problems` must not be empty.
Error to_error(const std::vector<Problem>& problems, const std::string& file);

}  // namespace taproot::config
