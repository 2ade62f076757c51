// The search for a model's external files: the result does not depend on how the bytes are split, and no name
// leads out of the model's folder.
#include <algorithm>
#include <filesystem>
#include <set>

#include "fuzz.h"
#include "types/external_data.h"

namespace {

std::set<std::string> found_in(std::string_view bytes, std::size_t piece) {
  headroom::ExternalDataFinder finder;
  for (std::size_t at = 0; at < bytes.size(); at += piece) finder.take(bytes.substr(at, piece));
  return finder.names();
}

}  // namespace

void fuzz(std::string_view bytes) {
  if (bytes.empty()) return;
  const auto whole = found_in(bytes, bytes.size());
  if (found_in(bytes, 1 + static_cast<unsigned char>(bytes[0]) % 16) != whole) std::abort();
  for (const std::string& name : whole) {
    const auto path = std::filesystem::path(name).lexically_normal();
    if (path.is_absolute() || *path.begin() == "..") std::abort();
  }
}
