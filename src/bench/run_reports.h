// Everything that a run leaves in its folder.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"
#include "bench/kept_frames.h"
#include "bench/prepared_data.h"
#include "model/bench_result.h"

namespace headroom::bench {

// report.json alone: written after every model, so that a conductor that is killed leaves what was measured.
// A whole one that a full disk does not take leaves none: what lay there lacks figures that were measured.
Status write_report_json(const BenchResult& result, const std::filesystem::path& folder);
// report.json, report.md, summary.csv and report.html. Tries all of them; the error names the first that
// failed.
Status write_all_reports(const BenchResult& result, const std::filesystem::path& folder);
// frames/NAME.csv: every frame's times, for headroom diff. Nothing without frames.
Status write_frame_times(const std::string& model, const KeptFrames& frames,
                         const std::filesystem::path& folder);
// footprints/NAME.json for each model that ran.
Status write_footprints(const BenchResult& result, const PreparedData& prepared,
                        const std::filesystem::path& folder);

}  // namespace headroom::bench
