// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "op_source.h"
#include "radix_cache/integrity.h"
#include "radix_cache/radix_tree.h"

// The tree and a naive twin do the same random operations; everything visible must agree. The twin
// is a sorted map from the whole path to a block: no edges, no lists, every question is a scan.
namespace taproot::testing {

class RadixTreeTwin {
public:
    struct Setup {
        int block_tokens = 2;
        std::uint32_t pool_blocks = 24;  // small, so that eviction comes in the tenth step
        std::uint32_t alphabet = 3;
        std::uint32_t salts = 2;
        std::uint32_t path_blocks_max = 6;
        BlockHash (*hash_block)(BlockHash, std::span<const TokenId>) = &taproot::hash_block;
        BlockHash (*root_hash)(std::uint64_t) = &taproot::root_hash;
    };

    RadixTreeTwin(OpSource& source, Setup setup)
        : source_(source),
          setup_(setup),
          tree_({.block_tokens = setup.block_tokens,
                 .blocks_max = setup.pool_blocks,
                 .root_hash = setup.root_hash,
                 .hash_block = setup.hash_block}) {
        for (std::uint32_t i = setup.pool_blocks; i-- > 0;) free_.push_back(BlockId{i});
    }

    // Runs until the source is done. Empty when all agreed, else what differed and after what.
    std::string run() {
        while (!source_.done() && failure_.empty()) {
            step();
            compare();
        }
        return failure_;
    }

    [[nodiscard]] std::uint64_t evicted() const { return evicted_; }
    [[nodiscard]] std::uint64_t partial_hits() const { return partial_hits_; }

private:
    using Tokens = std::vector<TokenId>;
    using Key = std::pair<std::uint64_t, Tokens>;  // salt, all tokens from the root on

    struct Block {
        BlockId id;
        BlockHash hash;
        std::uint32_t pins = 0;
        Segment segment = Segment::kProbation;
        std::uint64_t used = 0;
    };
    using Model = std::map<Key, Block>;

    std::size_t bt() const { return static_cast<std::size_t>(setup_.block_tokens); }

    void step() {
        switch (source_.below(10)) {
            case 0:
            case 1:
                return op_match();
            case 2:
            case 3:
                return op_insert();
            case 4:
                return op_insert_after();
            case 5:
                return op_request();
            case 6:
                return op_unpin();
            case 7:
                return op_evict();
            case 8:
                return op_evict_from();
            default:
                return op_match_after();
        }
    }

    template <typename... Args>
    void fail(const Args&... parts) {
        std::ostringstream out;
        out << "operation " << operations_ << " (" << last_op_ << "): ";
        (out << ... << parts);
        if (failure_.empty()) failure_ = out.str();
    }
    void begin(const char* op) {
        ++operations_;
        last_op_ = op;
    }

    Tokens random_tokens(std::size_t count) {
        Tokens tokens(count);
        for (TokenId& t : tokens) t = static_cast<TokenId>(source_.below(setup_.alphabet));
        return tokens;
    }
    std::uint64_t random_salt() { return source_.below(setup_.salts); }

    // --- the twin ---

    Tokens parent_path(const Tokens& path) const {
        return Tokens(path.begin(), path.end() - setup_.block_tokens);
    }
    const Block* find(std::uint64_t salt, const Tokens& path) const {
        const auto it = model_.find({salt, path});
        return it == model_.end() ? nullptr : &it->second;
    }
    std::vector<Key> children(const Key& key) const {
        std::vector<Key> out;
        for (const auto& [k, b] : model_) {
            if (k.first == key.first && k.second.size() == key.second.size() + bt() &&
                std::equal(key.second.begin(), key.second.end(), k.second.begin())) {
                out.push_back(k);
            }
        }
        return out;
    }
    template <typename Visit>
    void for_path(Key key, Visit visit) {  // deepest first
        while (!key.second.empty()) {
            visit(model_.at(key));
            key.second = parent_path(key.second);
        }
    }
    const Key* key_of(BlockId id) const {
        for (const auto& [key, block] : model_) {
            if (block.id == id) return &key;
        }
        return nullptr;
    }

    RadixMatch model_match(std::uint64_t salt, Tokens prefix, const Tokens& tokens) const {
        RadixMatch out;
        std::size_t at = 0;
        for (; at + bt() <= tokens.size(); at += bt()) {
            prefix.insert(prefix.end(), tokens.begin() + static_cast<std::ptrdiff_t>(at),
                          tokens.begin() + static_cast<std::ptrdiff_t>(at + bt()));
            const Block* block = find(salt, prefix);
            if (block == nullptr) {
                prefix = parent_path(prefix);
                break;
            }
            out.blocks.push_back(block->id);
        }
        for (const Key& child : children({salt, prefix})) {  // ascending by tokens
            std::uint32_t shared = 0;
            while (shared < bt() && at + shared < tokens.size() &&
                   child.second[prefix.size() + shared] == tokens[at + shared]) {
                ++shared;
            }
            if (shared > 0 && (!out.partial || shared > out.partial->tokens)) {
                out.partial = PartialBlock{model_.at(child).id, shared};
            }
        }
        out.tokens = out.blocks.size() * bt() + (out.partial ? out.partial->tokens : 0);
        return out;
    }

    // Victim of one segment: least recently used; of one operation's path the deepest.
    std::optional<Key> victim(Segment segment) const {
        std::optional<Key> best;
        for (const auto& [key, block] : model_) {
            if (block.pins > 0 || block.segment != segment) continue;
            if (!best) {
                best = key;
                continue;
            }
            const Block& b = model_.at(*best);
            if (std::tuple(block.used, best->second.size()) <
                std::tuple(b.used, key.second.size())) {
                best = key;
            }
        }
        if (!best) return best;
        for (auto below = children(*best); !below.empty(); below = children(*best)) {
            best = below.front();
        }
        return best;
    }
    std::vector<EvictedBlock> model_evict(Segment segment, std::size_t n) {
        std::vector<EvictedBlock> out;
        while (out.size() < n) {
            const auto key = victim(segment);
            if (!key) break;
            out.push_back({model_.at(*key).id, model_.at(*key).hash});
            model_.erase(*key);
        }
        return out;
    }

    void model_insert(std::uint64_t salt, Tokens prefix, const Tokens& tokens,
                      const std::vector<BlockId>& ids, InsertResult& result,
                      std::vector<BlockId>& resident) {
        BlockHash parent = prefix.empty() ? setup_.root_hash(salt) : find(salt, prefix)->hash;
        if (!prefix.empty()) result.deepest = find(salt, prefix)->id;
        for (std::size_t i = 0; i < ids.size(); ++i) {
            const auto own = std::span(tokens).subspan(i * bt(), bt());
            prefix.insert(prefix.end(), own.begin(), own.end());
            parent = setup_.hash_block(parent, own);
            const auto [it, added] =
                model_.emplace(Key{salt, prefix}, Block{.id = ids[i], .hash = parent});
            ++(added ? result.adopted_blocks : result.existing_blocks);
            result.deepest = it->second.id;
            resident.push_back(it->second.id);
        }
        ++clock_;
        for_path({salt, prefix}, [&](Block& b) {
            if (b.pins == 0) b.used = clock_;
        });
    }

    // --- operations ---

    void expect_equal(const RadixMatch& got, const RadixMatch& want) {
        if (got.blocks != want.blocks) fail("match: other blocks");
        if (got.partial != want.partial) fail("match: other partial block");
        if (got.tokens != want.tokens) fail("match: ", got.tokens, " tokens, not ", want.tokens);
        partial_hits_ += got.partial.has_value();
    }

    void op_match() {
        begin("match");
        const std::uint64_t salt = random_salt();
        const Tokens tokens =
            random_tokens(source_.below(setup_.path_blocks_max * static_cast<unsigned>(bt()) + 3));
        const RadixMatch want = model_match(salt, {}, tokens);
        expect_equal(tree_.match(salt, tokens), want);
        if (tree_.match_tokens(salt, tokens) != want.tokens) fail("match_tokens differs");
    }

    std::optional<Key> random_key() {
        if (model_.empty()) return std::nullopt;
        auto it = model_.begin();
        std::advance(it, source_.below(static_cast<std::uint32_t>(model_.size())));
        return it->first;
    }

    void op_match_after() {
        begin("match_after");
        const auto anchor = random_key();
        if (!anchor) return;
        const Tokens tokens = random_tokens(source_.below(3 * static_cast<unsigned>(bt()) + 1));
        expect_equal(tree_.match_after(model_.at(*anchor).id, tokens),
                     model_match(anchor->first, anchor->second, tokens));
    }

    // Takes ids for n blocks from the pool, evicting as the worker would. May give fewer.
    std::vector<BlockId> take(std::size_t n) {
        if (free_.size() < n) evict_both(n - free_.size());
        std::vector<BlockId> ids;
        while (ids.size() < n && !free_.empty()) {
            ids.push_back(free_.back());
            free_.pop_back();
        }
        return ids;
    }
    void give_back(const std::vector<BlockId>& ids, std::size_t unused) {
        free_.insert(free_.end(), ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(unused));
    }

    void op_insert() {
        begin("insert");
        const std::uint64_t salt = random_salt();
        const std::vector<BlockId> ids = take(source_.below(setup_.path_blocks_max + 1));
        insert({salt, {}}, ids);
    }
    void op_insert_after() {
        begin("insert_after");
        const std::vector<BlockId> ids = take(source_.below(3));
        const auto anchor = random_key();
        if (!anchor) return give_back(ids, ids.size());
        insert(*anchor, ids);
    }
    void insert(const Key& anchor, const std::vector<BlockId>& ids) {
        const Tokens tokens = random_tokens(ids.size() * bt());
        std::vector<BlockId> resident{BlockId{99}};
        const InsertResult got =
            anchor.second.empty()
                ? tree_.insert(anchor.first, tokens, ids, &resident)
                : tree_.insert_after(model_.at(anchor).id, tokens, ids, &resident);
        InsertResult want;
        std::vector<BlockId> want_resident;
        model_insert(anchor.first, anchor.second, tokens, ids, want, want_resident);
        if (got.existing_blocks != want.existing_blocks) fail("insert: existing blocks differ");
        if (got.adopted_blocks != want.adopted_blocks) fail("insert: adopted blocks differ");
        if (got.deepest != want.deepest) fail("insert: deepest block differs");
        if (resident != want_resident) fail("insert: resident blocks differ");
        give_back(ids, want.existing_blocks);
    }

    // What a worker does at admission: match, touch, pin.
    void op_request() {
        begin("request");
        const std::uint64_t salt = random_salt();
        const Tokens tokens = random_tokens(setup_.path_blocks_max * bt());
        const RadixMatch match = tree_.match(salt, tokens);
        if (match.blocks.empty()) return;
        const BlockId deepest =
            match.partial && source_.below(2) == 0 ? match.partial->block : match.blocks.back();
        const Key key = *key_of(deepest);
        ++clock_;
        tree_.touch(deepest);
        for_path(key, [&](Block& b) {
            b.segment = Segment::kProtected;
            if (b.pins == 0) b.used = clock_;
        });
        if (source_.below(2) == 0 || handles_.size() >= 4) return;
        tree_.pin(deepest);
        for_path(key, [](Block& b) { ++b.pins; });
        handles_.push_back(deepest);
    }

    void op_unpin() {
        begin("unpin");
        if (handles_.empty()) return;
        const std::size_t i = source_.below(static_cast<std::uint32_t>(handles_.size()));
        const BlockId deepest = handles_[i];
        handles_.erase(handles_.begin() + static_cast<std::ptrdiff_t>(i));
        tree_.unpin(deepest);
        ++clock_;
        for_path(*key_of(deepest), [&](Block& b) {
            if (--b.pins == 0) b.used = clock_;
        });
    }

    void op_evict() {
        begin("evict");
        evict_both(source_.below(4));
    }
    void evict_both(std::size_t n) {
        std::vector<EvictedBlock> got;
        tree_.evict(n, got);
        std::vector<EvictedBlock> want = model_evict(Segment::kProbation, n);
        for (const EvictedBlock& e : model_evict(Segment::kProtected, n - want.size())) {
            want.push_back(e);
        }
        check_evicted(got, want);
    }
    void op_evict_from() {
        begin("evict_from");
        const auto segment = static_cast<Segment>(source_.below(2));
        const std::size_t n = source_.below(4);
        std::vector<EvictedBlock> got;
        const std::size_t count = tree_.evict_from(segment, n, got);
        if (count != got.size()) fail("evict_from: wrong count");
        check_evicted(got, model_evict(segment, n));
    }
    void check_evicted(const std::vector<EvictedBlock>& got,
                       const std::vector<EvictedBlock>& want) {
        if (got != want) fail("evict: other victims or another order");
        for (const EvictedBlock& e : got) free_.push_back(e.block);
        evicted_ += got.size();
    }

    void compare() {
        for (const std::string& violation : check_integrity(tree_)) fail(violation);
        if (!failure_.empty()) return;
        if (tree_.blocks() != model_.size()) fail("block counts differ");
        std::size_t pinned = 0;
        for (const auto& [key, block] : model_) {
            if (!tree_.contains(block.id)) return fail("block ", block.id.value, " is missing");
            if (tree_.hash_of(block.id) != block.hash) fail("hash differs");
            if (tree_.pins_of(block.id) != block.pins) fail("pins differ");
            if (tree_.segment_of(block.id) != block.segment) fail("segment differs");
            const auto tokens = tree_.tokens_of(block.id);
            if (!std::equal(tokens.begin(), tokens.end(), key.second.end() - setup_.block_tokens)) {
                fail("tokens differ");
            }
            pinned += block.pins > 0;
        }
        if (tree_.pinned_blocks() != pinned) fail("pinned counts differ");
        std::vector<KvStored> snapshot;
        tree_.append_snapshot(snapshot);
        if (snapshot.size() != model_.size()) fail("snapshot size differs");
    }

    OpSource& source_;
    Setup setup_;
    RadixTree tree_;
    Model model_;
    std::vector<BlockId> free_;
    std::vector<BlockId> handles_;
    std::uint64_t clock_ = 0;
    std::uint64_t operations_ = 0;
    std::uint64_t evicted_ = 0;
    std::uint64_t partial_hits_ = 0;
    const char* last_op_ = "";
    std::string failure_;
};

}  // namespace taproot::testing
