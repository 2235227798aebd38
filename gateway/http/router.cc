// SPDX-License-Identifier: Apache-2.0
#include "gateway/http/router.h"

namespace taproot::gateway {

void Router::add(std::string method, std::string path, Handler handler) {
    auto& table = path.size() > 1 && path.back() == '/' ? prefixes_ : exact_;
    table[std::move(path)][std::move(method)] = std::move(handler);
}

const Router::Methods* Router::find_path(std::string_view path) const {
    if (auto it = exact_.find(path); it != exact_.end()) return &it->second;
    for (const auto& [prefix, methods] : prefixes_)
        if (path.size() > prefix.size() && path.starts_with(prefix)) return &methods;
    return nullptr;
}

Router::Match Router::find(std::string_view method, std::string_view path) const {
    Match match;
    const Methods* methods = find_path(path);
    if (methods == nullptr) return match;
    match.path_known = true;
    auto it = methods->find(method);
    if (it == methods->end() && method == "HEAD") it = methods->find("GET");
    if (it != methods->end()) {
        match.handler = &it->second;
        return match;
    }
    for (const auto& [name, handler] : *methods) {
        if (!match.allow.empty()) match.allow += ", ";
        match.allow += name;
    }
    return match;
}

}  // namespace taproot::gateway
