// SPDX-License-Identifier: Apache-2.0
#include "config/quantity.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "base/units.h"

namespace taproot::config {
namespace {

TEST(Quantity, SizesTakeBinaryAndDecimalUnits) {
    EXPECT_EQ(parse_size("0"), 0u);
    EXPECT_EQ(parse_size("4096"), 4'096u);
    EXPECT_EQ(parse_size("12B"), 12u);
    EXPECT_EQ(parse_size("512MiB"), 512_MiB);
    EXPECT_EQ(parse_size("4 GiB"), 4_GiB);
    EXPECT_EQ(parse_size("1.5gib"), 1'536_MiB);
    EXPECT_EQ(parse_size("10MB"), 10'000'000u);
    EXPECT_EQ(parse_size("2kB"), 2'000u);
    EXPECT_EQ(parse_size("1TiB"), 1'024_GiB);
    EXPECT_EQ(parse_size("0.5KiB"), 512u);
}

TEST(Quantity, OtherFormsAreRefused) {
    for (const char* bad : {"",
                            " 1",
                            "-1",
                            "+1",
                            "1e3",
                            "1_000",
                            "0x10",
                            "MiB",
                            "1.MiB",
                            ".5GiB",
                            "1.3B",
                            "1GiB ",
                            "1 G",
                            "1M",
                            "1K",
                            "18446744073709551616",
                            "99999999999TiB",
                            "1MiB2",
                            "1,5GiB",
                            "nan",
                            "1\tMiB",
                            "1.0000000001GiB"})
        EXPECT_EQ(parse_size(bad), std::nullopt) << bad;
    for (const char* bad : {"", "1 hour", "1w", "0.0001s", "-5ms", "1.5ms", "5msec", "inf"})
        EXPECT_EQ(parse_time_ms(bad), std::nullopt) << bad;
    for (const char* bad : {"", "1.0", "-0", "1k", " 1", "1 "})
        EXPECT_EQ(parse_count(bad), std::nullopt) << bad;
}

TEST(Quantity, TimesAreMilliseconds) {
    EXPECT_EQ(parse_time_ms("50ms"), 50u);
    EXPECT_EQ(parse_time_ms("250"), 250u);
    EXPECT_EQ(parse_time_ms("30s"), 30'000u);
    EXPECT_EQ(parse_time_ms("1.5 s"), 1'500u);
    EXPECT_EQ(parse_time_ms("5min"), 300'000u);
    EXPECT_EQ(parse_time_ms("5m"), 300'000u);
    EXPECT_EQ(parse_time_ms("1h"), 3'600'000u);
    EXPECT_EQ(parse_time_ms("7d"), 604'800'000u);
}

TEST(Quantity, FormattedValuesReadBackExactly) {
    EXPECT_EQ(format_size(16_MiB), "16MiB");
    EXPECT_EQ(format_size(1'536_KiB), "1536KiB");
    EXPECT_EQ(format_size(1'000), "1000");
    EXPECT_EQ(format_size(0), "0");
    EXPECT_EQ(format_time_ms(75'000), "75s");
    EXPECT_EQ(format_time_ms(50), "50ms");
    EXPECT_EQ(format_time_ms(86'400'000), "24h");
    EXPECT_EQ(format_time_ms(0), "0ms");
    Random random(1);
    for (int i = 0; i < 2'000; ++i) {
        const std::uint64_t value = random.next() >> random.below(64) << random.below(20);
        EXPECT_EQ(parse_size(format_size(value)), value);
        EXPECT_EQ(parse_time_ms(format_time_ms(value)), value);
    }
}

}  // namespace
}  // namespace taproot::config
