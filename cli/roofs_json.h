// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/json/value.hpp>

#include "kernels/roofs.h"

namespace taproot::cli {

boost::json::object roofs_json(const Roofs& roofs, const RoofOptions& options);

}  // namespace taproot::cli
