// The reader of frames/NAME.csv. Data that was read must be the same after writing and reading it again.
#include "fuzz.h"
#include "report/run/views.h"

void fuzz(std::string_view text) {
  using namespace headroom;
  const auto frames = report::read_frame_times(text, "frames.csv");
  if (!frames) return;
  std::string again(report::kFrameTimesHeader);
  report::append_csv(again, *frames);
  const auto reread = report::read_frame_times(again, "frames.csv");
  if (!reread || *reread != *frames) std::abort();
}
