// SPDX-License-Identifier: Apache-2.0
// Agreement with jinja2 itself: jinja_expected.json (made by jinja_make_expected.py) and the shared
// semantics goldens.
#include <algorithm>
#include <regex>

#include "tests/support/shared_data.h"
#include "tests/text/jinja_support.h"

namespace taproot::jinja::testing {
namespace {

using taproot::testing::read_file;
using taproot::testing::shared_dir;

// Python prints addresses of generators and methods; no two runs agree on them.
std::string without_addresses(const std::string& text) {
    static const std::regex address("0x7[0-9a-f]{9,}");
    return std::regex_replace(text, address, "0xADDRESS");
}

std::string error_class(const Error& error) {
    const std::size_t colon = error.message.find(": ");
    return colon == std::string::npos ? "" : error.message.substr(0, colon);
}

// The text inside a Python string literal, as repr writes it.
std::string from_python_repr(std::string_view literal) {
    const std::string source = "{{ " + std::string(literal) + " }}";
    return render(source);
}

class Expected : public ::testing::TestWithParam<const char*> {};

TEST_P(Expected, RendersWhatJinja2Renders) {
    const std::string group = GetParam();
    const Value file =
        json(read_file(std::string(TAPROOT_SOURCE_DIR) + "/tests/text/jinja_expected.json"));
    const Value& context = *file.find("context");
    int compared = 0;
    for (const Value& test_case : file.find("cases")->list_data().items) {
        if (test_case.find("group")->view() != group) continue;
        ++compared;
        const std::string source(test_case.find("template")->view());
        const Result<Text> text = try_render(source, context, strict_options());
        if (const Value* wanted = test_case.find("out")) {
            ASSERT_TRUE(text) << source << "\n  " << text.error().describe() << "\n  wanted "
                              << wanted->view();
            EXPECT_EQ(without_addresses(text->bytes()), wanted->view()) << source;
        } else {
            ASSERT_FALSE(text) << source << "\n  gave " << text->bytes();
            const std::string_view error = test_case.find("error")->view();
            if (error.empty()) continue;
            EXPECT_EQ(error_class(text.error()), error) << source << "\n  " << text.error().message;
        }
    }
    EXPECT_GT(compared, 0);
}

INSTANTIATE_TEST_SUITE_P(Jinja, Expected,
                         ::testing::Values("whitespace", "literals", "operators", "lookup",
                                           "statements", "filters", "tests", "methods",
                                           "syntax errors", "random"),
                         [](const auto& group) {
                             std::string name = group.param;
                             std::replace(name.begin(), name.end(), ' ', '_');
                             return name;
                         });

TEST(Jinja, AgreesWithEverySharedSemanticsGolden) {
    const auto path = shared_dir() / "data" / "jinja_semantics_goldens.json";
    TAPROOT_NEEDS_FILE(path);
    const Value cases = json(read_file(path));
    for (const Value& test_case : cases.list_data().items) {
        const std::string source(test_case.find("template")->view());
        const std::string wanted(test_case.find("result")->view());
        const Result<Text> text = try_render(source, *test_case.find("context"), strict_options());
        if (wanted.starts_with("ERR ")) {
            ASSERT_FALSE(text) << source;
            EXPECT_EQ(text.error().message, wanted.substr(4)) << source;
        } else {
            ASSERT_TRUE(text) << source << "\n  " << text.error().describe();
            EXPECT_EQ(without_addresses(text->bytes()), without_addresses(from_python_repr(wanted)))
                << source;
        }
    }
    EXPECT_GE(cases.list_data().items.size(), 30U);
}

}  // namespace
}  // namespace taproot::jinja::testing
