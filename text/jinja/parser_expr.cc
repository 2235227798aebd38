// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

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
