// SPDX-License-Identifier: Apache-2.0
#include "gateway/openai/models.h"

#include <fmt/format.h>

#include "gateway/openai/json_writer.h"

namespace taproot::gateway {

std::string model_json(const ModelInfo& model) {
    std::string out = "{\"id\":";
    append_json_string(out, model.name);
    fmt::format_to(
        std::back_inserter(out),
        ",\"object\":\"model\",\"created\":{},\"owned_by\":\"taproot\",\"root\":", model.created);
    append_json_string(out, model.name);
    fmt::format_to(std::back_inserter(out),
                   ",\"parent\":null,\"max_model_len\":{},\"permission\":[],\"meta\":{{\"n_ctx\":{}"
                   ",\"n_vocab\":{},"
                   "\"ready\":{}}}}}",
                   model.max_model_len, model.max_model_len, model.vocab, model.ready);
    return out;
}

std::string models_json(const std::vector<ModelInfo>& models) {
    std::string out = "{\"object\":\"list\",\"data\":[";
    for (std::size_t i = 0; i < models.size(); ++i) {
        if (i > 0) out += ',';
        out += model_json(models[i]);
    }
    out += "]}";
    return out;
}

}  // namespace taproot::gateway
