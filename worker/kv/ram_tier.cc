// SPDX-License-Identifier: Apache-2.0
#include "worker/kv/ram_tier.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/assert.h"
#include "base/units.h"

namespace taproot {
namespace {

constexpr std::size_t kAlign = 64;
constexpr std::uint64_t kSlotsMax = 1u << 30;

}  // namespace

std::size_t RamTier::stride(std::size_t block_bytes) {
    return round_up(block_bytes, kAlign);
}

std::uint64_t RamTier::slots_for(const RamTierOptions& options) {
    // Buckets are a power of two below twice the slots.
    std::uint64_t each = stride(options.block_bytes) + sizeof(Slot) +
                         options.block_tokens * sizeof(TokenId) + 3 * sizeof(RamSlot);
    return std::min(options.bytes_max / each, kSlotsMax);
}

Result<std::unique_ptr<RamTier>> RamTier::create(const RamTierOptions& options) {
    TAPROOT_ASSERT(options.block_bytes > 0 && options.block_tokens > 0);
    std::uint64_t slots = slots_for(options);
    if (slots == 0)
        return invalid_argument(fmt::format("{} bytes hold no block, which takes {} bytes",
                                            options.bytes_max, options.block_bytes),
                                "kv_ram_bytes");
    std::size_t bytes = slots * stride(options.block_bytes);
    void* arena =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (arena == MAP_FAILED)
        return Error{
            ErrorCode::kUnavailable,
            fmt::format("no memory for {} KV blocks of {} bytes", slots, options.block_bytes),
            "kv_ram_bytes"};
    ::madvise(arena, bytes, MADV_HUGEPAGE);  // fewer faults; works without
    return std::unique_ptr<RamTier>(
        new RamTier(options, static_cast<std::byte*>(arena), static_cast<std::uint32_t>(slots)));
}

RamTier::RamTier(const RamTierOptions& options, std::byte* arena, std::uint32_t slots)
    : options_(options),
      arena_(arena),
      slots_(slots),
      tokens_(slots * options.block_tokens),
      buckets_(std::bit_ceil(slots), kNoRamSlot) {
    free_.reserve(slots);
    for (std::uint32_t i = slots; i > 0; --i) free_.push_back(RamSlot{i - 1});
}

RamTier::~RamTier() {
    ::munmap(arena_, slots_.size() * stride(options_.block_bytes));
}

// --- finding -------------------------------------------------------------------------------------

RamSlot RamTier::slot_of(BlockHash hash) const {
    RamSlot slot = buckets_[bucket_of(hash)];
    while (slot != kNoRamSlot && at(slot).hash != hash) slot = at(slot).next;
    return slot;
}

RamSlot RamTier::find(const BlockName& name, bool* foreign) const {
    RamSlot slot = slot_of(name.hash);
    if (foreign != nullptr) *foreign = false;
    if (slot == kNoRamSlot) return kNoRamSlot;
    BlockName have = name_of(slot);
    bool same =
        have.parent == name.parent && have.salt == name.salt &&
        std::equal(have.tokens.begin(), have.tokens.end(), name.tokens.begin(), name.tokens.end());
    if (same) return slot;
    if (foreign != nullptr) *foreign = true;
    return kNoRamSlot;
}

BlockName RamTier::name_of(RamSlot slot) const {
    const Slot& one = at(slot);
    TAPROOT_ASSERT(one.used);
    return {one.hash, one.parent, one.salt,
            std::span(tokens_).subspan(slot.value * options_.block_tokens, options_.block_tokens)};
}

std::span<std::byte> RamTier::page(RamSlot slot) const {
    return {arena_ + slot.value * stride(options_.block_bytes), options_.block_bytes};
}

std::span<const std::byte> RamTier::bytes(RamSlot slot) const {
    TAPROOT_ASSERT(at(slot).used);
    return page(slot);
}

// --- copies --------------------------------------------------------------------------------------

// Over the page's bytes, seeded with the hash of its name.
void RamTier::checksum_of(RamSlot slot, std::uint64_t out[2]) const {
    BlockName name = name_of(slot);
    std::uint64_t head[3] = {name.hash.value, name.parent.value, name.salt};
    std::uint64_t seed = XXH3_64bits_withSeed(name.tokens.data(), name.tokens.size_bytes(),
                                              XXH3_64bits(head, sizeof head));
    XXH128_hash_t sum = XXH3_128bits_withSeed(page(slot).data(), options_.block_bytes, seed);
    out[0] = sum.low64;
    out[1] = sum.high64;
}

void RamTier::store(const BlockName& name, Segment segment, const BlockIo& from, BlockId block) {
    TAPROOT_ASSERT(!free_.empty());
    TAPROOT_ASSERT(name.tokens.size() == options_.block_tokens);
    TAPROOT_ASSERT(slot_of(name.hash) == kNoRamSlot);
    RamSlot slot = free_.back();
    free_.pop_back();
    Slot& one = at(slot);
    RamSlot& bucket = buckets_[bucket_of(name.hash)];
    one = Slot{.hash = name.hash,
               .parent = name.parent,
               .salt = name.salt,
               .next = bucket,
               .segment = segment,
               .used = true};
    bucket = slot;
    std::copy(name.tokens.begin(), name.tokens.end(),
              tokens_.begin() + static_cast<std::ptrdiff_t>(slot.value * options_.block_tokens));
    from.read_block(block, page(slot));
    checksum_of(slot, one.checksum);
    link_front(slot);
    limit_protected();
    ++stats_.stored;
}

bool RamTier::restore(RamSlot slot, BlockIo& to, BlockId block) {
    std::uint64_t sum[2];
    checksum_of(slot, sum);
    if (sum[0] != at(slot).checksum[0] || sum[1] != at(slot).checksum[1]) {
        ++stats_.corrupt;
        return false;
    }
    to.write_block(page(slot), block);
    ++stats_.restored;
    return true;
}

// --- order and leaving ---------------------------------------------------------------------------

RamSlot RamTier::victim() const {
    const List& probation = lists_[static_cast<std::size_t>(Segment::kProbation)];
    return probation.size > 0 ? probation.back
                              : lists_[static_cast<std::size_t>(Segment::kProtected)].back;
}

void RamTier::link_front(RamSlot slot) {
    List& list = list_of(at(slot));
    at(slot).newer = kNoRamSlot;
    at(slot).older = list.front;
    if (list.front != kNoRamSlot) at(list.front).newer = slot;
    list.front = slot;
    if (list.back == kNoRamSlot) list.back = slot;
    ++list.size;
}

void RamTier::unlink(RamSlot slot) {
    Slot& one = at(slot);
    List& list = list_of(one);
    (one.newer == kNoRamSlot ? list.front : at(one.newer).older) = one.older;
    (one.older == kNoRamSlot ? list.back : at(one.older).newer) = one.newer;
    one.newer = kNoRamSlot;
    one.older = kNoRamSlot;
    --list.size;
}

void RamTier::limit_protected() {
    List& list = lists_[static_cast<std::size_t>(Segment::kProtected)];
    auto most = static_cast<std::size_t>(kProtectedShare * static_cast<double>(slots_.size()));
    while (list.size > most) {
        RamSlot oldest = list.back;
        unlink(oldest);
        at(oldest).segment = Segment::kProbation;
        link_front(oldest);
    }
}

void RamTier::hold(RamSlot slot) {
    TAPROOT_ASSERT(at(slot).used);
    if (at(slot).holds++ == 0) unlink(slot);
}

void RamTier::release(RamSlot slot) {
    TAPROOT_ASSERT(at(slot).holds > 0);
    if (--at(slot).holds > 0) return;
    link_front(slot);
    limit_protected();
}

void RamTier::touch(RamSlot slot) {
    Slot& one = at(slot);
    TAPROOT_ASSERT(one.used);
    if (one.holds == 0) unlink(slot);
    one.segment = Segment::kProtected;
    if (one.holds > 0) return;
    link_front(slot);
    limit_protected();
}

void RamTier::erase(RamSlot slot) {
    Slot& one = at(slot);
    TAPROOT_ASSERT(one.used);
    if (one.holds == 0) unlink(slot);
    RamSlot* link = &buckets_[bucket_of(one.hash)];
    while (*link != slot) link = &at(*link).next;
    *link = one.next;
    one = Slot{};
    free_.push_back(slot);
}

void RamTier::clear() {
    for (RamSlot slot = victim(); slot != kNoRamSlot; slot = victim()) erase(slot);
}

std::vector<std::string> RamTier::check_integrity() const {
    std::vector<std::string> wrong;
    auto expect = [&wrong](bool holds, std::string sentence) {
        if (!holds) wrong.push_back("RAM tier: " + std::move(sentence));
    };
    std::size_t used_slots = 0, held = 0;
    for (std::uint32_t i = 0; i < slots(); ++i) {
        const Slot& slot = at(RamSlot{i});
        if (!slot.used) continue;
        ++used_slots;
        held += slot.holds > 0;
        expect(slot_of(slot.hash) == RamSlot{i}, fmt::format("slot {} is not found", i));
    }
    expect(used_slots + free_.size() == slots_.size(), "slots are miscounted");
    for (RamSlot slot : free_) expect(!at(slot).used, "a free slot is used");
    std::size_t listed = 0;
    for (std::size_t segment = 0; segment < 2; ++segment) {
        std::size_t count = 0;
        RamSlot newer = kNoRamSlot;
        for (RamSlot slot = lists_[segment].front; slot != kNoRamSlot && count <= slots_.size();
             slot = at(slot).older, ++count) {
            expect(at(slot).used && at(slot).holds == 0, "a listed slot is free or held");
            expect(static_cast<std::size_t>(at(slot).segment) == segment, "a slot is misplaced");
            expect(at(slot).newer == newer, "the order is broken");
            newer = slot;
        }
        expect(count == lists_[segment].size && lists_[segment].back == newer,
               "a segment is miscounted");
        listed += count;
    }
    expect(listed + held == used_slots, "a slot is in no segment or in two");
    expect(static_cast<double>(lists_[1].size) <= kProtectedShare * static_cast<double>(slots()),
           "too many slots are protected");
    return wrong;
}

}  // namespace taproot
