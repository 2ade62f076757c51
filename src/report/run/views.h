// The views of a finished (or interrupted) run. Pure: from a result to text.
#pragma once

#include <filesystem>
#include <string>

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

}  // namespace headroom::report
