// parse_source: parses the value of --source.
#include <fmt/format.h>

#include <filesystem>
#include <limits>
#include <optional>

#include "base/text.h"
#include "media/folder_listing.h"
#include "media/source_scan.h"

namespace headroom::media {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kForms =
    "use image_dir=FOLDER, video=FILE, camera=NUMBER, or the path of a folder, video or image";
constexpr std::string_view kCameraDevice = "/dev/video";

// Makes a path absolute, so that a run can be repeated from another folder. Also removes "." and trailing
// slashes, so that equal places have equal paths. A ".." after a symbolic link must not be removed
// textually: it leads elsewhere.
std::string normalized_path(const fs::path& path) {
  std::error_code code;
  const fs::path absolute = fs::absolute(path, code);
  if (code) return path.string();
  fs::path tidy = absolute.lexically_normal();
  if (!fs::equivalent(tidy, absolute, code) || code) tidy = fs::canonical(absolute, code);
  if (code) return absolute.string();
  if (!tidy.has_filename() && tidy.has_relative_path()) tidy = tidy.parent_path();
  return tidy.string();
}

tl::unexpected<Error> no_such_path(std::string_view path) {
  return usage_error(fmt::format("cannot use the source {}", path), "no such file or folder",
                     "check the path");
}

std::optional<int> camera_number(std::string_view text) {
  if (text.starts_with(kCameraDevice)) text.remove_prefix(kCameraDevice.size());
  const auto number = parse_number<int>(text);
  return number && *number >= 0 ? number : std::nullopt;
}

Result<SourceSpec> parse_camera(std::string_view value) {
  const auto number = camera_number(value);
  if (!number)
    return usage_error(fmt::format("cannot use the source camera={}", value), "not a camera number",
                       "use camera=0 for /dev/video0");
  return SourceSpec{SourceKind::camera, {}, *number};
}

// For an explicit kind, the path must exist and be of that kind. The listing checks its content.
Result<SourceSpec> parse_path(SourceKind kind, std::string_view value) {
  const fs::path path(value);
  if (value.empty())
    return usage_error(fmt::format("the source {}= has no path", name_of(kind)), {}, std::string(kForms));
  std::error_code code;
  const fs::file_status status = fs::status(path, code);
  if (!fs::exists(status)) return no_such_path(value);
  const std::string name = path.filename().string();
  if (!fs::is_directory(status)) {
    const bool images = kind == SourceKind::image_dir;
    if (images ? !is_image_name(name) : !is_video_name(name))
      return usage_error(fmt::format("cannot use {} as {}", value, name_of(kind)),
                         images && is_video_name(name)    ? "it is a video"
                         : !images && is_image_name(name) ? "it is an image"
                                                          : "unknown file extension",
                         images && is_video_name(name)    ? fmt::format("use video={}", value)
                         : !images && is_image_name(name) ? fmt::format("use image_dir={}", value)
                         : images ? fmt::format("use a folder, or an image ({})", kImageExtensions)
                                  : fmt::format("use a folder, or a video ({})", kVideoExtensions));
  }
  return SourceSpec{kind, normalized_path(path), 0};
}

bool has_images(const fs::path& folder) { return list_image_folder(folder.string(), {}).has_value(); }

// A folder with images, directly or one level down, is an image source. Otherwise a folder with videos is a
// video source.
Result<SourceSpec> guess_folder(std::string_view text) {
  const fs::path folder(text);
  if (contains_image(folder)) return parse_path(SourceKind::image_dir, text);
  const auto listing = list_folder(folder);
  if (!listing) return tl::unexpected(listing.error());
  if (!listing->images.empty() || (listing->videos.empty() && has_images(folder)))
    return parse_path(SourceKind::image_dir, text);
  if (!listing->videos.empty()) return parse_path(SourceKind::video, text);
  return usage_error(
      fmt::format("the folder {} contains no images or videos", text), {},
      fmt::format("use a folder with images ({}) or videos ({})", kImageExtensions, kVideoExtensions));
}

Result<SourceSpec> guess(std::string_view text) {
  const fs::path path(text);
  std::error_code code;
  const fs::file_status status = fs::status(path, code);
  if (text.starts_with(kCameraDevice) && camera_number(text)) return parse_camera(text);
  if (!fs::exists(status)) {
    if (camera_number(text))
      return usage_error(fmt::format("cannot use the source {}", text), "no such file or folder",
                         fmt::format("use camera={} for a camera", text));
    return no_such_path(text);
  }
  if (fs::is_directory(status)) return guess_folder(text);
  const std::string name = path.filename().string();
  if (is_video_name(name)) return parse_path(SourceKind::video, text);
  if (is_image_name(name)) return parse_path(SourceKind::image_dir, text);
  return usage_error(fmt::format("cannot use the source {}", text), "unknown file extension",
                     fmt::format("use an image ({}) or a video ({})", kImageExtensions, kVideoExtensions));
}

}  // namespace

Result<SourceSpec> parse_source(std::string_view text) {
  if (trim(text).empty()) return usage_error("the source is empty", {}, std::string(kForms));
  if (text.find('\0') != std::string_view::npos)
    return usage_error("the source contains a zero byte", {}, std::string(kForms));
  const std::size_t equals = text.find('=');
  std::error_code ignored;
  if (equals == std::string_view::npos || fs::exists(fs::path(text), ignored)) return guess(text);
  // A '=' after a '/' belongs to a path.
  if (text.substr(0, equals).find('/') != std::string_view::npos) return guess(text);

  const std::string kind = to_lower(trim(text.substr(0, equals)));
  const std::string_view value = text.substr(equals + 1);
  if (kind == "camera") return parse_camera(trim(value));
  if (kind == "image_dir" || kind == "image-dir") return parse_path(SourceKind::image_dir, value);
  if (kind == "video") return parse_path(SourceKind::video, value);
  const std::string meant = closest_match(kind, {"image_dir", "video", "camera"});
  return usage_error(fmt::format("unknown kind of source '{}'", kind), {},
                     meant.empty() ? std::string(kForms) : fmt::format("did you mean {}={}?", meant, value));
}

}  // namespace headroom::media
