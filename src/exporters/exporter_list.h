// The formats of `headroom export`. To add a format: write NAME_exporter.cpp, declare write_NAME() below, add
// a row to exporter_list.cpp, a test to tests/unit/exporters, and a row to docs/export.md. The command line
// and its help take the formats from the list.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exporters/output_sink.h"
#include "recording/recording.h"
#include "symbols/symbolizer.h"

namespace headroom::exporters {

// Which bytes of a stack are exported.
enum class Metric { peak, leaked, temporary, allocated };
inline constexpr std::size_t kMetrics = 4;
std::string_view name_of(Metric metric);

struct ExportInput {
  recording::Recording& recording;
  symbols::Symbolizer& symbolizer;
  std::string file = {};              // as the user typed it
  std::optional<Metric> metric = {};  // --metric; absent: peak
};

using WriteExport = Status(const ExportInput& input, OutputSink& sink);
WriteExport write_speedscope, write_collapsed, write_pprof, write_csv, write_timeline_json, write_heaptrack,
    write_perfetto, write_pytorch_snapshot;

struct Exporter {
  std::string_view name;        // value of --to
  std::string_view extension;   // extension of the output file: "speedscope.json"
  std::string_view summary;     // one line
  std::string_view next;        // how to use the file; {} is replaced by its name
  bool takes_metric = false;    // supports --metric
  bool has_gpu_memory = false;  // the format shows GPU memory, so it accepts recordings without host memory
  WriteExport* write = nullptr;
};

const std::vector<Exporter>& exporter_list();
const Exporter* find_exporter(std::string_view name);

// The error for --metric temporary if the recording contains samples.
tl::unexpected<Error> no_temporary_allocations(const ExportInput& input);

}  // namespace headroom::exporters
