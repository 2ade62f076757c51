// Lists the names in a folder in natural order; used only for listing sources.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace headroom::media {

inline constexpr std::string_view kImageExtensions = "jpg, jpeg, png, bmp, webp, tiff, tif";
inline constexpr std::string_view kVideoExtensions = "mp4, avi, mkv, mov, webm, m4v, mpg, mpeg, ts";

struct FolderListing {
  std::vector<std::string> images, videos, folders;  // names, not paths
};

// Lists regular files (and links to them) with known extensions, and folders. Hidden names, pipes, sockets
// and other types are ignored. A broken link with an image's or video's name is listed, so that decoding
// reports it.
Result<FolderListing> list_folder(const std::filesystem::path& folder);
// Stops at the first image, to avoid listing 200,000 names only to know that images exist.
bool contains_image(const std::filesystem::path& folder);

}  // namespace headroom::media
