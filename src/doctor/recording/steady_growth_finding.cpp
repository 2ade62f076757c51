// A leak of the process: no layer repeats that would say what it comes with, but the memory of the whole
// program grows until the end.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "base/text.h"
#include "doctor/recording/live_places.h"
#include "doctor/recording/recording_finding.h"
#include "monitoring/series_growth.h"

namespace headroom::doctor {
namespace {

// A program that loads for seconds and is done grows all its life, too.
constexpr Nanoseconds kShortest{5'000'000'000};
constexpr std::int64_t kWorthTelling = 8 << 20;
constexpr std::size_t kStretches = 40, kFewestPoints = 20;
// What is set up at the beginning and stays is most of what a sound program has: of a leak the last two
// thirds of the time have at least this share of the peak.
constexpr double kLeastShare = 0.3;
// The peak of what grows until the end is there; what a program that ends releases comes behind it.
constexpr double kPeakIsLate = 0.85;

struct Grown {
  std::int64_t bytes = 0;
  double bytes_per_second = 0;
};

// The least of each stretch of time up to the peak, which what comes and goes with a frame does not move.
std::vector<std::int64_t> least_by_time(const attribution::RecordingAnalysis& analysis) {
  const auto& points = analysis.timeline.points;
  std::vector<std::int64_t> bytes;
  std::size_t next = 0;
  std::int64_t last = 0;
  for (std::size_t i = 0; i < kStretches; ++i) {
    const double share = static_cast<double>(i + 1) / kStretches;
    const double end = share * static_cast<double>(analysis.peak_time.count);
    std::int64_t lowest = last;
    for (; next < points.size() && static_cast<double>(points[next].start.count) < end; ++next) {
      lowest = std::min(lowest, points[next].lowest);
      last = points[next].last;
    }
    bytes.push_back(lowest);
  }
  return bytes;
}

std::optional<Grown> grown_steadily(const attribution::RecordingAnalysis& analysis) {
  const double until = static_cast<double>(analysis.peak_time.count),
               whole = static_cast<double>(analysis.duration.count);
  if (analysis.duration < kShortest || analysis.timeline.points.size() < kFewestPoints ||
      until < kPeakIsLate * whole)
    return std::nullopt;
  const std::vector<std::int64_t> bytes = least_by_time(analysis);
  const std::int64_t late = bytes.back() - bytes[bytes.size() / 3];
  const auto noise = static_cast<std::int64_t>(4 * analysis.peak_bytes.standard_error.value_or(0));
  if (late < std::max(kWorthTelling, noise) ||
      static_cast<double>(late) < kLeastShare * static_cast<double>(analysis.peak_bytes.value))
    return std::nullopt;
  std::vector<std::int64_t> times(bytes.size());
  std::iota(times.begin(), times.end(), 0);
  const auto growth = monitoring::growth_of(times, bytes, static_cast<double>(kWorthTelling));
  // In a step or two it is what a program takes for a new part of its work.
  if (growth.growth != monitoring::Growth::leak || growth.last_step > 0) return std::nullopt;
  return Grown{late, growth.per_cycle * static_cast<double>(kStretches) / (until / 1e9)};
}

}  // namespace

std::optional<Finding> steady_growth(const RecordingFacts& facts) {
  const auto& analysis = facts.analysis;
  const auto grown = grown_steadily(analysis);
  if (!grown) return std::nullopt;
  Finding finding;
  finding.id = "leak";
  finding.severity = Severity::warning;
  finding.confidence = Confidence::possible;
  const Bytes rate{std::llround(grown->bytes_per_second)};
  finding.title =
      fmt::format("The program's memory grew steadily, by {} per second, until its end", format_bytes(rate));
  finding.cause =
      "A leak, or data that the program collects on purpose. No layer repeats in the recording, so Headroom "
      "cannot check what each round keeps.";
  const std::int64_t live = analysis.leaked_bytes.value;
  if (live < grown->bytes / 2) finding.cause += " The program released most of it when it ended.";
  finding.evidence = live_places(analysis, facts.place_words, LiveAt::peak);
  finding.figures = {{"level", std::string("process")},
                     {"grown_bytes", grown->bytes},
                     {"bytes_per_second", rate.count},
                     {"live_bytes", live}};
  finding.cures = {{"see what holds it at the peak, with call stacks",
                    fmt::format("headroom report {}", shell_word(facts.file)), Bytes{grown->bytes}},
                   {"mark each round (NVTX ranges, headroom scopes, model runs) and record again, to see "
                    "what each round keeps",
                    "",
                    {}}};
  return finding;
}

}  // namespace headroom::doctor
