// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "gateway/fleet/fleet.h"

namespace taproot::gateway {

// GET /v1/models and GET /v1/models/{id}: the OpenAI object with vLLM's additions (root, parent,
// max_model_len, permission).
std::string models_json(const std::vector<ModelInfo>& models);
std::string model_json(const ModelInfo& model);

}  // namespace taproot::gateway
