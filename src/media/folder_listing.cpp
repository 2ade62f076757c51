#include "media/folder_listing.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "media/source_scan.h"

namespace headroom::media {
namespace fs = std::filesystem;
namespace {

// `extensions` is a list as shown to users: "jpg, jpeg".
bool has_extension(std::string_view name, std::string_view extensions) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || dot == 0) return false;
  const std::string extension = to_lower(name.substr(dot + 1));
  for (const std::string_view known : split(extensions, ','))
    if (trim(known) == extension) return true;
  return false;
}

}  // namespace

bool is_image_name(std::string_view name) { return has_extension(name, kImageExtensions); }
bool is_video_name(std::string_view name) { return has_extension(name, kVideoExtensions); }

bool contains_image(const fs::path& folder) {
  std::error_code code;
  fs::directory_iterator entries(folder, code);
  for (; !code && entries != fs::directory_iterator(); entries.increment(code)) {
    const std::string name = entries->path().filename().string();
    std::error_code ignored;
    if (!name.starts_with('.') && is_image_name(name) && entries->is_regular_file(ignored)) return true;
  }
  return false;
}

Result<FolderListing> list_folder(const fs::path& folder) {
  FolderListing listing;
  std::error_code code;
  fs::directory_iterator entries(folder, code);
  for (; !code && entries != fs::directory_iterator(); entries.increment(code)) {
    const std::string name = entries->path().filename().string();
    if (name.starts_with('.')) continue;
    std::error_code ignored;
    const fs::file_type type = entries->status(ignored).type();
    const bool is_file = type == fs::file_type::regular || (type == fs::file_type::not_found);
    if (type == fs::file_type::directory)
      listing.folders.push_back(name);
    else if (is_file && is_image_name(name))
      listing.images.push_back(name);
    else if (is_file && is_video_name(name))
      listing.videos.push_back(name);
  }
  if (code)
    return input_error(
        fmt::format("cannot list the folder {}", folder.string()), code.message(),
        code == std::errc::permission_denied ? "check the folder's permissions" : "check the path");
  for (auto* names : {&listing.images, &listing.videos, &listing.folders})
    std::sort(names->begin(), names->end(), natural_less);
  return listing;
}

}  // namespace headroom::media
