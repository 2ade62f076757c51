// What the views of a run with --task vos say in the same words.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "types/bench_result.h"

namespace headroom::report {

// "+0.002", in MiB, or a dash.
std::string words_for_slope(const std::optional<GrowthSlope>& growth);
// "+0.002 MiB per frame (-0.001 to +0.004)"; `step`: "frame", "object", "video" or "load".
std::string words_for_growth(const GrowthSlope& growth, std::string_view step);
// "host memory leaks: +8.000 MiB per video (+7.9 to +8.1)", for each leak.
std::vector<std::string> words_for_leaks(const VosResult& vos);
// Of files of other projects: their label, and why they have no accuracy. Empty for others.
std::string words_for_label(const VosResult& vos);

// Where the prompts of a model's objects come from: "points", "file", or "points, file".
std::string words_for_prompt(const VosResult& vos, const std::optional<SourceMetadata>& source);
// The same for a report: "points for 6 objects, prompts file for 3".
std::string longer_words_for_prompt(const VosResult& vos, const std::optional<SourceMetadata>& source);
// "512 × 512" of each size among the models; empty without models of --task vos.
std::string words_for_input_sizes(const BenchResult& result);
// "Growth in MiB per frame, with its 95 % interval: edgetam +0.000 (-0.000 to +0.001); …"; empty if no model
// has it.
std::string words_for_growth_intervals(const BenchResult& result);

// "72.3 %", or a dash.
std::string words_for_score(const std::optional<double>& score);

// The peaks of clips of the same size and number of objects.
struct SizeRow {
  int width = 0, height = 0;
  std::int64_t objects = 0, clips = 0;
  std::optional<Bytes> peak{}, gpu_peak{};
};
std::vector<SizeRow> rows_by_size(const VosResult& vos);

// The summary that the reference benchmark writes, jetson_benchmark_summary.csv: one row for each object and
// model, with its columns. Figures of a clip with several objects are those of the clip.
std::string to_reference_csv(const BenchResult& result);

}  // namespace headroom::report
