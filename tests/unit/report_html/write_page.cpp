// Writes a sample page for the browser tests: `write_page KIND FOLDER` writes FOLDER/report.html.
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <string_view>

#include "base/files.h"
#include "comparison/run_metrics.h"
#include "page_text.h"
#include "report/history/history_views.h"
#include "report/run/views.h"
#include "samples.h"
#include "snapshot/snapshot_reader.h"
#include "watch/watch_summary.h"

namespace headroom::test {
namespace {

namespace fs = std::filesystem;

std::string run_page(const fs::path& folder) {
  write_sample_images(folder);
  return report::to_html(sample_run(), folder, sample_metrics(40));
}

std::string recording_page(SampleRecording kind, const fs::path& folder) {
  return sample_recording(kind, folder).page();
}

// A model that grows by a tenth at its fourth commit, one whose runs hardly differ, and one with one run.
std::string history_page() {
  std::vector<report::HistorySeries> all(3);
  all[0].model = "detector on xavier";
  all[1].model = kHostileName;
  all[2].model = "new model";
  for (int commit = 0; commit < 12; ++commit) {
    const double base = (commit < 3 ? 900 : 990) * 1048576.0;
    const std::string id = fmt::format("{:02}c0ffee123456", commit);
    const std::string start = fmt::format("2026-11-{}T10:30:00.125+01:00", 10 + commit);
    all[0].points.push_back({id, "", start, {base, base + 1048576, base + 9 * 1048576.0}});
    all[1].points.push_back({id, "", start, {7e8 + 1000 * commit}});
  }
  all[2].points.push_back({"", "", "2026-11-21T10:30:00Z", {12'345'678}});
  return report::history_plot_to_html(*comparison::find_run_metric("run_peak"), all);
}

std::string watch_page(int samples) {
  watch::MemoryCurves curves;
  for (int i = 0; i < samples; ++i) {
    SystemSample sample;
    sample.time = Nanoseconds{i * 100'000'000LL};
    sample.ram_total = gibibytes(8);
    sample.ram_used =
        mebibytes(3000 + 10 * (i % 7)) + Bytes{static_cast<std::int64_t>(4e8 * std::sin(i / 300.0))};
    sample.swap_total = gibibytes(2);
    sample.swap_used = mebibytes(500);
    sample.other = {{"followed_pss_bytes", 4e6 + 2e4 * i}};
    curves.add(sample);
  }
  return plot_as_html(curves, kHostileName);
}

Result<std::string> page_of_kind(std::string_view kind, const fs::path& folder) {
  if (kind == "run") return run_page(folder);
  if (kind == "empty run") return report::to_html(BenchResult{}, folder, "");
  if (kind == "model") return recording_page(SampleRecording::model, folder);
  if (kind == "sampled") return recording_page(SampleRecording::sampled, folder);
  if (kind == "empty recording") return recording_page(SampleRecording::empty, folder);
  if (kind == "gpu") return recording_page(SampleRecording::gpu, folder);
  if (kind == "training") return page_of(sample_snapshot(SampleSnapshot::training));
  if (kind == "state") return page_of(sample_snapshot(SampleSnapshot::state));
  if (kind == "empty snapshot") return page_of(sample_snapshot(SampleSnapshot::empty));
  if (kind == "history") return history_page();
  if (kind == "watch") return watch_page(3000);
  if (kind == "empty watch") return watch_page(0);
  auto snapshot = snapshot::open_snapshot(kind);
  if (!snapshot) return forward_error(snapshot);
  return page_of(*snapshot);
}

}  // namespace
}  // namespace headroom::test

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::filesystem::path folder = argv[2];
  auto page = headroom::test::page_of_kind(argv[1], folder);
  const headroom::Status written = page ? headroom::write_file_atomically(folder / "report.html", *page)
                                        : headroom::Status(headroom::forward_error(page));
  if (!written) std::fprintf(stderr, "%s\n", written.error().sentence().c_str());
  return written ? 0 : 1;
}
