// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"
#include "text/jinja/parser.h"

// Shared by parser_expr.cc, parser_primary.cc and parser_stmt.cc only.
namespace taproot::jinja {

struct ParseFailure {
    std::string message;
    int line;
};

// Recursive descent over the tokens. Failures unwind as ParseFailure to parse_template.
class Parser {
public:
    explicit Parser(std::vector<Token> tokens);
    Program run();

private:
    // Tokens.
    [[nodiscard]] const Token& current() const { return tokens_[pos_]; }
    [[nodiscard]] const Token& ahead() const {
        return tokens_[std::min(pos_ + 1, tokens_.size() - 1)];
    }
    [[nodiscard]] bool at(TokenKind kind) const { return current().kind == kind; }
    [[nodiscard]] bool at_operator(std::string_view op) const;
    [[nodiscard]] bool at_name(std::string_view name) const;
    bool skip_operator(std::string_view op);
    bool skip_name(std::string_view name);
    void expect_operator(std::string_view op);
    std::string expect_name();
    void expect(TokenKind kind, const char* what);
    Token take();
    [[noreturn]] void fail(const std::string& message) const;
    [[nodiscard]] std::string describe_current() const;

    // Nesting: enter on every recursion, so that depth is an error and not a crash.
    struct Nested {
        explicit Nested(Parser& parser);
        ~Nested() { --parser_.depth_; }
        Nested(const Nested&) = delete;
        Nested& operator=(const Nested&) = delete;
        Parser& parser_;
    };

    // Nodes.
    Symbol symbol(std::string_view name);
    ExprPtr make(ExprKind kind, int line) const;
    void adopt(Expr& parent, ExprPtr child) const;  // null children allowed
    void adopt_arguments(Expr& parent, std::unique_ptr<Arguments> arguments) const;
    void raise_height(Expr& parent, int child_height) const;

    // Expressions (parser_expr.cc), loosest binding first.
    ExprPtr parse_expression(bool with_conditional = true);
    ExprPtr parse_conditional();
    ExprPtr parse_or();
    ExprPtr parse_and();
    ExprPtr parse_not();
    ExprPtr parse_compare();
    bool take_compare_op(CompareOp& op);
    ExprPtr parse_sum();
    ExprPtr parse_concat();
    ExprPtr parse_product();
    ExprPtr parse_power();
    ExprPtr parse_unary(bool with_filters = true);
    ExprPtr parse_primary();
    ExprPtr parse_literal_name(const Token& token);
    ExprPtr parse_string();
    ExprPtr parse_number();
    ExprPtr parse_list();
    ExprPtr parse_dict();
    ExprPtr parse_postfix(ExprPtr node);
    ExprPtr parse_filters_and_tests(ExprPtr node);
    ExprPtr parse_dot(ExprPtr node);
    ExprPtr parse_brackets(ExprPtr node);
    ExprPtr parse_slice(ExprPtr object, ExprPtr start);
    ExprPtr parse_call(ExprPtr callee);
    ExprPtr parse_filter_chain(ExprPtr node, bool started);
    ExprPtr parse_test(ExprPtr node);
    std::unique_ptr<Arguments> parse_arguments();
    void parse_argument(Arguments& arguments);
    // A tuple where commas are found; `until` names a keyword that ends it.
    ExprPtr parse_tuple(bool with_conditional, std::string_view until, bool parenthesised);
    ExprPtr arithmetic(ArithmeticOp op, ExprPtr left, ExprPtr right, int line) const;

    // Statements (parser_stmt.cc).
    Body parse_body(std::initializer_list<std::string_view> until);
    void parse_statement(Body& out);
    Body parse_block_body(std::initializer_list<std::string_view> until);
    std::unique_ptr<Stmt> make_stmt(StmtKind kind) const;
    std::unique_ptr<Stmt> parse_if();
    std::unique_ptr<Stmt> parse_for();
    std::unique_ptr<Stmt> parse_set();
    std::unique_ptr<Stmt> parse_macro();
    std::unique_ptr<Stmt> parse_call_block();
    std::unique_ptr<Stmt> parse_filter_block();
    std::unique_ptr<Stmt> parse_with();
    std::unique_ptr<Stmt> parse_loop_control(StmtKind kind);
    std::unique_ptr<Stmt> parse_simple(std::string_view keyword);
    std::unique_ptr<Signature> parse_signature(std::string name);
    Target parse_target(bool with_namespace, std::string_view until);
    Target parse_single_target(bool with_namespace);

    // Which special names an enclosing macro or loop body mentions.
    struct Mentions {
        bool loop = false;
        bool caller = false;
        bool varargs = false;
        bool kwargs = false;
        void merge(const Mentions& other);
    };

    std::vector<Token> tokens_;
    std::size_t pos_ = 0;
    int depth_ = 0;
    int loop_depth_ = 0;  // loops around this statement inside its macro
    Mentions mentions_;
    std::vector<std::string> names_;
    std::unordered_map<std::string, Symbol> symbols_;
};

}  // namespace taproot::jinja
