// The parts of report.md. Each is a heading and what belongs under it, ending in an empty line, or nothing
// when the run has nothing to tell there.
#pragma once

#include <string>
#include <string_view>

#include "types/bench_result.h"

namespace headroom::report {

// "✅", "❌", "⏭️": what became of the model, before words_for_outcome.
std::string_view sign_of(const ModelResult& model);

// "- **Label**: value", or nothing where there is no value.
void add_line(std::string& text, std::string_view label, const std::string& value);
std::string p50_of(const std::optional<LatencySummary>& latency);
// "14.20 ms", with the mark for the footnote where n is too small for a bound.
std::string percentile(Nanoseconds value, const std::optional<Nanoseconds>& bound);
std::string footnote_on_bounds();

// On a GPU: the device, where its nodes ran, its memory by phase; empty on the CPU.
std::string gpu_tables(const ModelResult& model);
// What a limit on GPU memory is worth; empty without one.
std::string gpu_limit_lines(const BenchResult& result);

// What a traced run showed (--layers); empty without one.
std::string layers_table(const ModelResult& model);

std::string memory_safety_section(const BenchResult& result);
std::string models_section(const BenchResult& result);
std::string parallel_section(const BenchResult& result);
std::string pipeline_section(const BenchResult& result);
std::string pool_section(const BenchResult& result);

}  // namespace headroom::report
