// SPDX-License-Identifier: Apache-2.0
#include "gateway/fleet/model_text.h"

namespace taproot::gateway {}  // namespace taproot::gateway
