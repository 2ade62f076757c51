// The input of an exporter, and the description of one. docs/export.md describes the formats.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
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

struct Exporter {
  std::string_view name;        // value of --to
  std::string_view extension;   // extension of the output file: "speedscope.json"
  std::string_view summary;     // one line
  std::string_view next;        // how to use the file; {} is replaced by its name
  bool takes_metric = false;    // supports --metric
  bool has_gpu_memory = false;  // the format shows GPU memory, so it accepts recordings without host memory
  Status (*write)(const ExportInput& input, OutputSink& sink) = nullptr;
};

}  // namespace headroom::exporters
