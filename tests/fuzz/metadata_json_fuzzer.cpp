// The reader of metadata.json. Accepted data must be the same after writing and reading it again.
#include "base/json.h"
#include "fuzz.h"
#include "media/source_scan.h"

void fuzz(std::string_view text) {
  using namespace headroom;
  const auto document = parse_json(text);
  if (!document) return;
  const auto metadata = media::source_from_json(*document);
  if (!metadata) return;
  const Json written = media::to_json(*metadata);
  const auto again = media::source_from_json(written);
  if (!again || to_text(media::to_json(*again)) != to_text(written)) std::abort();
}
