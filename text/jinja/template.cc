// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/template.h"

#include "text/jinja/interpreter.h"
#include "text/jinja/parser.h"
#include "text/jinja/raise.h"

namespace taproot::jinja {

Result<Template> Template::parse(std::string_view source) {
    TAPROOT_TRY(Program program, parse_template(source));
    return Template(std::make_shared<const Program>(std::move(program)));
}

Result<Text> Template::render(const Value& context, const RenderOptions& options) const {
    if (!context.is_dict())
        return Error{ErrorCode::kInternal, "a template's context must be a dict", {}};
    Interpreter interpreter(*program_, context, options);
    try {
        return interpreter.run();
    } catch (Raised& raised) {
        raised.error.where = "line " + std::to_string(interpreter.line());
        return std::move(raised.error);
    }
}

}  // namespace taproot::jinja
