// SPDX-License-Identifier: Apache-2.0
// Literals, and what follows a value: .name, [key], [a:b:c], (arguments).
#include <charconv>
#include <cstdlib>

#include "text/jinja/parser_impl.h"

namespace taproot::jinja {

ExprPtr Parser::parse_primary() {
    switch (current().kind) {
        case TokenKind::kName:
            return parse_literal_name(take());
        case TokenKind::kString:
            return parse_string();
        case TokenKind::kInteger:
        case TokenKind::kFloat:
            return parse_number();
        default:
            break;
    }
    if (at_operator("[")) return parse_list();
    if (at_operator("{")) return parse_dict();
    if (!skip_operator("(")) fail("unexpected " + describe_current());
    ExprPtr inner = parse_tuple(true, "", true);
    expect_operator(")");
    return inner;
}

ExprPtr Parser::parse_literal_name(const Token& token) {
    ExprPtr node = make(ExprKind::kLiteral, token.line);
    const std::string& name = token.text;
    if (name == "true" || name == "True") {
        node->value = Value::boolean(true);
    } else if (name == "false" || name == "False") {
        node->value = Value::boolean(false);
    } else if (name == "none" || name == "None") {
        node->value = Value::none();
    } else {
        node->kind = ExprKind::kName;
        node->name = name;
        node->symbol = symbol(name);
        node->value = make_undefined({.name = name});
        mentions_.loop |= node->symbol == kLoopSymbol;
        mentions_.caller |= node->symbol == kCallerSymbol;
        mentions_.varargs |= node->symbol == kVarargsSymbol;
        mentions_.kwargs |= node->symbol == kKwargsSymbol;
    }
    return node;
}

ExprPtr Parser::parse_string() {
    ExprPtr node = make(ExprKind::kLiteral, current().line);
    std::string text;
    while (at(TokenKind::kString)) text += take().text;
    node->value = Value::template_string(std::move(text));
    return node;
}

ExprPtr Parser::parse_number() {
    const Token token = take();
    ExprPtr node = make(ExprKind::kLiteral, token.line);
    if (token.kind == TokenKind::kFloat) {
        node->value = Value::number(std::strtod(token.text.c_str(), nullptr));
        return node;
    }
    const char prefix = token.text.size() > 1 ? static_cast<char>(token.text[1] | 0x20) : '0';
    const int base = prefix == 'x' ? 16 : prefix == 'o' ? 8 : prefix == 'b' ? 2 : 10;
    const std::string digits = base == 10 ? token.text : token.text.substr(2);
    std::int64_t value = 0;
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    if (parsed.ec == std::errc()) {
        node->value = Value::integer(value);
    } else if (base == 10) {
        node->value = Value::big_integer(digits);
    } else {
        fail("the number " + token.text + " does not fit 64 bits");
    }
    return node;
}

ExprPtr Parser::parse_list() {
    ExprPtr node = make(ExprKind::kList, current().line);
    expect_operator("[");
    while (!at_operator("]")) {
        if (!node->items.empty()) expect_operator(",");
        if (at_operator("]")) break;
        adopt(*node, parse_expression());
    }
    expect_operator("]");
    return node;
}

ExprPtr Parser::parse_dict() {
    ExprPtr node = make(ExprKind::kDict, current().line);
    expect_operator("{");
    while (!at_operator("}")) {
        if (!node->items.empty()) expect_operator(",");
        if (at_operator("}")) break;
        adopt(*node, parse_expression());
        expect_operator(":");
        adopt(*node, parse_expression());
    }
    expect_operator("}");
    return node;
}

ExprPtr Parser::parse_postfix(ExprPtr node) {
    for (;;) {
        if (at_operator(".")) {
            node = parse_dot(std::move(node));
        } else if (at_operator("[")) {
            node = parse_brackets(std::move(node));
        } else if (at_operator("(")) {
            node = parse_call(std::move(node));
        } else {
            return node;
        }
    }
}

ExprPtr Parser::parse_dot(ExprPtr object) {
    const int line = take().line;
    if (at(TokenKind::kName)) {
        ExprPtr node = make(ExprKind::kAttribute, line);
        adopt(*node, std::move(object));
        node->name = take().text;
        return node;
    }
    if (!at(TokenKind::kInteger))
        fail("expected a name or number after '.', got " + describe_current());
    ExprPtr node = make(ExprKind::kItem, line);
    adopt(*node, std::move(object));
    adopt(*node, parse_number());
    return node;
}

ExprPtr Parser::parse_brackets(ExprPtr object) {
    const int line = take().line;
    if (skip_operator(":")) return parse_slice(std::move(object), nullptr);
    ExprPtr key = parse_expression();
    if (skip_operator(":")) return parse_slice(std::move(object), std::move(key));
    if (at_operator(",")) {
        ExprPtr tuple = make(ExprKind::kTuple, line);
        adopt(*tuple, std::move(key));
        while (skip_operator(",")) adopt(*tuple, parse_expression());
        key = std::move(tuple);
    }
    expect_operator("]");
    ExprPtr node = make(ExprKind::kItem, line);
    adopt(*node, std::move(object));
    adopt(*node, std::move(key));
    return node;
}

// After the first ':' of object[start:stop:step].
ExprPtr Parser::parse_slice(ExprPtr object, ExprPtr start) {
    ExprPtr node = make(ExprKind::kSlice, current().line);
    adopt(*node, std::move(object));
    adopt(*node, std::move(start));
    adopt(*node, at_operator(":") || at_operator("]") ? nullptr : parse_expression());
    const bool second = skip_operator(":");
    adopt(*node, second && !at_operator("]") ? parse_expression() : nullptr);
    expect_operator("]");
    return node;
}

ExprPtr Parser::parse_call(ExprPtr callee) {
    ExprPtr node = make(ExprKind::kCall, current().line);
    adopt(*node, std::move(callee));
    adopt_arguments(*node, parse_arguments());
    return node;
}

std::unique_ptr<Arguments> Parser::parse_arguments() {
    expect_operator("(");
    auto arguments = std::make_unique<Arguments>();
    bool first = true;
    while (!at_operator(")")) {
        if (!first) {
            expect_operator(",");
            if (at_operator(")")) break;
        }
        first = false;
        parse_argument(*arguments);
    }
    expect_operator(")");
    return arguments;
}

void Parser::parse_argument(Arguments& arguments) {
    const auto require = [this](bool holds) {
        if (!holds) fail("arguments of a call are in the wrong order");
    };
    if (skip_operator("*")) {
        require(!arguments.star && !arguments.double_star);
        arguments.star = parse_expression();
    } else if (skip_operator("**")) {
        require(!arguments.double_star);
        arguments.double_star = parse_expression();
    } else if (at(TokenKind::kName) && ahead().kind == TokenKind::kOperator &&
               ahead().text == "=") {
        require(!arguments.double_star);
        std::string name = take().text;
        ++pos_;
        for (const auto& [known, value] : arguments.named) {
            if (known == name) fail("keyword argument repeated: " + name);
        }
        arguments.named.emplace_back(std::move(name), parse_expression());
    } else {
        require(!arguments.star && !arguments.double_star && arguments.named.empty());
        arguments.positional.push_back(parse_expression());
    }
}

}  // namespace taproot::jinja
