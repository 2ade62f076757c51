// The sections of report.md. Each has a heading and ends in an empty line. A section without data is empty.
#pragma once

#include <string>
#include <string_view>

#include "types/bench_result.h"

namespace headroom::report {

// "✅", "❌", "⏭️": the sign before words_for_outcome().
std::string_view sign_of(const ModelResult& model);

// "- **Label**: value", or nothing if there is no value.
void add_line(std::string& text, std::string_view label, const std::string& value);
std::string p50_of(const std::optional<LatencySummary>& latency);
// "14.20 ms", with the mark of the footnote if n is too small for a bound.
std::string percentile(Nanoseconds value, const std::optional<Nanoseconds>& bound);
std::string footnote_on_bounds();
bool lacks_bound(const std::optional<LatencySummary>& latency);
std::string p99_of(const std::optional<LatencySummary>& latency);
// "n 500, P50 14.20 ms, P90 15.00 ms, P99 17.10 ms"
std::string percentiles_of(const LatencySummary& latency);
// "- **Against the limit**: …", or nothing if no such figure exists.
void add_limit_line(std::string& text, const ModelMemory& memory, const std::optional<Limit>& limit);

std::string models_section(const BenchResult& result);

}  // namespace headroom::report
