// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/loop.h"

#include "text/jinja/ast.h"
#include "text/jinja/callable.h"
#include "text/jinja/raise.h"

namespace taproot::jinja {
namespace {

Value integer(std::int64_t value) {
    return Value::integer(value);
}

Value bound(const std::shared_ptr<LoopData>& loop, const char* name, MethodFunction method) {
    auto callable = std::make_shared<CallableData>();
    callable->kind = CallableData::Kind::kMethod;
    callable->name = name;
    callable->method = method;
    callable->self = make_loop(loop);
    return make_callable(std::move(callable));
}

Value cycle(Interpreter&, const Value& self, const CallArgs& args) {
    if (args.positional.empty()) raise("TypeError", "no items for cycling given");
    const auto index = static_cast<std::size_t>(self.loop()->index0);
    return args.positional[index % args.positional.size()];
}

Value changed(Interpreter&, const Value& self, const CallArgs& args) {
    LoopData& loop = *self.loop();
    const Value seen = Value::list(args.positional, SequenceKind::kTuple);
    const bool same = loop.last_changed && values_equal(*loop.last_changed, seen);
    loop.last_changed = seen;
    return Value::boolean(!same);
}

Value no_item(const char* hint) {
    return make_undefined({.hint = hint});
}

}  // namespace

bool LoopData::pull(Value& item) {
    while (source.next(item)) {
        if (!accepts || accepts(item)) return true;
    }
    return false;
}

bool LoopData::advance() {
    Value item;
    if (!ahead.empty()) {
        item = std::move(ahead.front());
        ahead.pop_front();
    } else if (!pull(item)) {
        return false;
    }
    ++index0;
    previous = std::move(current);
    current = std::move(item);
    return true;
}

const Value* LoopData::peek() {
    if (ahead.empty()) {
        Value item;
        if (!pull(item)) return nullptr;
        ahead.push_back(std::move(item));
    }
    return &ahead.front();
}

std::int64_t LoopData::length() {
    if (known_length) return *known_length;
    if (!accepts && source.known_size() != SIZE_MAX) {
        known_length = static_cast<std::int64_t>(source.known_size());
        return *known_length;
    }
    Value item;
    while (pull(item)) ahead.push_back(std::move(item));
    known_length = index0 + 1 + static_cast<std::int64_t>(ahead.size());
    return *known_length;
}

std::string LoopData::describe() {
    return "<LoopContext " + std::to_string(index0 + 1) + "/" + std::to_string(length()) + ">";
}

std::optional<Value> loop_attribute(const std::shared_ptr<LoopData>& loop, std::string_view name) {
    if (name == "index") return integer(loop->index0 + 1);
    if (name == "index0") return integer(loop->index0);
    if (name == "first") return Value::boolean(loop->index0 == 0);
    if (name == "last") return Value::boolean(loop->peek() == nullptr);
    if (name == "length") return integer(loop->length());
    if (name == "revindex") return integer(loop->length() - loop->index0);
    if (name == "revindex0") return integer(loop->length() - loop->index0 - 1);
    if (name == "depth") return integer(loop->depth0 + 1);
    if (name == "depth0") return integer(loop->depth0);
    if (name == "cycle") return bound(loop, "cycle", cycle);
    if (name == "changed") return bound(loop, "changed", changed);
    if (name == "previtem")
        return loop->index0 == 0 ? no_item("there is no previous item") : loop->previous;
    if (name == "nextitem") {
        const Value* next = loop->peek();
        return next == nullptr ? no_item("there is no next item") : *next;
    }
    return std::nullopt;
}

}  // namespace taproot::jinja
