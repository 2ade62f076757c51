// The documents that a run leaves, as JSON, there and back: report.json (docs/report.schema.json is its
// schema, docs/report-format.md describes it) and footprints/NAME.json.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "types/bench_result.h"
#include "types/budget.h"
#include "types/sample.h"

namespace headroom::report {

// Major version: raised when a key changes its meaning or goes; keys may be added without.
inline constexpr int kReportSchemaVersion = 1;
inline constexpr int kFootprintSchemaVersion = 1;
// The fix where a document is of a version that is not known yet: the document is sound.
inline constexpr const char* kFixOfNewerReport = "use a newer Headroom";

nlohmann::ordered_json to_json(const BenchResult& result);
// Its text with a newline at the end: with indentation, or as one line of half the size.
std::string report_text(const BenchResult& result, bool is_indented = true);
nlohmann::ordered_json to_json(const Footprint& footprint);

// Read what to_json wrote. They tolerate unknown keys and absent figures; a value of a wrong type and a newer
// schema_version are errors that name the key as a JSON pointer. The file names inside the source's sequences
// are not in the report (metadata.json has them) and come back empty.
Result<BenchResult> bench_result_from_json(const nlohmann::ordered_json& document,
                                           std::string_view name = "report.json");
Result<Footprint> footprint_from_json(const nlohmann::ordered_json& document,
                                      std::string_view name = "the footprint");

// A node of a graph, as in the layer memory.
nlohmann::ordered_json to_json(const NodeMemory& node);

// Facts of the host alone, as the child that asks NVIDIA's driver gives them.
nlohmann::ordered_json to_json(const HostInfo& host);
Result<HostInfo> host_info_from_json(const nlohmann::ordered_json& document);

// What the child that reads a recording answers (bench --layers).
nlohmann::ordered_json to_json(const LayerMemory& layers);
Result<LayerMemory> layer_memory_from_json(const nlohmann::ordered_json& document);

// Parses the text of a report.json (bounded depth, no exceptions). Errors call it `name`.
Result<BenchResult> read_report(std::string_view text, std::string_view name = "report.json");

// metrics.jsonl: the time series of a run, one JSON object a line. docs/report-format.md describes the keys.
// A worker at one moment.
struct NamedProcessMemory {
  std::string model;
  std::int64_t pid = 0;
  std::string phase;  // of the worker: "model_loaded"
  ProcessMemory memory;
};

struct MetricsLine {
  Nanoseconds since_start;  // of the run
  std::string phase;        // of the run: "setup", "inference", "parallel", "pipeline", "pool"
  std::string model;        // the model at work; empty while several are, or none
  SystemSample system;      // its own `time` is not written: since_start stands for it
  std::vector<NamedProcessMemory> processes;
};

nlohmann::ordered_json to_json(const MetricsLine& line);
// A sample of `headroom watch`, with its times (docs/watch.md).
nlohmann::ordered_json to_json(const SystemSample& sample);
// The same behind a text, without a document in between.
void append_json(std::string& text, const SystemSample& sample);
// Of a log from anywhere: a figure that no machine has is an error, as a wrong type is.
Result<SystemSample> system_sample_from_json(const nlohmann::ordered_json& document);
// Tolerates unknown and absent keys; a wrong type is an error that names the key.
Result<MetricsLine> metrics_line_from_json(const nlohmann::ordered_json& document);

// The lines of a file, one at a time: one of hours is larger than what a small machine has left. A last line
// that was cut (the run was killed while it wrote) is left out; any other line that is not one of Headroom's,
// or longer than a MiB, is an error with its number.
Status read_metrics(std::istream& jsonl, const std::function<void(MetricsLine)>& each);

}  // namespace headroom::report
