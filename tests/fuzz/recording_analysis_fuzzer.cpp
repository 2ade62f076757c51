// The analysis of recordings and its views, with any bytes. They end, their sums are consistent, and no
// control character is printed.
#include <unistd.h>

#include "attribution/recording_analysis.h"
#include "fuzz.h"
#include "report/recording/recording_views.h"

namespace {

// Sums of a damaged file may wrap around, but all wrap in the same way.
void check_sums(const headroom::attribution::RecordingAnalysis& analysis) {
  std::uint64_t stacks = 0, layers = 0, threads = 0;
  for (const auto& stack : analysis.stacks) stacks += static_cast<std::uint64_t>(stack.live.peak_bytes);
  for (const auto& layer : analysis.layers) layers += static_cast<std::uint64_t>(layer.self.peak_bytes);
  for (const auto& thread : analysis.threads) threads += static_cast<std::uint64_t>(thread.live.peak_bytes);
  const auto peak = static_cast<std::uint64_t>(analysis.peak_bytes.value);
  if (stacks != peak || layers != peak || threads != peak) std::abort();
}

}  // namespace

void fuzz(std::string_view text) {
  using namespace headroom;
  const InputFile file(text);
  if (auto recording = recording::Recording::open(file.path)) {
    const auto analysis = attribution::analyze_recording(*recording, {.timeline_points = 50});
    check_sums(analysis);
    const report::RecordingReport report{"a.hrec",
                                         recording->info(),
                                         recording->stacks(),
                                         analysis,
                                         [](std::uint64_t) { return std::vector<std::string>{"f"}; },
                                         {},
                                         true};
    for (const char letter : report::recording_to_terminal(report, false, 80))
      if (static_cast<unsigned char>(letter) < 0x20 && letter != '\n') std::abort();
    if (!parse_json(to_text(report::recording_to_json(report)))) std::abort();
  }
}
