// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "text/jinja/render_options.h"

namespace taproot::jinja {

// Counts the work of the rendering that runs on this thread. A template can make a small value that
// is large to walk ([x, x] forty times over), so everything that walks values spends from here.
// Without a meter (values built outside of a rendering) spending is free.
class WorkMeter {
public:
    explicit WorkMeter(const Limits& limits);
    ~WorkMeter();
    WorkMeter(const WorkMeter&) = delete;
    WorkMeter& operator=(const WorkMeter&) = delete;

private:
    friend void spend_steps(std::size_t count);
    friend void spend_bytes(std::size_t count);

    std::uint64_t steps_left_;
    std::uint64_t bytes_left_;
    WorkMeter* outer_;
};

void spend_steps(std::size_t count);
void spend_bytes(std::size_t count);

}  // namespace taproot::jinja
