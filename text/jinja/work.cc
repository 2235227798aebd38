// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/work.h"

#include "text/jinja/raise.h"

namespace taproot::jinja {
namespace {

thread_local WorkMeter* active_meter = nullptr;

}  // namespace

WorkMeter::WorkMeter(const Limits& limits)
    : steps_left_(limits.steps), bytes_left_(limits.work_bytes), outer_(active_meter) {
    active_meter = this;
}

WorkMeter::~WorkMeter() {
    active_meter = outer_;
}

void spend_steps(std::size_t count) {
    WorkMeter* meter = active_meter;
    if (meter == nullptr) return;
    if (count > meter->steps_left_) raise_limit("the template takes too many steps");
    meter->steps_left_ -= count;
}

void spend_bytes(std::size_t count) {
    WorkMeter* meter = active_meter;
    if (meter == nullptr) return;
    if (count > meter->bytes_left_) raise_limit("the template makes too much text");
    meter->bytes_left_ -= count;
}

}  // namespace taproot::jinja
