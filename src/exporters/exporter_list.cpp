#include "exporters/exporter_list.h"

namespace headroom::exporters {

const std::vector<Exporter>& exporter_list() {
  static const std::vector<Exporter> kExporters{
      {"speedscope", "speedscope.json", "flame graphs for https://www.speedscope.app",
       "open https://www.speedscope.app and drop {} on it (it stays in the browser)", true, false,
       write_speedscope},
      {"collapsed", "collapsed.txt", "one line per stack, for flamegraph.pl and inferno",
       "flamegraph.pl --countname bytes {} > flame.svg", true, false, write_collapsed},
      {"pprof", "pb.gz", "for go tool pprof, with layers as labels", "go tool pprof -http=: {}", true, false,
       write_pprof},
      {"timeline-json", "timeline.json", "every event, the layers and a summary",
       "python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))[\"summary\"])' {}", false, true,
       write_timeline_json},
      {"csv", "csv", "a table of layers and stacks", "open {} in a spreadsheet, or with pandas.read_csv",
       false, true, write_csv},
      {"heaptrack", "heaptrack.txt", "for heaptrack_print and heaptrack_gui", "heaptrack_print {}", false,
       false, write_heaptrack},
      {"perfetto", "perfetto-trace", "memory and layers over time for https://ui.perfetto.dev",
       "open https://ui.perfetto.dev and drop {} on it (it stays in the browser)", false, true,
       write_perfetto},
      {"pytorch-snapshot", "snapshot.pickle", "GPUs and the heap for https://pytorch.org/memory_viz",
       "open https://pytorch.org/memory_viz and drop {} on it (it stays in the browser)", false, true,
       write_pytorch_snapshot},
  };
  return kExporters;
}

const Exporter* find_exporter(std::string_view name) {
  for (const Exporter& exporter : exporter_list())
    if (exporter.name == name) return &exporter;
  return nullptr;
}

tl::unexpected<Error> no_temporary_allocations(const ExportInput& input) {
  return input_error(fmt::format("{} has no data on temporary allocations", input.file),
                     "small allocations were only sampled", "record with headroom trace --full");
}

}  // namespace headroom::exporters
