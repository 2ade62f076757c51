// What every exporter is given, and what an exporter is. docs/export.md says what each format holds.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "exporters/output_sink.h"
#include "recording/recording.h"
#include "symbols/symbolizer.h"

namespace headroom::exporters {

// Which bytes of a stack are meant.
enum class Metric { peak, leaked, temporary, allocated };
inline constexpr std::size_t kMetrics = 4;
std::string_view name_of(Metric metric);

struct ExportInput {
  recording::Recording& recording;
  symbols::Symbolizer& symbolizer;
  std::string file = {};  // as the user named it
  std::optional<Metric> metric = {};
};

struct Exporter {
  std::string_view name;       // as --to takes it
  std::string_view extension;  // of the file that it makes: "speedscope.json"
  std::string_view summary;    // one line
  std::string_view next;       // what to do with the file; {} stands for its name
  bool takes_metric = false;
  bool has_gpu_memory = false;
  Status (*write)(const ExportInput& input, OutputSink& sink) = nullptr;
};

}  // namespace headroom::exporters
