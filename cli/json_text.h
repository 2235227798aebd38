// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/json/value.hpp>
#include <string>

namespace taproot::cli {

// One line of JSON for people and scripts: a double is written as a plain decimal, the shortest
// that reads back as the same number (197.0, never 1.97E2); NaN and infinities, which JSON lacks,
// become null. Everything our program prints or sends as JSON goes through here.
std::string json_text(const boost::json::value& value);

// `value` with `decimals` (0..9) digits after the point: what a measurement is worth.
double rounded(double value, int decimals);

}  // namespace taproot::cli
