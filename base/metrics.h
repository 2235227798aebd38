// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace taproot {

using Labels = std::map<std::string, std::string>;

// The metrics of one process, passed by reference (no globals: two servers can live in one process,
// and so can tests). Metric objects live as long as the registry and are thread-safe to update
// (atomic adds, about 10 ns). Making one twice with the same name and labels gives the same object.
class Metrics {
public:
    Metrics();
    ~Metrics();
    Metrics(const Metrics&) = delete;
    Metrics& operator=(const Metrics&) = delete;

    // Names carry their unit last ("..._seconds", "..._bytes"); counters end in "_total".
    prometheus::Counter& counter(const std::string& name, const std::string& help,
                                 const Labels& labels = {});
    prometheus::Gauge& gauge(const std::string& name, const std::string& help,
                             const Labels& labels = {});
    prometheus::Histogram& histogram(const std::string& name, const std::string& help,
                                     const std::vector<double>& buckets, const Labels& labels = {});

    // Prometheus text format 0.0.4 of everything. Cost: proportional to the number of series.
    [[nodiscard]] std::string render() const;

private:
    prometheus::Registry registry_;
};

}  // namespace taproot
