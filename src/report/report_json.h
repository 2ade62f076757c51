// report.json: BenchResult as JSON, there and back. docs/report.schema.json is its schema.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "base/result.h"
#include "model/bench_result.h"
#include "model/footprint.h"

namespace headroom::report {

inline constexpr int kReportSchemaVersion = 1;

nlohmann::ordered_json to_json(const BenchResult& result);
nlohmann::ordered_json to_json(const RuntimeSettings& settings);
nlohmann::ordered_json to_json(const Footprint& footprint);

// Reads what to_json wrote. Tolerates unknown keys and absent figures; wrong types and a newer major
// schema_version are errors that name the key.
Result<BenchResult> bench_result_from_json(const nlohmann::ordered_json& document);
Result<RuntimeSettings> settings_from_json(const nlohmann::ordered_json& document);

// Parses text (bounded depth, no exceptions).
Result<BenchResult> read_report(std::string_view text);

}  // namespace headroom::report
