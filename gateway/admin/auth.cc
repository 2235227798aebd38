// SPDX-License-Identifier: Apache-2.0
#include "gateway/admin/auth.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>

#include "gateway/openai/errors.h"

namespace taproot::gateway {
namespace {

using Digest = std::array<unsigned char, SHA256_DIGEST_LENGTH>;

// Digests have one length, so the comparison's time tells nothing about the keys.
Digest digest_of(std::string_view text) {
    Digest out{};
    SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), out.data());
    return out;
}

HttpResponse unauthorized(std::string message) {
    ApiError error;
    error.status = 401;
    error.type = "authentication_error";
    error.code = "invalid_api_key";
    error.message = std::move(message);
    return error_response(error);
}

}  // namespace

Auth::Auth(std::vector<std::string> keys, std::vector<std::string> open_paths)
    : keys_(std::move(keys)), open_paths_(std::move(open_paths)) {}

std::optional<HttpResponse> Auth::check(const HttpRequest& request) const {
    if (keys_.empty()) return std::nullopt;
    if (std::find(open_paths_.begin(), open_paths_.end(), request.path) != open_paths_.end())
        return std::nullopt;
    auto is_authorization = [](const auto& header) {
        return equals_ignoring_case(header.first, "authorization");
    };
    auto count = std::count_if(request.headers.begin(), request.headers.end(), is_authorization);
    if (count > 1) return render_http_error(400, "more than one Authorization header");
    std::string_view value = request.header("authorization");
    constexpr std::string_view kScheme = "bearer";
    if (value.size() <= kScheme.size() ||
        !equals_ignoring_case(value.substr(0, kScheme.size()), kScheme) ||
        value[kScheme.size()] != ' ')
        return unauthorized("this server needs an API key: send 'Authorization: Bearer KEY'");
    value.remove_prefix(kScheme.size());
    value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
    Digest given = digest_of(value);
    bool known = false;
    for (const std::string& key : keys_)
        known |= CRYPTO_memcmp(given.data(), digest_of(key).data(), given.size()) == 0;
    if (!known) return unauthorized("the API key is not valid");
    return std::nullopt;
}

}  // namespace taproot::gateway
