#include "base/timestamp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>

namespace headroom {
namespace {

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
