// The reader of metadata.json. Accepted data must be the same after writing and reading it again.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/json.h"
#include "media/source_json.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace headroom;
  const auto document = parse_json({reinterpret_cast<const char*>(data), size});
  if (!document) return 0;
  const auto metadata = media::source_from_json(*document);
  if (!metadata) return 0;
  const Json written = media::to_json(*metadata);
  const auto again = media::source_from_json(written);
  if (!again || to_text(media::to_json(*again)) != to_text(written)) std::abort();
  return 0;
}
