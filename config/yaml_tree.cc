// SPDX-License-Identifier: Apache-2.0
#include "config/yaml_tree.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <map>
#include <optional>
#include <sstream>

namespace taproot::config {
namespace {

Place place_of(const YAML::Mark& mark) {
    return mark.is_null() ? Place{} : Place{mark.line + 1, mark.column + 1};
}

// Leaves yaml-cpp's parser from inside an event; caught in parse_yaml.
struct Refused {
    Problem problem;
};

[[noreturn]] void refuse(Place place, std::string message) {
    throw Refused{{"", std::move(message), place}};
}

// How much a value counts against kNodesMax: one, and more for long texts.
std::size_t count_nodes(const YamlNode& node) {
    std::size_t count = 1;
    if (const auto* scalar = node.scalar()) count += scalar->text.size() / 64;
    if (const auto* items = node.sequence())
        for (const YamlNode& item : *items) count += count_nodes(item);
    if (const auto* entries = node.mapping())
        for (const auto& [key, value] : *entries) count += count_nodes(key) + count_nodes(value);
    return count;
}

// Whether the quoted scalar at text[pos] (an anchor may stand before it) ends. yaml-cpp takes the
// rest of a file as the scalar when its last line end comes before a closing quote.
bool is_quote_closed(std::string_view text, std::size_t pos) {
    if (text.starts_with("\xEF\xBB\xBF")) pos += 3;  // not counted by yaml-cpp
    if (pos < text.size() && text[pos] == '&') pos = text.find_first_of(" \t\r\n", pos);
    if (pos == std::string_view::npos) return false;
    pos = text.find_first_not_of(" \t\r\n", pos);
    if (pos == std::string_view::npos) return false;
    const char quote = text[pos];
    if (quote != '\'' && quote != '"') return true;  // a block scalar
    for (++pos; pos < text.size(); ++pos) {
        if (quote == '"' && text[pos] == '\\') {
            ++pos;
        } else if (text[pos] == quote) {
            if (quote == '"' || pos + 1 >= text.size() || text[pos + 1] != quote) return true;
            ++pos;  // '' inside single quotes
        }
    }
    return false;
}

// Builds the tree bottom-up: open collections are on a stack, and a finished node goes to the top.
class TreeBuilder : public YAML::EventHandler {
public:
    explicit TreeBuilder(std::string_view text) : text_(text) {}

    void OnDocumentStart(const YAML::Mark& mark) override {
        if (++documents_ > 1) refuse(place_of(mark), "one document is allowed; remove the '---'");
    }
    void OnDocumentEnd() override {}
    void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
        add({place_of(mark), YamlNode::Null{}}, anchor, true);
    }
    void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
        const auto found = anchors_.find(anchor);
        if (found == anchors_.end()) refuse(place_of(mark), "an alias inside what it stands for");
        const std::size_t nodes = count_nodes(found->second);
        check_nodes(place_of(mark), nodes);
        add(found->second, 0, false);
    }
    void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  const std::string& text) override {
        check_tag(mark, tag);
        if (tag == "!" && !is_quote_closed(text_, static_cast<std::size_t>(mark.pos)))
            refuse(place_of(mark), "the quote that begins here is not closed");
        add({place_of(mark), YamlNode::Scalar{text, tag == "!"}}, anchor, true);
    }
    void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                         YAML::EmitterStyle::value) override {
        check_tag(mark, tag);
        open({place_of(mark), YamlNode::Sequence{}}, anchor);
    }
    void OnSequenceEnd() override { close(); }
    void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                    YAML::EmitterStyle::value) override {
        check_tag(mark, tag);
        open({place_of(mark), YamlNode::Mapping{}}, anchor);
    }
    void OnMapEnd() override { close(); }

    YamlNode take() { return std::move(root_); }

private:
    struct Open {
        YamlNode node;
        YAML::anchor_t anchor;
        std::optional<YamlNode> key;  // of a mapping, waiting for its value
    };

    static void check_tag(const YAML::Mark& mark, const std::string& tag) {
        if (!tag.empty() && tag != "?" && tag != "!")
            refuse(place_of(mark), fmt::format("the tag {} is not allowed", tag.substr(0, 60)));
    }
    void check_nodes(Place place, std::size_t nodes) {
        nodes_ += nodes;
        if (nodes_ > kNodesMax)
            refuse(place, fmt::format("more than {} values, aliases counted as what they stand for",
                                      kNodesMax));
    }
    void open(YamlNode node, YAML::anchor_t anchor) {
        if (stack_.size() >= kNestingMax)
            refuse(node.place, fmt::format("nested deeper than {}", kNestingMax));
        check_nodes(node.place, 1);
        stack_.push_back({std::move(node), anchor, std::nullopt});
    }
    void close() {
        Open done = std::move(stack_.back());
        stack_.pop_back();
        add(std::move(done.node), done.anchor, false);
    }
    // Collections and aliases are counted before they come here.
    void add(YamlNode node, YAML::anchor_t anchor, bool is_uncounted) {
        if (is_uncounted) check_nodes(node.place, count_nodes(node));
        if (anchor != 0) anchors_[anchor] = node;
        if (stack_.empty()) {
            root_ = std::move(node);
            return;
        }
        Open& top = stack_.back();
        if (auto* items = std::get_if<YamlNode::Sequence>(&top.node.value)) {
            items->push_back(std::move(node));
        } else if (!top.key) {
            if (node.scalar() == nullptr)
                refuse(node.place, fmt::format("a key must be text, not {}", node.type_name()));
            top.key = std::move(node);
        } else {
            std::get<YamlNode::Mapping>(top.node.value)
                .push_back({std::move(*top.key), std::move(node)});
            top.key.reset();
        }
    }

    std::string_view text_;
    YamlNode root_;
    std::vector<Open> stack_;
    std::map<YAML::anchor_t, YamlNode> anchors_;
    std::size_t nodes_ = 0;
    int documents_ = 0;
};

// YAML forbids tabs as indentation, but yaml-cpp reports the consequence and not the tab.
std::optional<Place> find_indenting_tab(std::string_view text) {
    int line = 1;
    for (std::size_t begin = 0; begin < text.size(); ++line) {
        std::size_t pos = begin;
        while (pos < text.size() && text[pos] == ' ') ++pos;
        if (pos < text.size() && text[pos] == '\t') {
            const std::size_t content = text.find_first_not_of(" \t\r", pos);
            const bool blank =
                content == std::string_view::npos || text[content] == '\n' || text[content] == '#';
            if (!blank) return Place{line, static_cast<int>(pos - begin) + 1};
        }
        const std::size_t end = text.find('\n', begin);
        if (end == std::string_view::npos) break;
        begin = end + 1;
    }
    return std::nullopt;
}

}  // namespace

const YamlNode::Scalar* YamlNode::scalar() const {
    return std::get_if<Scalar>(&value);
}
const YamlNode::Sequence* YamlNode::sequence() const {
    return std::get_if<Sequence>(&value);
}
const YamlNode::Mapping* YamlNode::mapping() const {
    return std::get_if<Mapping>(&value);
}
bool YamlNode::is_null() const {
    return std::holds_alternative<Null>(value);
}

const char* YamlNode::type_name() const {
    if (scalar() != nullptr) return "a single value";
    if (sequence() != nullptr) return "a list";
    if (mapping() != nullptr) return "a mapping";
    return "null";
}

bool parse_yaml(std::string_view text, YamlNode* out, Problem* problem) {
    if (text.size() > kDocumentBytesMax) {
        *problem = {"", fmt::format("{} bytes; at most {}", text.size(), kDocumentBytesMax), {}};
        return false;
    }
    if (text.find('\0') != std::string_view::npos) {
        *problem = {"", "holds a NUL byte; this is no text file", {}};
        return false;
    }
    if (const auto tab = find_indenting_tab(text)) {
        *problem = {"", "a tab as indentation; use spaces", *tab};
        return false;
    }
    try {
        std::istringstream stream{std::string(text)};
        YAML::Parser parser(stream);
        TreeBuilder builder(text);
        while (parser.HandleNextDocument(builder)) {
        }
        *out = builder.take();
        return true;
    } catch (const Refused& refused) {
        *problem = refused.problem;
    } catch (const YAML::Exception& error) {
        *problem = {"", error.msg, place_of(error.mark)};
    } catch (const std::exception& error) {  // yaml-cpp's own containers
        *problem = {"", fmt::format("cannot be read as YAML: {}", error.what()), {}};
    }
    return false;
}

}  // namespace taproot::config
