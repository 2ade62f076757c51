// Writes the reports of a run into its folder.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"
#include "bench/conductor/kept_frames.h"
#include "bench/prepared_data.h"
#include "types/bench_result.h"

namespace headroom::bench {

// Writes report.json only. It is written after every model, so that the results remain if the conductor is
// killed. On a full disk, it first removes other files of the run and then writes a shorter text. If that
// fails for the finished run, it removes the earlier report, because that lacks figures.
Status write_report_json(const BenchResult& result, const std::filesystem::path& folder);
// Writes report.json, report.md and summary.csv, and report.html if these three succeeded. The error names
// the first file that failed.
Status write_all_reports(const BenchResult& result, const std::filesystem::path& folder);
// Writes frames/NAME.csv with the times of every frame, for headroom diff. Nothing without frames.
Status write_frame_times(const std::string& model, const KeptFrames& frames,
                         const std::filesystem::path& folder);
// Writes footprints/NAME.json for each model that ran.
Status write_footprints(const BenchResult& result, const PreparedData& prepared,
                        const std::filesystem::path& folder);

}  // namespace headroom::bench
