// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "config/schema.h"
#include "link/address.h"

namespace taproot {

// One worker as one object: reads the model, plans memory, starts the engine and the link server;
// stops in reverse. Several can live in one process. Owner: the thread that made it; start() and
// stop() are called from there.
class WorkerApp {
public:
    // Reads and packs the model (seconds for large ones). `config` is validated; `name` is one of
    // its workers; `shared_weights` is memory (memfd_create) for the weights of all workers of this
    // host, -1: none. Errors: kNotFound (no such worker), everything a bad model file can be,
    // kInvalidArgument and kUnavailable from the memory plan, all with the numbers.
    static Result<std::unique_ptr<WorkerApp>> create(const config::Config& config,
                                                     std::string_view name,
                                                     int shared_weights = -1);
    ~WorkerApp();  // stops
    WorkerApp(const WorkerApp&) = delete;
    WorkerApp& operator=(const WorkerApp&) = delete;

    // Listens and serves, on two threads of its own plus the kernels'.
    Result<void> start();
    [[nodiscard]] link::LinkAddress address() const;  // after start(), with the real port

    // Ends every request, says goodbye to the gateways, joins. At most about 2 s.
    void stop();

private:
    struct Parts;
    explicit WorkerApp(std::unique_ptr<Parts> parts);
    std::unique_ptr<Parts> parts_;
};

}  // namespace taproot
