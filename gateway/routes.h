// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

#include "base/metrics.h"
#include "gateway/http/router.h"
#include "gateway/pipeline/generate.h"

namespace taproot::gateway {

// The table of everything the gateway answers. `draining` turns /ready to 503.
// All references must outlive the router.
Router make_router(PipelineContext& context, Metrics& metrics, const std::atomic<bool>& draining);

// Paths that need no API key: liveness, readiness, version, metrics.
std::vector<std::string> open_paths();

}  // namespace taproot::gateway
