// Writes a run folder's report.html for the browser test: `write_report_page FOLDER [empty]`.
#include <cstdio>
#include <string_view>

#include "base/files.h"
#include "report/run/views.h"
#include "sample_run.h"

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const std::filesystem::path folder = argv[1];
  const bool empty = argc > 2 && std::string_view(argv[2]) == "empty";
  headroom::test::write_sample_images(folder);
  headroom::BenchResult run;
  if (!empty) run = headroom::test::sample_run();
  const auto html = headroom::report::to_html(run, folder, empty ? "" : headroom::test::sample_metrics(40));
  const headroom::Status written = html ? headroom::write_file_atomically(folder / "report.html", *html)
                                        : headroom::Status(tl::unexpected(html.error()));
  if (!written) std::fprintf(stderr, "%s\n", written.error().sentence().c_str());
  return written ? 0 : 1;
}
