// SPDX-License-Identifier: Apache-2.0
#include "gateway/fleet/model_table.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "base/log.h"
#include "link/codec.h"

namespace taproot::gateway {
namespace {

constexpr std::size_t kTextsMax = 64;  // different tokenizers; beyond it a worker is refused

std::int64_t unix_seconds() {
    auto now = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

// The KV layout counts: int8 KV gives other bits than f16.
std::string fingerprint(const link::Hello& hello) {
    return fmt::format("taproot-{}-{}-{:08x}-{:08x}", hello.build, hello.isa,
                       static_cast<std::uint32_t>(hello.model_digest),
                       static_cast<std::uint32_t>(hello.kv_layout_digest));
}

}  // namespace

bool ModelTable::knows_text(std::uint64_t digest) const {
    return texts_.contains(digest);
}

Result<void> ModelTable::add_text(std::uint64_t digest, std::string_view bytes) {
    if (texts_.size() >= kTextsMax)
        return Error{ErrorCode::kTooLarge, fmt::format("more than {} tokenizers", kTextsMax), {}};
    TAPROOT_TRY(TextModel model, link::decode_text_model(bytes));
    TAPROOT_TRY(auto text, build_model_text(digest, model));
    texts_.emplace(digest, std::move(text));
    return {};
}

Result<std::size_t> ModelTable::join(const link::Hello& hello, bool is_only) {
    auto info = std::make_unique<ModelInfo>();
    info->name = hello.model;
    info->text = texts_.at(hello.text_digest);
    info->max_model_len = hello.max_model_len;
    info->vocab = hello.vocab;
    info->created = unix_seconds();
    info->fingerprint = fingerprint(hello);

    auto found = find(hello.model);
    if (!found) {
        current_.push_back({std::move(info), hello.text_digest});
        return current_.size() - 1;
    }
    Entry& entry = current_[*found];
    if (entry.text_digest == hello.text_digest && entry.info->vocab == hello.vocab) {
        if (is_only) entry.info->fingerprint = fingerprint(hello);
        return *found;
    }
    if (!is_only)
        return invalid_argument(
            fmt::format("serves '{}' with another tokenizer or vocabulary than its other workers; "
                        "give it another name, or restart them all",
                        hello.model),
            "model");
    log_warn("model {}: comes back with another tokenizer", hello.model);
    info->created = entry.info->created;
    retired_.push_back(std::exchange(entry.info, std::move(info)));
    entry.text_digest = hello.text_digest;
    return *found;
}

void ModelTable::set_ready(std::size_t model, bool ready, std::uint32_t max_model_len) {
    ModelInfo& info = *current_[model].info;
    info.ready = ready;
    if (ready) info.max_model_len = max_model_len;
}

std::optional<std::size_t> ModelTable::find(std::string_view name) const {
    for (std::size_t i = 0; i < current_.size(); ++i)
        if (current_[i].info->name == name) return i;
    return std::nullopt;
}

std::optional<std::size_t> ModelTable::first() const {
    if (current_.empty()) return std::nullopt;
    return 0;
}

}  // namespace taproot::gateway
