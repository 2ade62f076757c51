#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ctime>

#include "base/units.h"

namespace headroom {
namespace {

TEST(ParseSize, AcceptsTheUsualSpellings) {
  EXPECT_EQ(parse_size("512MiB")->count, 512LL << 20);
  EXPECT_EQ(parse_size("8GB")->count, 8'000'000'000);
  EXPECT_EQ(parse_size("8GiB")->count, 8LL << 30);
  EXPECT_EQ(parse_size("1.5G")->count, 3LL << 29);
  EXPECT_EQ(parse_size(" 300 b ")->count, 300);
  EXPECT_EQ(parse_size("4096bytes")->count, 4096);
}

TEST(ParseSize, RejectsANumberWithoutAUnit) {
  const auto size = parse_size("512");
  ASSERT_FALSE(size);
  EXPECT_EQ(size.error().kind, ErrorKind::usage);
  EXPECT_EQ(size.error().sentence(),
            "size '512' has no unit: a bare number is ambiguous; write 512MiB, 512GB or 512B");
}

TEST(ParseSize, RejectsNonsense) {
  for (const char* text : {"", "GB", "-1GB", "1e400GB", "nanGB", "infB", "99999999TiB", "5 XB", "1.2.3MB"})
    EXPECT_FALSE(parse_size(text)) << text;
}

TEST(ParseDuration, AcceptsUnitsAndBareSeconds) {
  EXPECT_EQ(parse_duration("250ms")->count, 250'000'000);
  EXPECT_EQ(parse_duration("0.5")->count, 500'000'000);
  EXPECT_EQ(parse_duration("1.5min")->count, 90'000'000'000);
  EXPECT_EQ(parse_duration("1h")->count, 3'600'000'000'000);
  EXPECT_EQ(parse_duration("7us")->count, 7'000);
  EXPECT_FALSE(parse_duration("3 fortnights"));
}

TEST(FormatBytes, LabelsBinaryUnits) {
  EXPECT_EQ(format_bytes({812}), "812 B");
  EXPECT_EQ(format_bytes({1536}), "1.5 KiB");
  EXPECT_EQ(format_bytes({-3 * 1048576}), "-3.0 MiB");
  EXPECT_EQ(format_bytes({1300000000}), "1.21 GiB");
}

TEST(ExactSize, ParsesBackToTheSameBytes) {
  EXPECT_EQ(exact_size(mebibytes(150)), "150MiB");
  EXPECT_EQ(exact_size(kibibytes(1536)), "1536KiB");
  EXPECT_EQ(exact_size(Bytes{1LL << 51}), "2048TiB");
  for (const std::int64_t bytes : {0LL, 1LL, 1023LL, 1024LL, 62'914'561LL, 9'007'199'254'740'991LL})
    EXPECT_EQ(parse_size(exact_size(Bytes{bytes}))->count, bytes);
}

TEST(FormatDuration, PicksTheUnit) {
  EXPECT_EQ(format_duration({812}), "812 ns");
  EXPECT_EQ(format_duration({12'300}), "12.3 µs");
  EXPECT_EQ(format_duration({4'560'000}), "4.56 ms");
  EXPECT_EQ(format_duration({1'234'000'000}), "1.234 s");
  EXPECT_EQ(format_duration({125'000'000'000}), "2 min 05 s");
}

TEST(Timestamp, WritesRfc3339AndReadsItBack) {
  const std::string now = timestamp_now();
  EXPECT_THAT(now, testing::MatchesRegex("[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}"
                                         "[+-][0-9]{2}:[0-9]{2}"));
  const auto read = parse_timestamp(now);
  ASSERT_TRUE(read.has_value());
  EXPECT_NEAR(static_cast<double>(*read) / 1000, static_cast<double>(std::time(nullptr)), 3600);
}

TEST(Timestamp, ComparesTimesOfDifferentZones) {
  const auto moment = parse_timestamp("2026-11-23T11:30:00Z");
  EXPECT_EQ(moment, 1'795'433'400'000);  // date -d 2026-11-23T11:30:00Z +%s
  for (const char* same :
       {"2026-11-23T11:30:00+00:00", "2026-11-23T06:30:00-05:00", "2026-11-23T06:30:00-0500",
        "2026-11-23T17:15:00.000+05:45", "2026-11-24T00:30:00+13:00"})
    EXPECT_EQ(parse_timestamp(same), moment) << same;
  EXPECT_EQ(parse_timestamp("2026-11-23T11:30:00.25Z"), *moment + 250);
  EXPECT_EQ(parse_timestamp("2026-11-23T11:30:00.123456789Z"), *moment + 123);
  EXPECT_EQ(parse_timestamp("1969-12-31T23:59:59Z"), -1000);
}

TEST(Timestamp, RejectsOtherText) {
  for (const char* text :
       {"", "now", "2026-11-23", "2026-11-23T11:30:00", "2026-13-23T11:30:00Z", "2026-02-30T11:30:00Z",
        "2026-11-23T24:30:00Z", "2026-11-23T11:30:00+1", "2026-11-23T11:30:00+99:00",
        "2026-11-23T11:30:00Zulu", "+026-11-23T11:30:00Z", "2026-11-23T11:30:00 Z"})
    EXPECT_EQ(parse_timestamp(text), std::nullopt) << text;
}

TEST(Timestamp, RemovesTheFraction) {
  EXPECT_EQ(without_fraction("2026-11-23T11:30:00.250+01:00"), "2026-11-23T11:30:00+01:00");
  EXPECT_EQ(without_fraction("2026-11-23T11:30:00+0100"), "2026-11-23T11:30:00+0100");
  EXPECT_EQ(without_fraction("today"), "today");
}

}  // namespace

}  // namespace headroom
