// The views of a finished (or interrupted) run. Pure: from a result to text.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "types/bench_result.h"

namespace headroom::report {

// report.md, with the reference's sections and its Memory Safety Summary.
std::string to_markdown(const BenchResult& result);
// summary.csv: one row per model, header first, RFC 4180 quoting, base units in the column names.
std::string to_csv(const BenchResult& result);
// report.html: the page of web/ with the run inside, self-contained. `images` are read from `run_folder` and
// embedded; `metrics_jsonl` is the time series (may be empty).
std::string to_html(const BenchResult& result, const std::filesystem::path& run_folder,
                    std::string_view metrics_jsonl);
// The table that the command prints at its end; at most `width` columns.
std::string to_terminal(const BenchResult& result, bool color, int width);

// frames/NAME.csv of a run's folder: the times of every measured frame of a model, in order. `headroom diff`
// compares distributions by single frames, because a percentile does not show its uncertainty.
inline constexpr std::string_view kFrameTimesHeader =
    "decode_ns,preprocess_ns,inference_ns,postprocess_ns,findings,device_ns\n";

// One line per frame; `device_ns` is empty if it was not measured.
void append_csv(std::string& text, std::span<const FrameTimes> frames);

// Reads header and lines back; later versions may append columns. Errors name the text `name`: another
// header, or a field that is not a number or is negative.
Result<std::vector<FrameTimes>> read_frame_times(std::string_view text, std::string_view name);

}  // namespace headroom::report
