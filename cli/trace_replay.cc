// SPDX-License-Identifier: Apache-2.0
#include "cli/trace_replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <unordered_set>

#include "base/assert.h"
#include "worker/kv/prefix_cache.h"
#include "worker/kv/ram_tier.h"

namespace taproot::cli {
namespace {

constexpr std::size_t kPageBytes = 64;

// Pages that hold the id of their block, so that a hit can be checked.
class TinyPages final : public BlockIo {
public:
    explicit TinyPages(std::uint32_t blocks) : bytes_(blocks * kPageBytes) {}

    [[nodiscard]] std::size_t block_bytes() const override { return kPageBytes; }
    void read_block(BlockId from, std::span<std::byte> to) const override {
        std::memcpy(to.data(), at(from), kPageBytes);
    }
    void write_block(std::span<const std::byte> from, BlockId to) override {
        std::memcpy(at(to), from.data(), kPageBytes);
    }
    void compute(BlockId block, std::uint64_t id) { std::memcpy(at(block), &id, sizeof id); }
    [[nodiscard]] bool holds(BlockId block, std::uint64_t id) const {
        return std::memcmp(at(block), &id, sizeof id) == 0;
    }

private:
    [[nodiscard]] std::byte* at(BlockId block) { return &bytes_[block.value * kPageBytes]; }
    [[nodiscard]] const std::byte* at(BlockId block) const {
        return &bytes_[block.value * kPageBytes];
    }

    std::vector<std::byte> bytes_;
};

// One block of tokens per id: the id in two halves, then zeros.
void tokens_of(const TracePrompt& prompt, std::vector<TokenId>* out) {
    out->assign(prompt.size() * kBlockTokens, 0);
    for (std::size_t i = 0; i < prompt.size(); ++i) {
        (*out)[i * kBlockTokens] = static_cast<TokenId>(prompt[i] & 0x7fffffff);
        (*out)[i * kBlockTokens + 1] = static_cast<TokenId>(prompt[i] >> 31 & 0x7fffffff);
    }
}

class Replay {
public:
    Replay(const ReplaySizes& sizes, std::unique_ptr<RamTier> ram)
        : pages_(sizes.device_blocks),
          pool_(sizes.device_blocks),
          ram_(std::move(ram)),
          cache_(pool_, 1, {}, ram_.get(), ram_ ? &pages_ : nullptr) {}

    // False: the prompt has more blocks than the device.
    bool run(const TracePrompt& prompt) {
        tokens_of(prompt, &tokens_);
        BlockTable table(&cache_);
        std::size_t on_device = std::min(cache_.probe(0, tokens_).full_blocks, prompt.size());
        std::size_t known = 0;
        for (bool more = true; more;) {
            CacheHit hit = cache_.extend(table, 0, tokens_, known * kBlockTokens);
            if (hit.copy) cache_.release_copy_source(*hit.copy);
            known = hit.tokens / kBlockTokens;
            more = hit.more_in_ram;
        }
        counts_.device_hits += std::min(on_device, known);
        counts_.ram_hits += known - std::min(on_device, known);
        for (std::size_t i = 0; i < known; ++i)
            if (!pages_.holds(table.ids()[i], prompt[i])) ++counts_.wrong_blocks;
        for (std::size_t i = table.size(); i < prompt.size(); ++i) {
            BlockRef page = cache_.allocate();
            if (!page) return false;
            table.append_own(std::move(page));
        }
        for (std::size_t i = known; i < prompt.size(); ++i)
            pages_.compute(table.ids()[i], prompt[i]);
        cache_.adopt(table, 0, tokens_, prompt.size());
        static_cast<void>(cache_.take_events());
        count_ideal(prompt);
        return true;
    }

    [[nodiscard]] ReplayCounts counts() const {
        ReplayCounts out = counts_;
        if (ram_) out.written_to_ram = ram_->stats().stored;
        return out;
    }

private:
    void count_ideal(const TracePrompt& prompt) {
        counts_.blocks += prompt.size();
        bool cached = true;  // a prefix ends at its first unknown block
        for (std::uint64_t id : prompt) {
            bool known = !seen_.insert(id).second;
            cached = cached && known;
            if (cached) ++counts_.ideal_hits;
        }
    }

    TinyPages pages_;
    BlockPool pool_;
    std::unique_ptr<RamTier> ram_;
    PrefixCache cache_;
    std::vector<TokenId> tokens_;  // scratch
    std::unordered_set<std::uint64_t> seen_;
    ReplayCounts counts_;
};

Error bad_line(const std::filesystem::path& path, std::size_t line, std::string_view what) {
    return invalid_argument(fmt::format("{}:{}: {}", path.string(), line, what), "trace");
}

Result<TracePrompt> parse_line(const std::filesystem::path& path, std::size_t line,
                               const std::string& text) {
    boost::system::error_code code;
    boost::json::value value = boost::json::parse(text, code);
    if (code || !value.is_object()) return bad_line(path, line, "not a JSON object");
    const boost::json::value* ids = value.as_object().if_contains("hash_ids");
    if (ids == nullptr || !ids->is_array())
        return bad_line(path, line, "hash_ids: an array of block ids is needed");
    TracePrompt prompt;
    for (const boost::json::value& id : ids->as_array()) {
        if (!id.is_int64() || id.as_int64() < 0)
            return bad_line(path, line, "hash_ids: ids are integers from 0 on");
        prompt.push_back(static_cast<std::uint64_t>(id.as_int64()));
    }
    return prompt;
}

}  // namespace

Result<std::vector<TracePrompt>> read_trace(const std::filesystem::path& path) {
    std::ifstream file(path);
    if (!file) return Error{ErrorCode::kNotFound, "cannot be read", path.string()};
    std::vector<TracePrompt> out;
    std::string text;
    for (std::size_t line = 1; std::getline(file, text); ++line) {
        if (text.find_first_not_of(" \t\r") == text.npos) continue;
        TAPROOT_TRY(TracePrompt prompt, parse_line(path, line, text));
        out.push_back(std::move(prompt));
    }
    if (file.bad()) return Error{ErrorCode::kIo, "reading stopped", path.string()};
    return out;
}

Result<ReplayCounts> replay_trace(const std::vector<TracePrompt>& prompts,
                                  const ReplaySizes& sizes) {
    std::unique_ptr<RamTier> ram;
    if (sizes.ram_blocks > 0) {
        RamTierOptions options;
        options.block_bytes = kPageBytes;
        while (RamTier::slots_for(options) < sizes.ram_blocks) options.bytes_max += kPageBytes;
        TAPROOT_TRY(ram, RamTier::create(options));
    }
    Replay replay(sizes, std::move(ram));
    for (std::size_t i = 0; i < prompts.size(); ++i) {
        if (!replay.run(prompts[i]))
            return invalid_argument(
                fmt::format("request {} of the trace has {} blocks, the device {}", i + 1,
                            prompts[i].size(), sizes.device_blocks),
                "device-blocks");
    }
    return replay.counts();
}

}  // namespace taproot::cli
