// metrics.jsonl: the time series of a run, one JSON object a line. docs/report-format.md describes the keys.
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
#include "types/sample.h"

namespace headroom::report {

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
