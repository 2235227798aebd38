// SPDX-License-Identifier: Apache-2.0
#include "base/metrics.h"

#include <prometheus/text_serializer.h>

namespace taproot {

Metrics::Metrics() : registry_(prometheus::Registry::InsertBehavior::Merge) {}
Metrics::~Metrics() = default;

prometheus::Counter& Metrics::counter(const std::string& name, const std::string& help,
                                      const Labels& labels) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry_).Add(labels);
}

prometheus::Gauge& Metrics::gauge(const std::string& name, const std::string& help,
                                  const Labels& labels) {
    return prometheus::BuildGauge().Name(name).Help(help).Register(registry_).Add(labels);
}

prometheus::Histogram& Metrics::histogram(const std::string& name, const std::string& help,
                                          const std::vector<double>& buckets,
                                          const Labels& labels) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry_).Add(labels,
                                                                                      buckets);
}

std::string Metrics::render() const {
    return prometheus::TextSerializer().Serialize(registry_.Collect());
}

}  // namespace taproot
