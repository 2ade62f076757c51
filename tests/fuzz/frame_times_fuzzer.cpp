// The reader of frames/NAME.csv. Data that was read must be the same after writing and reading it again.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "report/run/frame_times_csv.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace headroom;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto frames = report::read_frame_times(text, "frames.csv");
  if (!frames) return 0;
  std::string again(report::kFrameTimesHeader);
  report::append_csv(again, *frames);
  const auto reread = report::read_frame_times(again, "frames.csv");
  if (!reread || *reread != *frames) std::abort();
  return 0;
}
