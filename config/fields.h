// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "config/schema.h"

namespace taproot::config {

// The schema as data: one table per struct, one row per key with its member, kind, range and
// meaning. Loading, printing, the reference file and "did you mean" all read these rows, so a key
// that is missing here does not exist, and one that is here cannot be forgotten elsewhere.

enum class Kind {
    kText,
    kChoice,  // text, one of `choices`
    kFlag,    // true or false
    kCount,   // a whole number in [min, max]
    kSize,    // bytes in [min, max]
    kTime,    // milliseconds in [min, max]
    kTextList,
    kGroup,     // a nested struct
    kGroupList  // a list of structs
};

struct Table;

struct Field {
    std::string_view key;
    std::string_view help;
    Kind kind = Kind::kText;
    std::uint64_t min = 0;
    std::uint64_t max = UINT64_MAX;
    std::vector<std::string_view> choices = {};
    std::string_view example = {};  // what reference.yaml shows for a required key
    bool secret = false;            // never printed unless asked

    // The member of `object`, which is the struct of the table that holds this row: std::string,
    // bool, std::uint32_t or std::uint64_t (is_wide), std::vector<std::string>, or a struct.
    void* (*member)(void* object) = nullptr;
    bool is_wide = false;

    const Table& (*group)() = nullptr;  // of kGroup and kGroupList
    std::size_t (*list_size)(const void* list) = nullptr;
    void* (*list_item)(void* list, std::size_t index) = nullptr;
    void* (*list_add)(void* list) = nullptr;

    [[nodiscard]] const void* member_of(const void* object) const {
        return member(const_cast<void*>(object));
    }
    [[nodiscard]] std::uint64_t number(const void* object) const;
    void set_number(void* object, std::uint64_t value) const;
    // "1KiB..1GiB", "1..128", "keys, none", "true or false": for messages and comments.
    [[nodiscard]] std::string allowed() const;
};

struct Table {
    std::string_view name;  // of the group, for messages
    std::vector<Field> fields;

    [[nodiscard]] const Field* find(std::string_view key) const;
};

const Table& config_table();  // the whole file
const Table& model_table();
const Table& gateway_table();
const Table& limits_table();
const Table& worker_table();
const Table& log_table();

// The key that was meant by an unknown one: of this table when one is near (dashes count as
// underscores, a few letters may differ), else of any other ("workers[].max_num_seqs"). Empty when
// nothing is near.
std::string nearest_key(const Table& table, std::string_view unknown);

}  // namespace taproot::config
