// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <set>

#include "cli/bench_interference.h"
#include "cli/dtypes.h"
#include "cli/engine_measure.h"
#include "cli/kernel_cases.h"
#include "kernels/fork_join.h"

namespace taproot::cli {
namespace {

TEST(SpreadOf, IsMedianLeastAndMost) {
    Spread odd = spread_of({3, 1, 2});
    EXPECT_EQ(odd.median, 2);
    EXPECT_EQ(odd.min, 1);
    EXPECT_EQ(odd.max, 3);
    EXPECT_EQ(spread_of({4, 1, 2, 3}).median, 2.5);
    EXPECT_EQ(spread_of({7}).median, 7);
}

TEST(EngineLoad, HasBlocksForAllThatMustStayInTheCache) {
    EngineLoad load{
        .prompt = 512, .generated = 128, .depth = 512, .streams = {1, 32}, .repeats = 5};
    EXPECT_GE(load.blocks() * 16, 32 * (512 + 128) + 7 * 512u);
    EngineLoad shared = load;
    shared.shared = 496;
    EXPECT_GE(shared.blocks() * 16, 496 + 32 * (16 + 128) + 7 * 512u);
    EXPECT_LT(shared.blocks(), load.blocks() / 2);
}

TEST(Interference, GapsAreSortedByWhenTheyWereFelt) {
    auto at = [](double ms) {
        return TimePoint{} + std::chrono::microseconds(static_cast<int>(ms * 1000));
    };
    // Texts of one stream; the prompt is sent at 25 and answered at 100.
    std::vector<TimePoint> texts = {at(0),  at(10),  at(20),  at(30), at(90),
                                    at(95), at(120), at(130), at(140)};
    InterferenceReport report;
    sort_gaps(texts, at(25), at(100), report);
    EXPECT_EQ(report.before, (std::vector<double>{10, 10}));
    // 20-30 was under way when the prompt came, 95-120 when its answer did.
    EXPECT_EQ(report.during, (std::vector<double>{10, 60, 5, 25}));
    sort_gaps({}, at(25), at(100), report);
    sort_gaps({at(1)}, at(25), at(100), report);
    EXPECT_EQ(report.before.size() + report.during.size(), 6u);
    boost::json::object json = interference_json(report);
    EXPECT_EQ(json.at("max_gap_ms").as_double(), 60);
    EXPECT_EQ(json.at("itl_before_p50_ms").as_double(), 10);
    for (const char* key : {"itl_p50_ms", "itl_p99_ms", "long_ttft_ms", "max_gap_before_ms"})
        EXPECT_TRUE(json.contains(key)) << key;
}

TEST(Dtypes, EveryTypeIsFoundByItsName) {
    std::set<std::string_view> names;
    for (DType type : all_dtypes()) {
        names.insert(dtype_info(type).name);
        EXPECT_EQ(find_dtype(dtype_info(type).name), type);
    }
    EXPECT_EQ(names.size(), all_dtypes().size());
    EXPECT_TRUE(names.contains("F32") && names.contains("Q8_0"));
    EXPECT_FALSE(find_dtype("?"));
}

// All names of the families, without running any.
std::vector<std::string> all_names(KernelContext& context) {
    std::vector<std::string> names;
    KernelCases cases{context, context,
                      [&](const std::string& name) {
                          names.push_back(name);
                          return false;
                      },
                      [](const KernelCase&) { FAIL(); }};
    linear_cases(cases);
    attention_cases(cases);
    elementwise_cases(cases);
    return names;
}

TEST(KernelCases, CoverEveryTypeAndTheRowCountsOfTheModelAndNamesAreUnique) {
    ForkJoin pool(1);
    KernelContext context{ops_for(Isa::kRef), pool};
    std::vector<std::string> names = all_names(context);
    std::set<std::string> unique(names.begin(), names.end());
    EXPECT_EQ(unique.size(), names.size());
    for (DType type : all_dtypes())
        for (const char* rows : {"1", "2", "4", "8", "16", "32", "128", "512"})
            EXPECT_TRUE(unique.contains("linear/" + std::string(dtype_info(type).name) +
                                        "/8192x2048/rows:" + rows));
    EXPECT_TRUE(unique.contains("linear/Q4_1/model/rows:1"));
    EXPECT_TRUE(unique.contains("attention/decode/streams:16/depth:1100/shared:1024"));
    EXPECT_TRUE(unique.contains("argmax/49152"));
}

TEST(KernelCases, SmallOnesRunAndAgreeWithTheReferenceOnEveryInstructionSet) {
    const std::set<std::string> small = {"linear/Q4_1/576x576/rows:2",
                                         "linear/Q8_0/576x576/rows:8",
                                         "linear/F32/576x576/rows:4",
                                         "linear/BF16/576x576/rows:1",
                                         "linear/F16/576x576/rows:1",
                                         "kv_append/tokens:16",
                                         "attention/decode/streams:1/depth:128",
                                         "rmsnorm/576/rows:16",
                                         "swiglu/1536/rows:1",
                                         "rope/12x64/rows:16",
                                         "quantize/576/rows:16",
                                         "rmsnorm_quantized/576/rows:16",
                                         "swiglu_quantized/1536/rows:1",
                                         "argmax/49152"};
    for (Isa isa : available_isas()) {
        ForkJoin pool(2);
        KernelContext context{ops_for(isa), pool}, reference{ops_for(Isa::kRef), pool};
        std::size_t seen = 0;
        KernelCases cases{context, reference,
                          [&](const std::string& name) { return small.contains(name); },
                          [&](const KernelCase& one) {
                              ++seen;
                              one.run();
                              KernelCheck check = one.check();
                              EXPECT_GT(check.compared, 0u) << one.name;
                              EXPECT_EQ(check.differing, 0u) << one.name;
                              // Quantised activations are the coarsest step.
                              EXPECT_LT(check.error, 0.02) << one.name;
                              EXPECT_GT(one.bytes, 0) << one.name;
                          }};
        linear_cases(cases);
        attention_cases(cases);
        elementwise_cases(cases);
        EXPECT_EQ(seen, small.size());
    }
}

// A check that cannot fail would prove nothing.
TEST(KernelCases, AWrongBitIsSeen) {
    const float a[] = {1.0f, 2.0f, 0.0f}, b[] = {1.0f, 2.0000002f, -0.0f};
    EXPECT_EQ(count_differing(a, a, 3), 0u);
    EXPECT_EQ(count_differing(a, b, 3), 2u);
    RelativeError error;
    error.add(3, 3);
    error.add(5, 4);
    EXPECT_DOUBLE_EQ(error.value(), 0.2);
}

}  // namespace
}  // namespace taproot::cli
