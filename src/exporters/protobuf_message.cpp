#include "exporters/protobuf_message.h"

#include "base/json.h"

namespace headroom::exporters {

std::string valid_utf8(std::string_view text) {
  const auto repaired = parse_json(to_line(Json(std::string(text))));
  return repaired ? repaired->get<std::string>() : std::string();
}

}  // namespace headroom::exporters
