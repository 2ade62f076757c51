// Writes the page of a sample recording for the browser test: `write_recording_page FOLDER
// model|sampled|empty|gpu`.
#include <cstdio>
#include <string_view>

#include "base/files.h"
#include "sample_recording.h"

int main(int argc, char** argv) {
  using headroom::test::SampleRecording;
  if (argc < 3) return 2;
  const std::filesystem::path folder = argv[1];
  const std::string_view kind = argv[2];
  auto recording = headroom::test::sample_recording(kind == "model"     ? SampleRecording::model
                                                    : kind == "sampled" ? SampleRecording::sampled
                                                    : kind == "gpu"     ? SampleRecording::gpu
                                                                        : SampleRecording::empty,
                                                    folder);
  const auto html = recording.page();
  const headroom::Status written = html ? headroom::write_file_atomically(folder / "report.html", *html)
                                        : headroom::Status(tl::unexpected(html.error()));
  if (!written) std::fprintf(stderr, "%s\n", written.error().sentence().c_str());
  return written ? 0 : 1;
}
