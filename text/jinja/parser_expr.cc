// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>

#include "text/jinja/builtins.h"
#include "text/jinja/parser_impl.h"

namespace taproot::jinja {

ExprPtr Parser::make(ExprKind kind, int line) const {
    auto node = std::make_unique<Expr>();
    node->kind = kind;
    node->line = line;
    return node;
}

void Parser::raise_height(Expr& parent, int child_height) const {
    parent.height = std::max(parent.height, child_height + 1);
    if (parent.height > kMaxTemplateDepth) fail("an expression is nested deeper than 200 levels");
}

void Parser::adopt(Expr& parent, ExprPtr child) const {
    if (child != nullptr) raise_height(parent, child->height);
    parent.items.push_back(std::move(child));
}

void Parser::adopt_arguments(Expr& parent, std::unique_ptr<Arguments> arguments) const {
    if (arguments == nullptr) return;
    for (const ExprPtr& argument : arguments->positional) raise_height(parent, argument->height);
    for (const auto& [name, argument] : arguments->named) raise_height(parent, argument->height);
    if (arguments->star) raise_height(parent, arguments->star->height);
    if (arguments->double_star) raise_height(parent, arguments->double_star->height);
    parent.arguments = std::move(arguments);
}

ExprPtr Parser::parse_expression(bool with_conditional) {
    const Nested nested(*this);
    return with_conditional ? parse_conditional() : parse_or();
}

ExprPtr Parser::parse_conditional() {
    ExprPtr result = parse_or();
    while (at_name("if")) {
        const int line = take().line;
        ExprPtr node = make(ExprKind::kConditional, line);
        adopt(*node, parse_or());
        adopt(*node, std::move(result));
        if (skip_name("else")) adopt(*node, parse_expression());
        result = std::move(node);
    }
    return result;
}

ExprPtr Parser::parse_or() {
    ExprPtr left = parse_and();
    while (at_name("or")) {
        ExprPtr node = make(ExprKind::kOr, take().line);
        adopt(*node, std::move(left));
        adopt(*node, parse_and());
        left = std::move(node);
    }
    return left;
}

ExprPtr Parser::parse_and() {
    ExprPtr left = parse_not();
    while (at_name("and")) {
        ExprPtr node = make(ExprKind::kAnd, take().line);
        adopt(*node, std::move(left));
        adopt(*node, parse_not());
        left = std::move(node);
    }
    return left;
}

ExprPtr Parser::parse_not() {
    if (!at_name("not")) return parse_compare();
    const Nested nested(*this);
    ExprPtr node = make(ExprKind::kNot, take().line);
    adopt(*node, parse_not());
    return node;
}

bool Parser::take_compare_op(CompareOp& op) {
    static constexpr std::pair<std::string_view, CompareOp> kOps[] = {
        {"==", CompareOp::kEq}, {"!=", CompareOp::kNe}, {"<=", CompareOp::kLe},
        {">=", CompareOp::kGe}, {"<", CompareOp::kLt},  {">", CompareOp::kGt},
    };
    for (const auto& [text, value] : kOps) {
        if (skip_operator(text)) {
            op = value;
            return true;
        }
    }
    if (skip_name("in")) {
        op = CompareOp::kIn;
        return true;
    }
    if (at_name("not") && ahead().kind == TokenKind::kName && ahead().text == "in") {
        pos_ += 2;
        op = CompareOp::kNotIn;
        return true;
    }
    return false;
}

ExprPtr Parser::parse_compare() {
    ExprPtr first = parse_sum();
    const int line = current().line;
    CompareOp op{};
    if (!take_compare_op(op)) return first;
    ExprPtr node = make(ExprKind::kCompare, line);
    adopt(*node, std::move(first));
    do {
        node->compare_ops.push_back(op);
        adopt(*node, parse_sum());
    } while (take_compare_op(op));
    return node;
}

ExprPtr Parser::arithmetic(ArithmeticOp op, ExprPtr left, ExprPtr right, int line) const {
    ExprPtr node = make(ExprKind::kArithmetic, line);
    node->op = op;
    adopt(*node, std::move(left));
    adopt(*node, std::move(right));
    return node;
}

ExprPtr Parser::parse_sum() {
    ExprPtr left = parse_concat();
    while (at_operator("+") || at_operator("-")) {
        const Token token = take();
        const ArithmeticOp op = token.text == "+" ? ArithmeticOp::kAdd : ArithmeticOp::kSub;
        left = arithmetic(op, std::move(left), parse_concat(), token.line);
    }
    return left;
}

ExprPtr Parser::parse_concat() {
    ExprPtr first = parse_product();
    if (!at_operator("~")) return first;
    ExprPtr node = make(ExprKind::kConcat, current().line);
    adopt(*node, std::move(first));
    while (skip_operator("~")) adopt(*node, parse_product());
    return node;
}

ExprPtr Parser::parse_product() {
    static constexpr std::pair<std::string_view, ArithmeticOp> kOps[] = {
        {"*", ArithmeticOp::kMul},
        {"/", ArithmeticOp::kDiv},
        {"//", ArithmeticOp::kFloorDiv},
        {"%", ArithmeticOp::kMod},
    };
    ExprPtr left = parse_power();
    for (;;) {
        const auto* op = std::find_if(std::begin(kOps), std::end(kOps), [this](const auto& known) {
            return at_operator(known.first);
        });
        if (op == std::end(kOps)) return left;
        const int line = take().line;
        left = arithmetic(op->second, std::move(left), parse_power(), line);
    }
}

ExprPtr Parser::parse_power() {
    ExprPtr left = parse_unary();
    while (at_operator("**")) {
        const int line = take().line;
        left = arithmetic(ArithmeticOp::kPow, std::move(left), parse_unary(), line);
    }
    return left;
}

ExprPtr Parser::parse_unary(bool with_filters) {
    ExprPtr node;
    if (at_operator("-") || at_operator("+")) {
        const Nested nested(*this);
        const Token token = take();
        node = make(token.text == "-" ? ExprKind::kNegate : ExprKind::kPlus, token.line);
        adopt(*node, parse_unary(false));
    } else {
        node = parse_primary();
    }
    node = parse_postfix(std::move(node));
    return with_filters ? parse_filters_and_tests(std::move(node)) : std::move(node);
}

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

ExprPtr Parser::parse_tuple(bool with_conditional, std::string_view until, bool parenthesised) {
    const int line = current().line;
    const auto at_end = [this, until] {
        return at(TokenKind::kPrintEnd) || at(TokenKind::kBlockEnd) || at_operator(")") ||
               (!until.empty() && at_name(until));
    };
    ExprPtr tuple = make(ExprKind::kTuple, line);
    bool comma = false;
    while (!at_end()) {
        adopt(*tuple, parse_expression(with_conditional));
        if (!skip_operator(",")) break;
        comma = true;
    }
    if (comma || (parenthesised && tuple->items.empty())) return tuple;
    if (tuple->items.empty()) fail("expected an expression, got " + describe_current());
    return std::move(tuple->items.front());
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

ExprPtr Parser::parse_filters_and_tests(ExprPtr node) {
    for (;;) {
        if (at_operator("|")) {
            node = parse_filter_chain(std::move(node), false);
        } else if (at_name("is")) {
            node = parse_test(std::move(node));
        } else if (at_operator("(")) {
            node = parse_call(std::move(node));
        } else {
            return node;
        }
    }
}

// `started`: the first filter's name comes without a '|' (filter blocks).
ExprPtr Parser::parse_filter_chain(ExprPtr node, bool started) {
    while (started || at_operator("|")) {
        if (!started) take();
        started = false;
        ExprPtr filter = make(ExprKind::kFilter, current().line);
        filter->name = expect_name();
        while (skip_operator(".")) filter->name += "." + expect_name();
        filter->filter = find_filter(filter->name);
        adopt(*filter, std::move(node));
        if (at_operator("(")) adopt_arguments(*filter, parse_arguments());
        node = std::move(filter);
    }
    return node;
}

ExprPtr Parser::parse_test(ExprPtr operand) {
    ExprPtr node = make(ExprKind::kTest, take().line);
    const bool negated = skip_name("not");
    node->name = expect_name();
    while (skip_operator(".")) node->name += "." + expect_name();
    node->test = find_test(node->name);
    adopt(*node, std::move(operand));
    if (at_operator("(")) {
        adopt_arguments(*node, parse_arguments());
    } else {
        const bool starts_value = at(TokenKind::kName) || at(TokenKind::kString) ||
                                  at(TokenKind::kInteger) || at(TokenKind::kFloat) ||
                                  at_operator("[") || at_operator("{");
        if (starts_value && !at_name("else") && !at_name("or") && !at_name("and")) {
            if (at_name("is")) fail("tests cannot be chained with 'is'");
            const Nested nested(*this);
            auto arguments = std::make_unique<Arguments>();
            arguments->positional.push_back(parse_postfix(parse_primary()));
            adopt_arguments(*node, std::move(arguments));
        }
    }
    if (!negated) return node;
    ExprPtr inverted = make(ExprKind::kNot, node->line);
    adopt(*inverted, std::move(node));
    return inverted;
}

}  // namespace taproot::jinja
