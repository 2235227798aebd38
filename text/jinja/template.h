// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string_view>

#include "base/result.h"
#include "text/jinja/render_options.h"
#include "text/jinja/value.h"

namespace taproot::jinja {

struct Program;

// A parsed template: Jinja as chat templates use it (trim_blocks and lstrip_blocks on, loop
// controls,
// {% generation %}), printing what Python would. README.md beside this file lists what is covered.
// Immutable; copies share the tree; any number of threads may render at once.
class Template {
public:
    // Errors: kInvalidArgument with where = "line N".
    static Result<Template> parse(std::string_view source);

    // `context` is a dict of global variables. The text keeps, byte by byte, whether a user wrote
    // it. Errors: kInvalidArgument for whatever the template does wrong or refuses (raise_exception
    // gives exactly its message), kTooLarge for a limit of `options`; where = "line N". Cost: about
    // 0.1 us per expression; strings are shared, one copy of the output is made.
    [[nodiscard]] Result<Text> render(const Value& context,
                                      const RenderOptions& options = {}) const;

private:
    explicit Template(std::shared_ptr<const Program> program) : program_(std::move(program)) {}

    std::shared_ptr<const Program> program_;
};

}  // namespace taproot::jinja
