// parse_source: what the person typed after --source.
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
    "give image_dir=FOLDER, video=FILE, camera=NUMBER, or the path of a folder, video or image";
constexpr std::string_view kCameraDevice = "/dev/video";

// Absolute, so that a run can be repeated from another folder, and without "." and trailing slashes, so that
// the same place reads the same. A ".." behind a symbolic link must not be folded: it leads elsewhere.
std::string tidy_path(const fs::path& path) {
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
    return usage_error(fmt::format("cannot use the source camera={}", value), "that is not a camera's number",
                       "give camera=0 for /dev/video0");
  return SourceSpec{SourceKind::camera, {}, *number};
}

// With the kind given, the path has to exist and be of that kind; what is inside is the listing's business.
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
                                                          : "its extension is not known",
                         images && is_video_name(name)    ? fmt::format("give video={}", value)
                         : !images && is_image_name(name) ? fmt::format("give image_dir={}", value)
                         : images ? fmt::format("give a folder, or an image ({})", kImageExtensions)
                                  : fmt::format("give a folder, or a video ({})", kVideoExtensions));
  }
  return SourceSpec{kind, tidy_path(path), 0};
}

bool has_images(const fs::path& folder) { return list_image_folder(folder.string(), {}).has_value(); }

// A folder with images, here or one level down, is a folder of images; else one with videos is one of videos.
Result<SourceSpec> guess_folder(std::string_view text) {
  const fs::path folder(text);
  if (contains_image(folder)) return parse_path(SourceKind::image_dir, text);
  const auto listing = list_folder(folder);
  if (!listing) return tl::unexpected(listing.error());
  if (!listing->images.empty() || (listing->videos.empty() && has_images(folder)))
    return parse_path(SourceKind::image_dir, text);
  if (!listing->videos.empty()) return parse_path(SourceKind::video, text);
  return usage_error(
      fmt::format("the folder {} holds no images or videos", text), {},
      fmt::format("give a folder with images ({}) or videos ({})", kImageExtensions, kVideoExtensions));
}

Result<SourceSpec> guess(std::string_view text) {
  const fs::path path(text);
  std::error_code code;
  const fs::file_status status = fs::status(path, code);
  if (text.starts_with(kCameraDevice) && camera_number(text)) return parse_camera(text);
  if (!fs::exists(status)) {
    if (camera_number(text))
      return usage_error(fmt::format("cannot use the source {}", text), "no such file or folder",
                         fmt::format("give camera={} for a camera", text));
    return no_such_path(text);
  }
  if (fs::is_directory(status)) return guess_folder(text);
  const std::string name = path.filename().string();
  if (is_video_name(name)) return parse_path(SourceKind::video, text);
  if (is_image_name(name)) return parse_path(SourceKind::image_dir, text);
  return usage_error(fmt::format("cannot tell what {} is", text), "its extension is not known",
                     fmt::format("give an image ({}) or a video ({})", kImageExtensions, kVideoExtensions));
}

}  // namespace

Result<SourceSpec> parse_source(std::string_view text) {
  if (trim(text).empty()) return usage_error("the source is empty", {}, std::string(kForms));
  if (text.find('\0') != std::string_view::npos)
    return usage_error("the source holds a zero byte", {}, std::string(kForms));
  const std::size_t equals = text.find('=');
  std::error_code ignored;
  if (equals == std::string_view::npos || fs::exists(fs::path(text), ignored)) return guess(text);
  // A '=' behind a '/' belongs to a path.
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
