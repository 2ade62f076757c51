// Converts SourceMetadata to and from metadata.json.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "types/source.h"

namespace headroom::media {

nlohmann::ordered_json to_json(const SourceMetadata& metadata);
// Checks types, bounds and schema_version; the error names the key.
Result<SourceMetadata> source_from_json(const nlohmann::ordered_json& document);

}  // namespace headroom::media
