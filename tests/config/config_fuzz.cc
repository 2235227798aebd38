// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "config/load.h"
#include "config/print.h"
#include "config/validate.h"

// Any bytes as a configuration: an answer, never a crash. What is accepted must print to a file
// that gives the same configuration. (api_keys_file is not opened here: the input names it.)
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace taproot::config;
    const auto parsed =
        parse_text({reinterpret_cast<const char*>(data), size}, std::string("fuzz"));
    if (!parsed) {
        if (parsed.error().describe().size() > 16'384) std::abort();
        return 0;
    }
    const auto problems = find_problems(parsed->config);
    if (!problems.empty()) to_error(problems, "fuzz");
    const auto again = parse_text(print(parsed->config, {.show_secrets = true}), "printed");
    if (!again || again->config != parsed->config) std::abort();
    return 0;
}
