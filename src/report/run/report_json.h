// The documents that a run leaves, as JSON, there and back: report.json (docs/report.schema.json is its
// schema, docs/report-format.md describes it), the settings of a runtime, and footprints/NAME.json.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/result.h"
#include "types/bench_result.h"
#include "types/footprint.h"

namespace headroom::report {

// Major version: raised when a key changes its meaning or goes; keys may be added without.
inline constexpr int kReportSchemaVersion = 1;
inline constexpr int kFootprintSchemaVersion = 1;
// The fix where a document is of a version that is not known yet: the document is sound.
inline constexpr const char* kFixOfNewerReport = "use a newer Headroom";

nlohmann::ordered_json to_json(const BenchResult& result);
// Its text, with indentation and a newline at the end, or as one line of half the size. The same as to_text()
// or to_line() of that document; but of one model at a time, whose tree takes 0.2 MiB after a long run.
std::string report_text(const BenchResult& result, bool is_indented = true);
nlohmann::ordered_json to_json(const RuntimeSettings& settings);
nlohmann::ordered_json to_json(const Footprint& footprint);

// Read what to_json wrote. They tolerate unknown keys and absent figures; a value of a wrong type and a newer
// schema_version are errors that name the key as a JSON pointer. The file names inside the source's sequences
// are not in the report (metadata.json has them) and come back empty.
Result<BenchResult> bench_result_from_json(const nlohmann::ordered_json& document,
                                           std::string_view name = "report.json");
Result<RuntimeSettings> settings_from_json(const nlohmann::ordered_json& document);
Result<Footprint> footprint_from_json(const nlohmann::ordered_json& document,
                                      std::string_view name = "the footprint");

// A model's entry of report.json alone, for what the setup phase found out about a model that failed.
nlohmann::ordered_json to_json(const ModelResult& result);
Result<ModelResult> model_result_from_json(const nlohmann::ordered_json& document);

// Facts of the host alone, as the child that asks NVIDIA's driver gives them.
nlohmann::ordered_json to_json(const HostInfo& host);
Result<HostInfo> host_info_from_json(const nlohmann::ordered_json& document);

// What the child that reads a recording answers (bench --layers).
nlohmann::ordered_json to_json(const LayerMemory& layers);
Result<LayerMemory> layer_memory_from_json(const nlohmann::ordered_json& document);

// Parses the text of a report.json (bounded depth, no exceptions). Errors call it `name`.
Result<BenchResult> read_report(std::string_view text, std::string_view name = "report.json");

}  // namespace headroom::report
