// Writes the page of a memory snapshot for the browser test:
// `write_snapshot_page FOLDER training|state|empty|FILE.pickle`.
#include <cstdio>
#include <string_view>

#include "base/files.h"
#include "sample_snapshot.h"
#include "snapshot/snapshot_reader.h"

int main(int argc, char** argv) {
  using headroom::test::sample_snapshot;
  using headroom::test::SampleSnapshot;
  if (argc < 3) return 2;
  const std::string_view kind = argv[2];
  headroom::Result<headroom::snapshot::Snapshot> snapshot =
      kind == "training" ? sample_snapshot(SampleSnapshot::training)
      : kind == "state"  ? sample_snapshot(SampleSnapshot::state)
      : kind == "empty"  ? sample_snapshot(SampleSnapshot::empty)
                         : headroom::snapshot::open_snapshot(argv[2]);
  const auto html = snapshot ? headroom::test::page_of(*snapshot)
                             : headroom::Result<std::string>(tl::unexpected(snapshot.error()));
  const headroom::Status written =
      html ? headroom::write_file_atomically(std::filesystem::path(argv[1]) / "report.html", *html)
           : headroom::Status(tl::unexpected(html.error()));
  if (!written) std::fprintf(stderr, "%s\n", written.error().sentence().c_str());
  return written ? 0 : 1;
}
