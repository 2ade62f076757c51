// Parses the value of --source, and lists sources by names only; nothing is decoded.
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <optional>

#include "base/files.h"
#include "base/text.h"
#include "media/source_scan.h"
#include "media/streams/open_stream.h"
#include "media/streams/raw_frames.h"

namespace headroom::media {
namespace {
namespace fs = std::filesystem;

template <class T>
void keep_first(std::vector<T>& items, std::int64_t limit) {
  if (limit > 0 && static_cast<std::int64_t>(items.size()) > limit)
    items.resize(static_cast<std::size_t>(limit));
}

SourceSequence sequence_of(std::string name, std::string path, std::vector<std::string> images = {}) {
  SourceSequence sequence;
  sequence.name = std::move(name);
  sequence.path = std::move(path);
  sequence.images = std::move(images);
  sequence.objects.emplace_back();
  return sequence;
}
SourceSequence image_sequence(const fs::path& folder, std::vector<std::string> images) {
  return sequence_of(folder.filename().string(), folder.string(), std::move(images));
}

// Subfolders with images, one sequence each.
Result<std::vector<SourceSequence>> list_subfolders(const fs::path& folder,
                                                    const std::vector<std::string>& names) {
  std::vector<SourceSequence> sequences;
  for (const std::string& name : names) {
    auto listing = list_folder(folder / name);
    if (!listing) return forward_error(listing);
    if (!listing->images.empty())
      sequences.push_back(image_sequence(folder / name, std::move(listing->images)));
  }
  return sequences;
}

// --- SA-V and DAVIS: JPEGImages*/[RESOLUTION/]VIDEO/*.jpg, Annotations*/[RESOLUTION/]VIDEO/[OBJECT/]*.png

// The best name that begins with `prefix`: the bare name, or else the first in natural order.
std::string first_with_prefix(const std::vector<std::string>& names, std::string_view prefix) {
  if (std::ranges::find(names, prefix) != names.end()) return std::string(prefix);
  const auto found =
      std::ranges::find_if(names, [&](const std::string& name) { return name.starts_with(prefix); });
  return found == names.end() ? std::string() : *found;
}

// DAVIS has its videos once per resolution: use 480p, as its benchmark does, or else the first one.
Result<std::string> resolution_level(const fs::path& frames) {
  auto listing = list_folder(frames);
  if (!listing) return forward_error(listing);
  for (const std::string& name : listing->folders) {
    auto inside = list_folder(frames / name);
    if (!inside) return forward_error(inside);
    if (!inside->images.empty()) return std::string();  // this level already has the videos
  }
  std::string level = first_with_prefix(listing->folders, "480p");
  return level.empty() && !listing->folders.empty() ? listing->folders.front() : level;
}

Result<std::vector<SourceObject>> list_objects(const fs::path& annotations) {
  std::vector<SourceObject> objects;
  std::error_code ignored;
  if (fs::is_directory(annotations, ignored)) {
    auto listing = list_folder(annotations);
    if (!listing) return forward_error(listing);
    for (const std::string& id : listing->folders) {
      auto masks = list_folder(annotations / id);
      if (!masks) return forward_error(masks);
      objects.push_back(
          {id, masks->images.empty() ? std::string() : (annotations / id / masks->images.front()).string()});
    }
    if (objects.empty() && !listing->images.empty())
      objects.push_back({{}, (annotations / listing->images.front()).string()});
  }
  if (objects.empty()) objects.emplace_back();
  return objects;
}

Result<std::vector<SourceSequence>> list_annotated(const AnnotatedFolder& folder) {
  auto videos = list_folder(folder.frames);
  if (!videos) return forward_error(videos);
  auto sequences = list_subfolders(folder.frames, videos->folders);
  if (!sequences) return sequences;
  for (SourceSequence& sequence : *sequences) {
    auto objects = list_objects(folder.annotations.empty() ? fs::path() : folder.annotations / sequence.name);
    if (!objects) return forward_error(objects);
    sequence.objects = std::move(*objects);
  }
  return sequences;
}

Result<std::vector<SourceSequence>> list_videos(const std::string& path) {
  std::vector<SourceSequence> sequences;
  const auto add = [&](const fs::path& file) {
    sequences.push_back(sequence_of(file.filename().string(), file.string()));
  };
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) {
    add(path);
    return sequences;
  }
  auto listing = list_folder(path);
  if (!listing) return forward_error(listing);
  for (const std::string& name : listing->videos) add(fs::path(path) / name);
  if (sequences.empty())
    return input_error(fmt::format("the folder {} contains no videos", path), {},
                       fmt::format("use a folder with {} files", kVideoExtensions));
  return sequences;
}

class Fingerprint {
 public:
  void add(std::string_view bytes) {
    hash_.add(bytes);
    hash_.add(std::string_view("\0", 1));
  }
  // Adds size and modification time. A missing file changes the fingerprint, too.
  void add_file(const fs::path& path) {
    struct stat info {};
    add(path.string());
    if (::stat(path.c_str(), &info) != 0) return;
    add(fmt::format("{} {} {}", info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec));
  }
  std::string text() const { return hash_.text(); }

 private:
  Fnv1a hash_;
};

// `extensions` is a list as shown to users: "jpg, jpeg".
bool has_extension(std::string_view name, std::string_view extensions) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || dot == 0) return false;
  const std::string extension = to_lower(name.substr(dot + 1));
  for (const std::string_view known : split(extensions, ','))
    if (trim(known) == extension) return true;
  return false;
}

constexpr std::string_view kForms =
    "use image_dir=FOLDER, video=FILE, camera=NUMBER, csi=NUMBER, an address such as rtsp://HOST/PATH, "
    "gst=PIPELINE, raw=FILE,SIZE,FORMAT, or the path of a folder, video or image";
constexpr std::string_view kCameraDevice = "/dev/video";
constexpr std::string_view kSchemes = "rtsp, rtsps, http, https, rtmp, rtmps, udp, tcp, srt";

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

Result<SourceSpec> parse_camera(SourceKind kind, std::string_view value) {
  const auto number = kind == SourceKind::camera ? camera_number(value) : parse_number<int>(value);
  if (!number || *number < 0)
    return usage_error(
        fmt::format("cannot use the source {}={}", name_of(kind), value), "not a camera number",
        kind == SourceKind::camera ? "use camera=0 for /dev/video0" : "use csi=0 for the first camera");
  return SourceSpec{kind, {}, *number};
}

bool is_address(std::string_view text) {
  const std::size_t at = text.find("://");
  return at != std::string_view::npos && at > 0 &&
         text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-") == at;
}

Result<SourceSpec> parse_address(std::string_view address) {
  SourceSpec spec{SourceKind::stream, std::string(address), 0};
  const std::string what = fmt::format("cannot use the source {}", spec.shown_path());
  const std::string scheme = to_lower(address.substr(0, address.find("://")));
  const auto known = split(kSchemes, ',');
  if (std::ranges::none_of(known, [&](std::string_view each) { return trim(each) == scheme; }))
    return usage_error(what, fmt::format("unknown protocol '{}'", scheme), fmt::format("use {}", kSchemes));
  // These would end the address in a pipeline of GStreamer.
  const auto is_invalid = [](char c) { return c <= ' ' || c == '"' || c == '\\' || c == '\x7f'; };
  if (std::ranges::any_of(address, is_invalid))
    return usage_error(what, "it has a blank, a quote, a backslash or a control character",
                       "write such characters as %20, %22, %5C");
  return spec;
}

Result<SourceSpec> parse_pipeline(std::string_view pipeline) {
  if (pipeline.empty())
    return usage_error("the source gst= has no pipeline", {},
                       "use gst=\"v4l2src device=/dev/video0\", without a sink at the end");
  return SourceSpec{SourceKind::gst, std::string(pipeline), 0};
}

Result<SourceSpec> parse_raw(std::string_view value) {
  auto frames = parse_raw_frames(value);
  if (!frames) return forward_error(frames);
  std::error_code code;
  const fs::file_status status = fs::status(frames->path, code);
  const std::string what = fmt::format("cannot use the source raw={}", value);
  if (!fs::exists(status)) return usage_error(what, "no such file or FIFO", "check the path");
  if (!fs::is_regular_file(status) && !fs::is_fifo(status))
    return usage_error(what, "it is neither a file nor a FIFO", "use a file, or create a FIFO with mkfifo");
  const std::string rest(value.substr(frames->path.size()));
  return SourceSpec{SourceKind::raw, normalized_path(frames->path) + rest, 0};
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
  if (text.starts_with(kCameraDevice) && camera_number(text)) return parse_camera(SourceKind::camera, text);
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

Result<SourceSpec> parse_kind(const std::string& kind, std::string_view value) {
  if (kind == "camera") return parse_camera(SourceKind::camera, trim(value));
  if (kind == "csi") return parse_camera(SourceKind::csi, trim(value));
  if (kind == "stream" && is_address(trim(value))) return parse_address(trim(value));
  if (kind == "gst") return parse_pipeline(trim(value));
  if (kind == "raw") return parse_raw(value);
  if (kind == "image_dir" || kind == "image-dir") return parse_path(SourceKind::image_dir, value);
  if (kind == "video") return parse_path(SourceKind::video, value);
  const std::string meant = closest_match(kind, {"image_dir", "video", "camera", "stream"});
  const bool is_known = meant.empty() || meant == kind;
  return usage_error(kind == "stream" ? fmt::format("cannot use the source stream={}", value)
                                      : fmt::format("unknown kind of source '{}'", kind),
                     kind == "stream" ? "not an address" : "",
                     is_known ? std::string(kForms) : fmt::format("did you mean {}={}?", meant, value));
}

}  // namespace

Result<AnnotatedFolder> find_annotated_folder(const fs::path& folder, const FolderListing& listing) {
  const std::string frames = first_with_prefix(listing.folders, "JPEGImages");
  if (frames.empty()) return AnnotatedFolder{};
  auto level = resolution_level(folder / frames);
  if (!level) return forward_error(level);
  const std::string annotations = first_with_prefix(listing.folders, "Annotations");
  const auto inside = [&](const std::string& name) {
    return level->empty() ? folder / name : folder / name / *level;
  };
  return AnnotatedFolder{inside(frames), annotations.empty() ? fs::path() : inside(annotations)};
}

Result<std::vector<SourceSequence>> list_image_folder(const std::string& folder, const ScanLimits& limits) {
  auto listing = list_folder(folder);
  if (!listing) return forward_error(listing);
  auto annotated = find_annotated_folder(folder, *listing);
  if (!annotated) return forward_error(annotated);
  auto sequences =
      annotated->frames.empty() ? list_subfolders(folder, listing->folders) : list_annotated(*annotated);
  if (!sequences) return sequences;
  if (!listing->images.empty())
    sequences->insert(sequences->begin(), image_sequence(folder, std::move(listing->images)));
  if (sequences->empty())
    return input_error(fmt::format("the folder {} contains no images", folder),
                       listing->videos.empty() ? "" : "it contains videos",
                       listing->videos.empty() ? fmt::format("use a folder with {} files", kImageExtensions)
                                               : fmt::format("use video={}", folder));
  keep_first(*sequences, limits.videos);
  for (SourceSequence& sequence : *sequences) {
    keep_first(sequence.images, limits.max_frames);
    keep_first(sequence.objects, limits.objects);
    sequence.frames = static_cast<std::int64_t>(sequence.images.size());
  }
  return sequences;
}

Result<std::vector<SourceSequence>> list_source(const SourceSpec& spec, const ScanLimits& limits) {
  switch (spec.kind) {
    case SourceKind::camera:
      return std::vector{sequence_of(fmt::format("camera {}", spec.camera_index),
                                     fmt::format("/dev/video{}", spec.camera_index))};
    case SourceKind::csi:
      return std::vector{sequence_of(fmt::format("CSI camera {}", spec.camera_index), {})};
    case SourceKind::stream:
      return std::vector{sequence_of(spec.shown_path(), spec.path)};
    case SourceKind::gst:
      return std::vector{sequence_of("pipeline", spec.path)};
    case SourceKind::raw: {
      auto frames = parse_raw_frames(spec.path);
      if (!frames) return forward_error(frames);
      return std::vector{sequence_of(fs::path(frames->path).filename().string(), frames->path)};
    }
    default:
      break;
  }
  if (spec.kind == SourceKind::video) {
    auto videos = list_videos(spec.path);
    if (videos) keep_first(*videos, limits.videos);
    return videos;
  }
  std::error_code ignored;
  if (fs::is_directory(spec.path, ignored)) return list_image_folder(spec.path, limits);
  if (!fs::exists(spec.path, ignored))
    return input_error(fmt::format("cannot use the source {}", spec.describe()), "no such file or folder",
                       "check the path");
  const fs::path image(spec.path);
  auto sequence = image_sequence(image.parent_path(), {image.filename().string()});
  sequence.frames = 1;
  return std::vector{std::move(sequence)};
}

Result<std::string> source_fingerprint(const SourceSpec& spec) {
  auto sequences = list_source(spec, {});
  if (!sequences) return forward_error(sequences);
  Fingerprint fingerprint;
  fingerprint.add(spec.describe());
  if (is_live(spec)) return fingerprint.text();
  for (const SourceSequence& sequence : *sequences) {
    fingerprint.add(sequence.name);
    if (sequence.images.empty()) fingerprint.add_file(sequence.path);
    for (const std::string& image : sequence.images) fingerprint.add_file(fs::path(sequence.path) / image);
    for (const SourceObject& object : sequence.objects) {
      fingerprint.add(object.id);
      if (!object.mask_path.empty()) fingerprint.add_file(object.mask_path);
    }
  }
  return fingerprint.text();
}

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
    const bool is_file = type == fs::file_type::regular || type == fs::file_type::not_found;
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
    std::ranges::sort(*names, natural_less);
  return listing;
}

Result<SourceSpec> parse_source(std::string_view text) {
  if (trim(text).empty()) return usage_error("the source is empty", {}, std::string(kForms));
  if (text.find('\0') != std::string_view::npos)
    return usage_error("the source contains a zero byte", {}, std::string(kForms));
  if (is_address(text)) return parse_address(text);
  const std::size_t equals = text.find('=');
  std::error_code ignored;
  if (equals == std::string_view::npos || fs::exists(fs::path(text), ignored)) return guess(text);
  // A '=' after a '/' belongs to a path.
  if (text.substr(0, equals).find('/') != std::string_view::npos) return guess(text);
  return parse_kind(to_lower(trim(text.substr(0, equals))), text.substr(equals + 1));
}

}  // namespace headroom::media
