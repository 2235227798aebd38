// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "gateway/fleet/fleet.h"
#include "link/messages.h"
#include "text/text_model.h"

namespace taproot::gateway {

// ModelText::build for those who do not look inside (model_text.cc).
Result<std::shared_ptr<const ModelText>> build_model_text(std::uint64_t digest,
                                                          const TextModel& model);

// The models that workers have introduced, and their tokenizers by digest. A model stays when its
// workers leave. A ModelInfo never moves and its text never changes: when all workers of a name
// come back with another text (a new model file), a new ModelInfo takes the name and the old one
// stays for the streams that read it.
// Owner: the I/O thread.
class ModelTable {
public:
    [[nodiscard]] bool knows_text(std::uint64_t digest) const;
    // Builds tokenizer and template. Cost: tens of ms for a large vocabulary.
    Result<void> add_text(std::uint64_t digest, std::string_view bytes);

    // The model a worker serves; its text must be known. `is_only` says that no other ready worker
    // serves the name. kInvalidArgument when the worker's text differs from what others serve.
    Result<std::size_t> join(const link::Hello& hello, bool is_only);
    // After joins and leaves: readiness, and the least of the workers' lengths.
    void set_ready(std::size_t model, bool ready, std::uint32_t max_model_len);

    [[nodiscard]] std::optional<std::size_t> find(std::string_view name) const;
    [[nodiscard]] std::optional<std::size_t> first() const;
    [[nodiscard]] const ModelInfo& at(std::size_t model) const { return *current_[model].info; }
    [[nodiscard]] std::size_t size() const { return current_.size(); }

private:
    struct Entry {
        std::unique_ptr<ModelInfo> info;
        std::uint64_t text_digest = 0;
    };
    std::vector<Entry> current_;  // by first appearance; one per name
    std::vector<std::unique_ptr<ModelInfo>> retired_;
    std::unordered_map<std::uint64_t, std::shared_ptr<const ModelText>> texts_;
};

}  // namespace taproot::gateway
