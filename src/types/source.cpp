#include "types/source.h"

#include <fmt/format.h>

namespace headroom {

std::string_view name_of(SourceKind kind) {
  switch (kind) {
    case SourceKind::image_dir:
      return "image_dir";
    case SourceKind::video:
      return "video";
    case SourceKind::camera:
      return "camera";
  }
  return "image_dir";
}

std::string SourceSpec::describe() const {
  if (kind == SourceKind::camera) return fmt::format("camera={}", camera_index);
  return fmt::format("{}={}", name_of(kind), path);
}

}  // namespace headroom
