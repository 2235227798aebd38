// SPDX-License-Identifier: Apache-2.0
#include "worker/model/gguf.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <string>

#include "tests/support/gguf_writer.h"
#include "tests/support/tiny_model.h"

namespace taproot {
namespace {

using testing::GgufBytes;
using testing::GgufWriter;

Result<GgufFile> parse(const std::string& bytes) {
    return GgufFile::parse(std::as_bytes(std::span(bytes)), "m.gguf");
}

// The error's text; fails the test when the file is accepted.
std::string refusal(const std::string& bytes) {
    auto file = parse(bytes);
    if (!file) return file.error().describe();
    ADD_FAILURE() << "accepted";
    return "";
}

bool contains(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}
#define EXPECT_REFUSED(bytes, part)                                                           \
    do {                                                                                      \
        std::string text = refusal(bytes);                                                    \
        EXPECT_TRUE(contains(text, part)) << "\"" << text << "\" lacks \"" << (part) << "\""; \
        EXPECT_TRUE(contains(text, "(byte ")) << text;                                        \
    } while (false)

std::string one_key(std::string_view value_bytes, std::uint32_t type, std::string_view key = "k") {
    return GgufBytes().header(0, 1).key(key, type).raw(value_bytes).bytes;
}

// One tensor info (name "t") and `data_bytes` of data.
std::string one_tensor(std::initializer_list<std::uint64_t> dims, std::uint32_t type,
                       std::uint64_t offset, std::size_t data_bytes) {
    GgufBytes out;
    out.header(1, 0).text("t").put(static_cast<std::uint32_t>(dims.size()));
    for (std::uint64_t dim : dims) out.put(dim);
    out.put(type).put(offset).pad(32);
    return out.raw(std::string(data_bytes, '\0')).bytes;
}

TEST(Gguf, ReadsEveryValueTypeInPlace) {
    GgufBytes bytes;
    bytes.header(0, 13);
    bytes.key("u8", 0).put<std::uint8_t>(200);
    bytes.key("i8", 1).put<std::int8_t>(-5);
    bytes.key("u16", 2).put<std::uint16_t>(65535);
    bytes.key("i16", 3).put<std::int16_t>(-300);
    bytes.key("u32", 4).put<std::uint32_t>(4000000000u);
    bytes.key("i32", 5).put<std::int32_t>(-7);
    bytes.key("f32", 6).put(1.5f);
    bytes.key("bool", 7).put<std::uint8_t>(1);
    bytes.key("text", 8).text(std::string_view("a\0b", 3));
    bytes.key("texts", 9).put<std::uint32_t>(8).put<std::uint64_t>(2).text("x").text("");
    bytes.key("u64", 10).put<std::uint64_t>(1ull << 63);
    bytes.key("i64", 11).put<std::int64_t>(-1);
    bytes.key("f64", 12).put(2.25);
    auto file = parse(bytes.bytes);
    ASSERT_TRUE(file) << file.error().describe();
    EXPECT_EQ(file->find_integer("u8").value(), 200);
    EXPECT_EQ(file->find_integer("i8").value(), -5);
    EXPECT_EQ(file->find_integer("u16").value(), 65535);
    EXPECT_EQ(file->find_integer("i16").value(), -300);
    EXPECT_EQ(file->find_integer("u32").value(), 4000000000);
    EXPECT_EQ(file->find_integer("i32").value(), -7);
    EXPECT_EQ(file->find_real("f32").value(), 1.5);
    EXPECT_EQ(file->find_bool("bool").value(), true);
    EXPECT_EQ(file->find_string("text").value(), std::string_view("a\0b", 3));
    auto texts = file->find_strings("texts").value();
    ASSERT_TRUE(texts);
    EXPECT_EQ(*texts, (std::vector<std::string_view>{"x", ""}));
    EXPECT_FALSE(file->find_integer("u64"));  // beyond 63 bits
    EXPECT_EQ(file->find_integer("i64").value(), -1);
    EXPECT_EQ(file->find_real("f64").value(), 2.25);
    EXPECT_EQ(file->find_integer("absent").value(), std::nullopt);
    auto wrong = file->find_integer("text");
    ASSERT_FALSE(wrong);
    EXPECT_TRUE(contains(wrong.error().describe(), "key 'text'"));
    EXPECT_TRUE(contains(wrong.error().describe(), "string"));
    // Nothing was copied.
    EXPECT_EQ(file->find_string("text").value()->data(),
              bytes.bytes.data() + file->find("text")->offset + 8);
}

TEST(Gguf, ReadsVersion2LikeVersion3AndRefusesOthers) {
    EXPECT_TRUE(parse(GgufBytes().header(0, 0, 2).bytes));
    EXPECT_TRUE(parse(GgufBytes().header(0, 0, 3).bytes));
    EXPECT_REFUSED(GgufBytes().header(0, 0, 1).bytes, "version 1");
    EXPECT_REFUSED(GgufBytes().header(0, 0, 4).bytes, "version 4");
    EXPECT_REFUSED(GgufBytes().header(0, 0, 0x03000000).bytes, "big-endian");
    EXPECT_EQ(parse(GgufBytes().header(0, 0, 4).bytes).error().code, ErrorCode::kUnsupported);
}

TEST(Gguf, RefusesFilesCutAnywhere) {
    std::string whole = testing::tiny_model_writer({.layers = 1}).finish();
    ASSERT_TRUE(parse(whole));
    auto reading = parse(whole);
    std::size_t data = reading->data_offset();
    for (std::size_t size = 0; size < data; size += size < 700 ? 1 : 97)
        EXPECT_FALSE(parse(whole.substr(0, size))) << size;
    EXPECT_FALSE(parse(whole.substr(0, whole.size() - 64)));
}

// Case B180.
TEST(Gguf, HugeDeclaredSizesAreRefusedBeforeAnyMemoryIsTaken) {
    auto peak_kib = [] {
        rusage usage{};
        getrusage(RUSAGE_SELF, &usage);
        return usage.ru_maxrss;
    };
    long before = peak_kib();
    EXPECT_REFUSED(
        GgufBytes().header(0, 1).put<std::uint64_t>(1ull << 30).raw("k").bytes.append(128, 'x'),
        "65535");
    EXPECT_REFUSED(one_key(GgufBytes().put<std::uint64_t>(1ull << 63).bytes, 8), "key 'k'");
    EXPECT_REFUSED(
        one_key(GgufBytes().put<std::uint32_t>(0).put<std::uint64_t>(1ull << 40).bytes, 9),
        "key 'k'");
    // count * size wraps to a small number.
    EXPECT_REFUSED(
        one_key(GgufBytes().put<std::uint32_t>(10).put<std::uint64_t>(1ull << 61).bytes, 9),
        "overflow");
    EXPECT_REFUSED(
        one_key(GgufBytes().put<std::uint32_t>(8).put<std::uint64_t>(1ull << 40).bytes, 9),
        "elements");
    EXPECT_REFUSED(GgufBytes().header(0, 1ull << 60).bytes + std::string(128, 'x'), "keys");
    EXPECT_REFUSED(GgufBytes().header(1ull << 60, 0).bytes + std::string(128, 'x'), "tensors");
    EXPECT_REFUSED(GgufBytes().header(~0ull, ~0ull).bytes + std::string(128, 'x'), "keys");
    EXPECT_LT(peak_kib() - before, 64 * 1024);
}

TEST(Gguf, KeyLengthIsAllowedUpToTheSpecificationsLimit) {
    std::string value = GgufBytes().put<std::uint32_t>(1).bytes;
    EXPECT_TRUE(parse(one_key(value, 4, std::string(65535, 'k'))));
    EXPECT_REFUSED(one_key(value, 4, std::string(65536, 'k')), "65536");
}

// Case B182.
TEST(Gguf, ProductsOfDimensionsNeverWrap) {
    EXPECT_REFUSED(one_tensor({4194305, 4398046511105ull}, 0, 0, 256), "overflow");
    EXPECT_REFUSED(one_tensor({1ull << 63, 2}, 0, 0, 256), "overflow");
    EXPECT_REFUSED(one_tensor({~0ull, 2}, 0, 0, 256), "overflow");
    EXPECT_REFUSED(one_tensor({1ull << 62, 4, 4}, 0, 0, 256), "overflow");
    EXPECT_REFUSED(one_tensor({1ull << 62}, 0, 0, 256), "beyond 64 bits");  // * 4 bytes
    EXPECT_REFUSED(one_tensor({0, 5}, 0, 0, 256), "dimension 0 is 0");
    EXPECT_REFUSED(one_tensor({5, 0}, 0, 0, 256), "dimension 1 is 0");
    EXPECT_REFUSED(one_tensor({33, 2}, 2, 0, 256), "multiple of 32");
    EXPECT_REFUSED(one_tensor({288, 2}, 12, 0, 4096), "multiple of 256");
    EXPECT_REFUSED(one_tensor({}, 0, 0, 256), "0 dimensions");
    EXPECT_REFUSED(one_tensor({1, 1, 1, 1, 1}, 0, 0, 256), "5 dimensions");
    EXPECT_TRUE(parse(one_tensor({32, 2}, 2, 0, 36)));
}

// Case B184.
TEST(Gguf, NestedArraysUnknownTypesAndOddBoolsAreRefused) {
    auto nested = [](int depth) {
        GgufBytes out;
        for (int i = 1; i < depth; ++i) out.put<std::uint32_t>(9).put<std::uint64_t>(1);
        return one_key(out.put<std::uint32_t>(0).put<std::uint64_t>(1).put<std::uint8_t>(7).bytes,
                       9);
    };
    EXPECT_TRUE(parse(nested(4)));
    EXPECT_REFUSED(nested(5), "nested deeper than 4");
    EXPECT_REFUSED(nested(100000), "nested deeper than 4");
    EXPECT_REFUSED(one_key("xxxxxxxx", 13), "13 is unknown");
    EXPECT_REFUSED(one_key("xxxxxxxx", 255), "255 is unknown");
    EXPECT_REFUSED(one_key("\7", 7), "bool is 7");
    EXPECT_REFUSED(one_key(GgufBytes().put<std::uint32_t>(7).put<std::uint64_t>(3).bytes +
                               std::string("\1\0\2", 3),
                           9),
                   "bool is 2");
    EXPECT_REFUSED(
        one_key(GgufBytes().put<std::uint32_t>(99).put<std::uint64_t>(1).bytes + "xxxx", 9),
        "99 is unknown");
}

// Case B186.
TEST(Gguf, TensorRangesLieInTheDataSectionAndApart) {
    EXPECT_TRUE(parse(one_tensor({8}, 0, 0, 32)));
    EXPECT_TRUE(parse(one_tensor({8}, 0, 32, 64)));
    EXPECT_REFUSED(one_tensor({8}, 0, 0, 31), "leave the data section");
    EXPECT_REFUSED(one_tensor({8}, 0, 64, 64), "leave the data section");  // = its size
    EXPECT_REFUSED(one_tensor({8}, 0, 1ull << 63, 64), "leave the data section");
    EXPECT_REFUSED(one_tensor({8}, 0, 1, 64), "multiple of the alignment");
    // Minus one alignment: would be in the header if the sum could wrap.
    EXPECT_REFUSED(one_tensor({8}, 0, 0 - 32ull, 64), "leave the data section");

    auto two = [](std::string_view second, std::uint64_t offset) {
        GgufBytes out;
        out.header(2, 0);
        out.text("a").put<std::uint32_t>(1).put<std::uint64_t>(16).put<std::uint32_t>(0);
        out.put<std::uint64_t>(0);
        out.text(second).put<std::uint32_t>(1).put<std::uint64_t>(8).put<std::uint32_t>(0);
        return out.put(offset).pad(32).raw(std::string(128, '\0')).bytes;
    };
    EXPECT_TRUE(parse(two("b", 64)));
    EXPECT_REFUSED(two("b", 32), "overlaps tensor 'a'");
    EXPECT_REFUSED(two("b", 0), "overlaps");
    EXPECT_REFUSED(two("a", 64), "appears twice");
}

TEST(Gguf, RemovedAndFutureTensorTypesAreNamed) {
    for (std::uint32_t type : {4u, 5u, 31u, 36u, 43u, 1000u, 0xffffffffu}) {
        auto file = parse(one_tensor({32}, type, 0, 256));
        ASSERT_FALSE(file) << type;
        EXPECT_EQ(file.error().code, ErrorCode::kUnsupported);
        EXPECT_TRUE(contains(file.error().describe(), "tensor 't'")) << file.error().describe();
        EXPECT_TRUE(contains(file.error().describe(), std::to_string(type)));
    }
}

TEST(Gguf, DuplicateAndEmptyKeysAreRefused) {
    GgufBytes twice;
    twice.header(0, 2);
    twice.key("same", 4).put<std::uint32_t>(1).key("same", 4).put<std::uint32_t>(1);
    EXPECT_REFUSED(twice.bytes, "appears twice");
    EXPECT_REFUSED(one_key("xxxx", 4, ""), "empty key");  // case B189
}

TEST(Gguf, AlignmentIsAPowerOfTwoOfTypeU32) {
    auto file = [](std::uint32_t type, auto value) {
        return GgufBytes().header(0, 1).key("general.alignment", type).put(value).bytes;
    };
    for (std::uint32_t good : {8u, 32u, 64u, 4096u}) {
        auto parsed = parse(file(4, good));
        ASSERT_TRUE(parsed) << good;
        EXPECT_EQ(parsed->alignment(), good);
        EXPECT_EQ(parsed->data_offset() % good, 0u);
    }
    for (std::uint32_t bad : {0u, 1u, 24u, 48u, 1u << 31, ~0u})
        EXPECT_REFUSED(file(4, bad), "power of two");
    EXPECT_REFUSED(file(10, std::uint64_t{32}), "u32 is required");
    EXPECT_REFUSED(file(5, std::int32_t{32}), "u32 is required");
}

TEST(Gguf, NamesWithControlBytesArePrintableInMessages) {
    std::string text = refusal(one_key("", 4, "a\x1b[31m\n"));
    EXPECT_TRUE(contains(text, "a?[31m?")) << text;
    EXPECT_LT(refusal(one_key("", 4, std::string(60000, 'k'))).size(), 300u);
}

TEST(Gguf, OpenTellsWhatIsWrongWithThePath) {
    auto missing = GgufFile::open("/nonexistent/model.gguf");
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
    EXPECT_TRUE(contains(missing.error().describe(), "/nonexistent/model.gguf"));
    auto folder = GgufFile::open("/tmp");
    ASSERT_FALSE(folder);
    EXPECT_EQ(folder.error().code, ErrorCode::kIo);
    testing::TempFile empty(".gguf", "");
    auto nothing = GgufFile::open(empty.path());
    ASSERT_FALSE(nothing);
    EXPECT_EQ(nothing.error().code, ErrorCode::kDataLoss);
}

TEST(Gguf, ViewsStayValidWhenTheFileObjectMoves) {
    testing::TempFile saved = testing::write_tiny_model();
    auto opened = GgufFile::open(saved.path());
    ASSERT_TRUE(opened) << opened.error().describe();
    const GgufTensor* before = opened->find_tensor("blk.1.ffn_down.weight");
    ASSERT_NE(before, nullptr);
    const std::byte* data = before->bytes.data();
    GgufFile moved = std::move(*opened);
    const GgufTensor* after = moved.find_tensor("blk.1.ffn_down.weight");
    ASSERT_NE(after, nullptr);
    EXPECT_EQ(after->bytes.data(), data);
    EXPECT_EQ(after->type->name, "Q4_1");
    EXPECT_EQ(after->shape(), "[128, 64]");
    EXPECT_EQ(moved.find_string("general.architecture").value(), "llama");
}

}  // namespace
}  // namespace taproot
