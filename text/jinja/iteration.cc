// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/iteration.h"

#include <cstdint>

#include "text/jinja/raise.h"
#include "text/jinja/unicode.h"
#include "text/jinja/work.h"

namespace taproot::jinja {

bool is_iterable(const Value& value) {
    return value.is_undefined() || value.is_string() || value.is_list() || value.is_dict() ||
           value.is(Kind::kLoop);
}

Iteration::Iteration(Value source) : source_(std::move(source)) {
    if (!is_iterable(source_) || source_.is(Kind::kLoop)) {
        raise("TypeError", std::string("'") + type_name(source_) + "' object is not iterable");
    }
}

bool Iteration::next(Value& item) {
    spend_steps(1);
    if (source_.is_list()) {
        ListData& list = source_.list_data();
        std::size_t& position = list.is_generator() ? list.next : position_;
        if (position >= list.items.size()) return false;
        item = list.items[position++];
        return true;
    }
    if (source_.is_dict()) {
        const DictData& dict = source_.dict_data();
        if (position_ >= dict.entries.size()) return false;
        item = dict.entries[position_++].first;
        return true;
    }
    if (source_.is_string()) {
        const Text& text = source_.text();
        if (position_ >= text.size()) return false;
        char32_t c = 0;
        const std::size_t length = decode_code_point(text.view(), position_, c);
        Text character = text.slice(position_, position_ + length);
        character.set_markup(false);
        item = Value::string(std::move(character));
        position_ += length;
        return true;
    }
    return false;
}

std::size_t Iteration::known_size() const {
    if (source_.is_list()) {
        const ListData& list = source_.list_data();
        return list.is_generator() ? SIZE_MAX : list.items.size();
    }
    if (source_.is_dict()) return source_.dict_data().entries.size();
    if (source_.is_string()) return count_code_points(source_.view());
    return 0;
}

std::vector<Value> collect(const Value& source) {
    std::vector<Value> items;
    Iteration iteration(source);
    Value item;
    while (iteration.next(item)) items.push_back(std::move(item));
    return items;
}

}  // namespace taproot::jinja
