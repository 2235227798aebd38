// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "text/jinja/parser_impl.h"

namespace taproot::jinja {

Parser::Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {
    for (const char* name : {"loop", "caller", "varargs", "kwargs"}) symbol(name);
}

Parser::Nested::Nested(Parser& parser) : parser_(parser) {
    if (++parser_.depth_ > kMaxTemplateDepth) {
        --parser_.depth_;
        parser_.fail("the template is nested deeper than 200 levels");
    }
}

void Parser::Mentions::merge(const Mentions& other) {
    loop |= other.loop;
    caller |= other.caller;
    varargs |= other.varargs;
    kwargs |= other.kwargs;
}

Symbol Parser::symbol(std::string_view name) {
    const auto [entry, added] = symbols_.emplace(name, static_cast<Symbol>(names_.size()));
    if (added) names_.emplace_back(name);
    return entry->second;
}

bool Parser::at_operator(std::string_view op) const {
    return current().kind == TokenKind::kOperator && current().text == op;
}

bool Parser::at_name(std::string_view name) const {
    return current().kind == TokenKind::kName && current().text == name;
}

bool Parser::skip_operator(std::string_view op) {
    if (!at_operator(op)) return false;
    ++pos_;
    return true;
}

bool Parser::skip_name(std::string_view name) {
    if (!at_name(name)) return false;
    ++pos_;
    return true;
}

void Parser::expect_operator(std::string_view op) {
    if (!skip_operator(op)) fail("expected '" + std::string(op) + "', got " + describe_current());
}

std::string Parser::expect_name() {
    if (!at(TokenKind::kName)) fail("expected a name, got " + describe_current());
    return take().text;
}

void Parser::expect(TokenKind kind, const char* what) {
    if (!at(kind)) fail(std::string("expected ") + what + ", got " + describe_current());
    ++pos_;
}

// The last token (kEnd) is never consumed, so that current() always exists.
Token Parser::take() {
    Token token = current();
    if (token.kind != TokenKind::kEnd) ++pos_;
    return token;
}

void Parser::fail(const std::string& message) const {
    throw ParseFailure{message, current().line};
}

std::string Parser::describe_current() const {
    switch (current().kind) {
        case TokenKind::kEnd:
            return "the end of the template";
        case TokenKind::kPrintEnd:
            return "the end of the print tag";
        case TokenKind::kBlockEnd:
            return "the end of the block tag";
        case TokenKind::kData:
            return "text";
        default:
            return "'" + current().text + "'";
    }
}

Program Parser::run() {
    Program program;
    program.body = parse_body({});
    if (!at(TokenKind::kEnd)) fail("unexpected " + describe_current());
    program.names = std::move(names_);
    return program;
}

std::unique_ptr<Stmt> Parser::make_stmt(StmtKind kind) const {
    auto statement = std::make_unique<Stmt>();
    statement->kind = kind;
    statement->line = current().line;
    return statement;
}

// Statements up to the tag that one of `until` names; stands at that name afterwards.
Body Parser::parse_body(std::initializer_list<std::string_view> until) {
    const Nested nested(*this);
    Body body;
    while (!at(TokenKind::kEnd)) {
        if (at(TokenKind::kData)) {
            body.push_back(make_stmt(StmtKind::kText));
            body.back()->text = take().text;
        } else if (at(TokenKind::kPrintBegin)) {
            take();
            body.push_back(make_stmt(StmtKind::kPrint));
            body.back()->expr = parse_tuple(true, "", false);
            expect(TokenKind::kPrintEnd, "the end of the print tag");
        } else {
            expect(TokenKind::kBlockBegin, "a tag");
            for (const std::string_view name : until) {
                if (at_name(name)) return body;
            }
            parse_statement(body);
            expect(TokenKind::kBlockEnd, "the end of the block tag");
        }
    }
    if (until.size() > 0)
        fail("the template ends inside a block that needs " + std::string(*until.begin()));
    return body;
}

// The body of a tag that opens a block: a stray ':', the tag's end, then statements.
Body Parser::parse_block_body(std::initializer_list<std::string_view> until) {
    skip_operator(":");
    expect(TokenKind::kBlockEnd, "the end of the block tag");
    return parse_body(until);
}

void Parser::parse_statement(Body& out) {
    if (!at(TokenKind::kName)) fail("expected a tag name, got " + describe_current());
    const std::string keyword = current().text;
    if (keyword == "if") {
        out.push_back(parse_if());
    } else if (keyword == "for") {
        out.push_back(parse_for());
    } else if (keyword == "set") {
        out.push_back(parse_set());
    } else if (keyword == "macro") {
        out.push_back(parse_macro());
    } else if (keyword == "call") {
        out.push_back(parse_call_block());
    } else if (keyword == "filter") {
        out.push_back(parse_filter_block());
    } else if (keyword == "with") {
        out.push_back(parse_with());
    } else {
        out.push_back(parse_simple(keyword));
    }
}

std::unique_ptr<Stmt> Parser::parse_simple(std::string_view keyword) {
    if (keyword == "break") return parse_loop_control(StmtKind::kBreak);
    if (keyword == "continue") return parse_loop_control(StmtKind::kContinue);
    if (keyword == "generation") {
        auto statement = make_stmt(StmtKind::kScope);
        take();
        statement->body = parse_block_body({"endgeneration"});
        take();
        return statement;
    }
    if (keyword == "print") {
        auto statement = make_stmt(StmtKind::kPrint);
        take();
        statement->expr = parse_tuple(true, "", false);
        return statement;
    }
    static constexpr std::string_view kUnsupported[] = {
        "extends", "block", "include", "import", "from", "autoescape", "do", "trans"};
    const bool known = std::find(std::begin(kUnsupported), std::end(kUnsupported), keyword) !=
                       std::end(kUnsupported);
    fail((known ? "unsupported tag '" : "unknown tag '") + std::string(keyword) + "'");
}

std::unique_ptr<Stmt> Parser::parse_loop_control(StmtKind kind) {
    auto statement = make_stmt(kind);
    if (loop_depth_ == 0) fail("'" + current().text + "' outside of a loop");
    take();
    return statement;
}

std::unique_ptr<Stmt> Parser::parse_if() {
    auto statement = make_stmt(StmtKind::kIf);
    do {
        take();  // if, elif
        ExprPtr test = parse_tuple(false, "", false);
        Body body = parse_block_body({"endif", "elif", "else"});
        statement->branches.emplace_back(std::move(test), std::move(body));
    } while (at_name("elif"));
    if (skip_name("else")) statement->else_body = parse_block_body({"endif"});
    take();
    return statement;
}

std::unique_ptr<Stmt> Parser::parse_for() {
    auto statement = make_stmt(StmtKind::kFor);
    take();
    statement->target = parse_target(false, "in");
    if (!skip_name("in")) fail("expected 'in', got " + describe_current());
    statement->expr = parse_tuple(false, "recursive", false);
    if (skip_name("if")) statement->test = parse_expression();
    statement->recursive = skip_name("recursive");
    const Mentions outer = mentions_;
    mentions_ = {};
    ++loop_depth_;
    statement->body = parse_block_body({"endfor", "else"});
    --loop_depth_;
    statement->uses_loop = mentions_.loop || statement->recursive;
    mentions_.merge(outer);
    if (skip_name("else")) statement->else_body = parse_block_body({"endfor"});
    take();
    return statement;
}

std::unique_ptr<Stmt> Parser::parse_set() {
    auto statement = make_stmt(StmtKind::kSet);
    take();
    statement->target = parse_target(true, "");
    if (skip_operator("=")) {
        statement->expr = parse_tuple(true, "", false);
        return statement;
    }
    statement->kind = StmtKind::kSetBlock;
    if (at_operator("|")) statement->expr = parse_filter_chain(nullptr, false);
    statement->body = parse_block_body({"endset"});
    take();
    return statement;
}

std::unique_ptr<Signature> Parser::parse_signature(std::string name) {
    auto signature = std::make_unique<Signature>();
    signature->name = std::move(name);
    expect_operator("(");
    while (!at_operator(")")) {
        if (!signature->parameters.empty()) expect_operator(",");
        Parameter parameter;
        parameter.name = expect_name();
        parameter.symbol = symbol(parameter.name);
        for (const Parameter& known : signature->parameters) {
            if (known.name == parameter.name) fail("parameter '" + known.name + "' is repeated");
        }
        if (skip_operator("=")) {
            parameter.fallback = parse_expression();
        } else if (!signature->parameters.empty() && signature->parameters.back().fallback) {
            fail("a parameter without a default follows one with a default");
        }
        signature->parameters.push_back(std::move(parameter));
    }
    expect_operator(")");
    return signature;
}

std::unique_ptr<Stmt> Parser::parse_macro() {
    auto statement = make_stmt(StmtKind::kMacro);
    take();
    std::string name = expect_name();
    statement->symbol = symbol(name);
    const Mentions outer = mentions_;
    const int outer_loops = loop_depth_;
    mentions_ = {};
    loop_depth_ = 0;
    statement->signature = parse_signature(std::move(name));
    statement->body = parse_block_body({"endmacro"});
    take();
    statement->signature->uses_caller = mentions_.caller;
    statement->signature->uses_varargs = mentions_.varargs;
    statement->signature->uses_kwargs = mentions_.kwargs;
    mentions_.merge(outer);
    loop_depth_ = outer_loops;
    return statement;
}

std::unique_ptr<Stmt> Parser::parse_call_block() {
    auto statement = make_stmt(StmtKind::kCallBlock);
    take();
    if (at_operator("(")) {
        statement->signature = parse_signature("caller");
    } else {
        statement->signature = std::make_unique<Signature>();
        statement->signature->name = "caller";
    }
    statement->expr = parse_expression();
    if (statement->expr->kind != ExprKind::kCall) fail("expected a call after 'call'");
    const Mentions outer = mentions_;
    const int outer_loops = loop_depth_;
    mentions_ = {};
    loop_depth_ = 0;
    statement->body = parse_block_body({"endcall"});
    take();
    statement->signature->uses_caller = mentions_.caller;
    statement->signature->uses_varargs = mentions_.varargs;
    statement->signature->uses_kwargs = mentions_.kwargs;
    mentions_.merge(outer);
    loop_depth_ = outer_loops;
    return statement;
}

std::unique_ptr<Stmt> Parser::parse_filter_block() {
    auto statement = make_stmt(StmtKind::kFilterBlock);
    take();
    statement->expr = parse_filter_chain(nullptr, true);
    statement->body = parse_block_body({"endfilter"});
    take();
    return statement;
}

std::unique_ptr<Stmt> Parser::parse_with() {
    auto statement = make_stmt(StmtKind::kWith);
    take();
    while (!at(TokenKind::kBlockEnd)) {
        if (!statement->bindings.empty()) expect_operator(",");
        Target target = parse_target(false, "");
        expect_operator("=");
        statement->bindings.emplace_back(std::move(target), parse_expression());
    }
    statement->body = parse_block_body({"endwith"});
    take();
    return statement;
}

Target Parser::parse_single_target(bool with_namespace) {
    const Nested nested(*this);
    if (skip_operator("(")) {
        Target inner = parse_target(with_namespace, "");
        expect_operator(")");
        return inner;
    }
    static constexpr std::string_view kConstants[] = {"true", "false", "none",
                                                      "True", "False", "None"};
    Target target;
    target.line = current().line;
    target.name = expect_name();
    for (const std::string_view constant : kConstants) {
        if (target.name == constant) fail("cannot assign to '" + target.name + "'");
    }
    target.symbol = symbol(target.name);
    if (with_namespace && skip_operator(".")) {
        target.kind = Target::Kind::kAttribute;
        target.attribute = expect_name();
    }
    return target;
}

Target Parser::parse_target(bool with_namespace, std::string_view until) {
    Target first = parse_single_target(with_namespace);
    if (!at_operator(",")) return first;
    Target tuple;
    tuple.kind = Target::Kind::kTuple;
    tuple.line = first.line;
    tuple.parts.push_back(std::move(first));
    while (skip_operator(",")) {
        const bool at_end = at(TokenKind::kBlockEnd) || at_operator(")") || at_operator("=") ||
                            (!until.empty() && at_name(until));
        if (at_end) break;
        tuple.parts.push_back(parse_single_target(with_namespace));
    }
    return tuple;
}

Result<Program> parse_template(std::string_view source) {
    TAPROOT_TRY(std::vector<Token> tokens, tokenize(source));
    try {
        return Parser(std::move(tokens)).run();
    } catch (const ParseFailure& failure) {
        return invalid_argument(failure.message, "line " + std::to_string(failure.line));
    }
}

}  // namespace taproot::jinja
