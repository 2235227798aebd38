// SPDX-License-Identifier: Apache-2.0
#include "link/codec.h"

#include <fmt/format.h>

#include <concepts>
#include <limits>
#include <type_traits>
#include <utility>

#include "link/fields.h"
#include "link/msgpack.h"
#include "link/records.h"

namespace taproot::link {
namespace {

template <typename T>
inline constexpr bool is_strong_id = false;
template <typename Tag, typename Rep>
inline constexpr bool is_strong_id<StrongId<Tag, Rep>> = true;

// --- the three users of the field lists ----------------------------------------------------------

struct Counter {
    template <typename T>
    using Of = const T&;
    std::size_t count = 0;

    void field(const char*, const auto&) { ++count; }
    void field(const char*, const auto&, auto) { ++count; }
    void token(const char*, TokenId, bool) { ++count; }
    void records(const char*, const auto&, std::size_t) { ++count; }
    void structs(const char*, const auto&, std::size_t) { ++count; }
    void lists(const char*, const auto&, std::size_t, std::size_t) { ++count; }
    void nested(const char*, const auto&) { ++count; }
    void bytes(const char*, const std::string&, std::size_t) { ++count; }
};

template <typename M>
std::size_t count_fields() {
    static const std::size_t kCount = [] {
        Counter counter;
        fields(counter, M{});
        return counter.count;
    }();
    return kCount;
}

// How many fields of a TokenOutput are worth sending: trailing defaults stay home.
std::size_t fields_to_send(const TokenOutput& m) {
    if (!m.top_logprobs.empty()) return 8;
    if (m.logits_hash) return 7;
    if (m.logprob) return 6;
    if (m.stop_token) return 5;
    return m.finish != FinishReason::kNone ? 4 : kTokenFieldsMin;
}

class Writer {
public:
    template <typename T>
    using Of = const T&;

    explicit Writer(std::string& out) : out_(out) {}

    template <typename M>
    void message(std::size_t tag, const M& m) {
        out_.array(1 + count_fields<M>());
        out_.uint(tag);
        fields(*this, m);
    }

    template <typename T>
    void field(const char* name, const T& value) {
        if (left_ == 0) return;
        if constexpr (std::same_as<T, bool>) {
            spend(), out_.boolean(value);
        } else if constexpr (std::same_as<T, float>) {
            spend(), out_.float32(value);
        } else if constexpr (std::same_as<T, double>) {
            spend(), out_.float64(value);
        } else if constexpr (is_strong_id<T>) {
            field(name, value.value);
        } else if constexpr (std::signed_integral<T>) {
            spend(), out_.sint(value);
        } else {
            static_assert(std::unsigned_integral<T>);
            spend(), out_.uint(value);
        }
    }
    template <typename T>
    void field(const char* name, const std::optional<T>& value) {
        if (value) return field(name, *value);
        if (left_ == 0) return;
        spend(), out_.nil();
    }
    template <typename T>
    requires std::is_enum_v<T>
    void field(const char*, T value, T) {
        if (left_ == 0) return;
        spend(), out_.uint(static_cast<std::uint64_t>(value));
    }
    void field(const char*, const std::string& value, std::size_t) { out_.string(value); }
    void bytes(const char*, const std::string& value, std::size_t) {
        auto room = out_.binary(value.size());
        if (!value.empty()) std::memcpy(room.data(), value.data(), value.size());
    }
    void token(const char*, TokenId token, bool present) {
        spend();
        present ? out_.sint(token) : out_.nil();
    }
    template <typename T>
    void records(const char*, const std::vector<T>& values, std::size_t) {
        if (left_ == 0) return;
        spend();
        auto room = out_.binary(values.size() * Record<T>::kBytes);
        if constexpr (std::is_arithmetic_v<T>) {
            if (!values.empty()) std::memcpy(room.data(), values.data(), room.size());
        } else {
            char* to = room.data();
            for (const T& value : values) {
                Record<T>::store(to, value);
                to += Record<T>::kBytes;
            }
        }
    }
    template <typename T>
    void lists(const char* name, const std::vector<std::vector<T>>& values, std::size_t,
               std::size_t count_max) {
        out_.array(values.size());
        for (const auto& list : values) records(name, list, count_max);
    }
    template <typename M>
    void structs(const char* name, const std::vector<M>& values, std::size_t) {
        out_.array(values.size());
        for (const M& value : values) nested(name, value);
    }
    template <typename M>
    void nested(const char*, const M& value) {
        if constexpr (std::same_as<M, TokenOutput>) {
            std::size_t count = fields_to_send(value);
            out_.array(count);
            left_ = count;
            fields(*this, value);
            left_ = kUnlimited;
        } else {
            out_.array(count_fields<M>());
            fields(*this, value);
        }
    }

private:
    static constexpr std::size_t kUnlimited = std::numeric_limits<std::size_t>::max();
    void spend() {
        if (left_ != kUnlimited) --left_;
    }

    MsgpackWriter out_;
    std::size_t left_ = kUnlimited;  // fields of a TokenOutput still to send
};

// Prompts are the bulk of what the link carries: one copy and one vector loop. False when a token
// is negative.
bool copy_tokens(std::string_view raw, std::vector<TokenId>& values) {
    if (values.empty()) return true;
    std::memcpy(values.data(), raw.data(), raw.size());
    TokenId all = 0;
    for (TokenId token : values) all |= token;
    return all >= 0;
}

class Reader {
public:
    template <typename T>
    using Of = T&;

    explicit Reader(std::string_view bytes) : in_(bytes) {}

    MsgpackReader& raw() { return in_; }

    template <typename T>
    void field(const char* name, T& value) {
        if (left_ == 0) return;
        if constexpr (std::same_as<T, bool>) {
            spend(), value = in_.boolean(name);
        } else if constexpr (std::same_as<T, float>) {
            spend(), value = in_.float32(name);
        } else if constexpr (std::same_as<T, double>) {
            spend(), value = in_.float64(name);
        } else if constexpr (is_strong_id<T>) {
            field(name, value.value);
        } else if constexpr (std::signed_integral<T>) {
            spend();
            value = static_cast<T>(
                in_.sint(name, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
        } else {
            static_assert(std::unsigned_integral<T>);
            spend(), value = static_cast<T>(in_.uint(name, std::numeric_limits<T>::max()));
        }
    }
    template <typename T>
    void field(const char* name, std::optional<T>& value) {
        if (left_ == 0) return;
        if (in_.take_nil()) return spend(), value.reset();
        field(name, value.emplace());
    }
    template <typename T>
    requires std::is_enum_v<T>
    void field(const char* name, T& value, T last) {
        if (left_ == 0) return;
        spend(), value = static_cast<T>(in_.uint(name, static_cast<std::uint64_t>(last)));
    }
    void field(const char* name, std::string& value, std::size_t bytes_max) {
        value = in_.string(name, bytes_max);
    }
    void bytes(const char* name, std::string& value, std::size_t bytes_max) {
        value = in_.binary(name, bytes_max);
    }
    void token(const char* name, TokenId& token, bool& present) {
        spend();
        present = !in_.take_nil();
        token = present
                    ? static_cast<TokenId>(in_.sint(name, 0, std::numeric_limits<TokenId>::max()))
                    : 0;
    }
    template <typename T>
    void records(const char* name, std::vector<T>& values, std::size_t count_max) {
        values.clear();
        if (left_ == 0) return;
        spend();
        std::string_view raw = in_.binary(name, count_max * Record<T>::kBytes);
        if (raw.size() % Record<T>::kBytes != 0)
            return in_.fail(name, fmt::format("has {} bytes, not a multiple of {}", raw.size(),
                                              Record<T>::kBytes));
        values.resize(raw.size() / Record<T>::kBytes);
        if constexpr (std::same_as<T, TokenId>) {
            if (copy_tokens(raw, values)) return;  // else the loop below finds the bad one
        }
        for (std::size_t i = 0; i < values.size(); ++i) {
            const char* wrong = Record<T>::load(raw.data() + i * Record<T>::kBytes, &values[i]);
            if (wrong != nullptr) return in_.fail(name, fmt::format("[{}] {}", i, wrong));
        }
    }
    template <typename T>
    void lists(const char* name, std::vector<std::vector<T>>& values, std::size_t lists_max,
               std::size_t count_max) {
        std::size_t count = in_.array(name, lists_max);
        values.clear();
        values.reserve(reserve_for(count));
        for (std::size_t i = 0; i < count && in_.ok(); ++i)
            records(name, values.emplace_back(), count_max);
    }
    template <typename M>
    void structs(const char* name, std::vector<M>& values, std::size_t count_max) {
        std::size_t count = in_.array(name, count_max);
        values.clear();
        values.reserve(reserve_for(count));
        for (std::size_t i = 0; i < count && in_.ok(); ++i) nested(name, values.emplace_back());
    }
    template <typename M>
    void nested(const char* name, M& value) {
        if constexpr (std::same_as<M, TokenOutput>) {
            std::size_t count = in_.array(name, kTokenFieldsMax);
            if (in_.ok() && count < kTokenFieldsMin)
                in_.fail(name, fmt::format("has {} fields, at least {}", count, kTokenFieldsMin));
            if (!in_.ok()) return;
            left_ = count;
            fields(*this, value);
            left_ = kUnlimited;
        } else {
            std::size_t count = in_.array(name, count_fields<M>());
            if (in_.ok() && count != count_fields<M>())
                in_.fail(name, fmt::format("has {} fields, expected {}", count, count_fields<M>()));
            if (in_.ok()) fields(*this, value);
        }
    }

private:
    static constexpr std::size_t kUnlimited = std::numeric_limits<std::size_t>::max();
    void spend() {
        if (left_ != kUnlimited) --left_;
    }
    // A short frame may claim many small elements; the vector grows as they really come.
    static std::size_t reserve_for(std::size_t count) {
        return std::min<std::size_t>(count, 4'096);
    }

    MsgpackReader in_;
    std::size_t left_ = kUnlimited;  // fields of a TokenOutput still to come
};

// --- variants ------------------------------------------------------------------------------------

template <typename Variant, typename M, std::size_t I = 0>
constexpr std::size_t tag_of() {
    if constexpr (std::same_as<std::variant_alternative_t<I, Variant>, M>)
        return I;
    else
        return tag_of<Variant, M, I + 1>();
}

template <typename Variant, typename M>
void encode_as(const M& message, std::string& out) {
    Writer(out).message(tag_of<Variant, M>(), message);
}

template <typename Variant>
void encode_variant(const Variant& message, std::string& out) {
    std::visit([&out](const auto& m) { encode_as<Variant>(m, out); }, message);
}

// Hello of any version: of a foreign one only the head is read and the rest passed over.
void read_hello(Reader& reader, std::size_t count, Hello& m) {
    MsgpackReader& in = reader.raw();
    if (count < kHelloHeadFields) return in.fail("Hello", fmt::format("has only {} fields", count));
    hello_head(reader, m);
    if (!in.ok()) return;
    if (m.version != kProtocolVersion) {
        for (std::size_t i = kHelloHeadFields; i < count && in.ok(); ++i) in.skip("Hello");
        return;
    }
    if (count != count_fields<Hello>())
        return in.fail("Hello",
                       fmt::format("has {} fields, expected {}", count, count_fields<Hello>()));
    hello_rest(reader, m);
}

template <typename Variant, std::size_t I = 0>
void read_alternative(Reader& reader, std::size_t tag, std::size_t count, Variant& out) {
    if constexpr (I < std::variant_size_v<Variant>) {
        if (tag != I) return read_alternative<Variant, I + 1>(reader, tag, count, out);
        using M = std::variant_alternative_t<I, Variant>;
        M& m = out.template emplace<I>();
        if constexpr (std::same_as<M, Hello>) {
            read_hello(reader, count, m);
        } else if (count != count_fields<M>()) {
            reader.raw().fail(name_of(out),
                              fmt::format("has {} fields, expected {}", count, count_fields<M>()));
        } else {
            fields(reader, m);
        }
    }
}

// What holds between fields. Empty when all is well.
template <typename Variant>
Result<void> check_rules(const Variant& message) {
    if constexpr (std::same_as<Variant, ToWorker>) {
        if (const auto* generate = std::get_if<Generate>(&message)) return validate(*generate);
    } else {
        const auto* step = std::get_if<StepOutput>(&message);
        if (step == nullptr) return {};
        for (const PromptLogprobs& entry : step->prompt_logprobs)
            if (!entry.top.empty() && entry.top.size() != entry.logprobs.size())
                return invalid_argument(fmt::format("has {} entries for {} tokens",
                                                    entry.top.size(), entry.logprobs.size()),
                                        "PromptLogprobs.top");
    }
    return {};
}

template <typename Variant>
Result<Variant> decode_variant(std::string_view& frame) {
    constexpr std::size_t kFieldsMax = 4'096;  // a Hello of the future
    Reader reader(frame);
    MsgpackReader& in = reader.raw();
    std::size_t count = in.array("message", kFieldsMax);
    if (in.ok() && count == 0) in.fail("message", "is an empty array");
    auto tag = static_cast<std::size_t>(in.uint("message.tag", std::variant_size_v<Variant> - 1));
    Variant out;
    if (in.ok()) read_alternative(reader, tag, count - 1, out);
    if (!in.ok()) return in.error();
    if (auto checked = check_rules(out); !checked)
        return Error{ErrorCode::kDataLoss, checked.error().message, checked.error().where};
    frame.remove_prefix(in.offset());
    return out;
}

}  // namespace

void encode(const ToGateway& message, std::string& out) {
    encode_variant(message, out);
}
void encode(const ToWorker& message, std::string& out) {
    encode_variant(message, out);
}
void encode(const StepOutput& message, std::string& out) {
    encode_as<ToGateway>(message, out);
}
void encode(const KvEventBatch& message, std::string& out) {
    encode_as<ToGateway>(message, out);
}
void encode(const KvSnapshot& message, std::string& out) {
    encode_as<ToGateway>(message, out);
}
void encode(const Load& message, std::string& out) {
    encode_as<ToGateway>(message, out);
}
void encode(const Generate& message, std::string& out) {
    encode_as<ToWorker>(message, out);
}

Result<ToGateway> decode_to_gateway(std::string_view& frame) {
    return decode_variant<ToGateway>(frame);
}
Result<ToWorker> decode_to_worker(std::string_view& frame) {
    return decode_variant<ToWorker>(frame);
}

const char* name_of(const ToGateway& message) {
    constexpr const char* kNames[] = {"Hello",        "StepOutput", "Rejected",   "Load",
                                      "KvEventBatch", "KvSnapshot", "TextBundle", "Pong"};
    static_assert(std::size(kNames) == std::variant_size_v<ToGateway>);
    return kNames[message.index()];
}
const char* name_of(const ToWorker& message) {
    constexpr const char* kNames[] = {"Generate",  "Cancel",        "CancelChoice",
                                      "FetchText", "FetchSnapshot", "Ping"};
    static_assert(std::size(kNames) == std::variant_size_v<ToWorker>);
    return kNames[message.index()];
}

}  // namespace taproot::link
