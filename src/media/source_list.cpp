// Lists sources by names only; nothing is decoded.
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "base/fnv1a.h"
#include "media/folder_listing.h"
#include "media/source_scan.h"

namespace headroom::media {
namespace fs = std::filesystem;
namespace {

template <class T>
void keep_first(std::vector<T>& items, std::int64_t limit) {
  if (limit > 0 && static_cast<std::int64_t>(items.size()) > limit)
    items.resize(static_cast<std::size_t>(limit));
}

SourceSequence image_sequence(const fs::path& folder, std::vector<std::string> images) {
  SourceSequence sequence;
  sequence.name = folder.filename().string();
  sequence.path = folder.string();
  sequence.images = std::move(images);
  sequence.objects.emplace_back();
  return sequence;
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

struct AnnotatedFolder {
  fs::path frames, annotations;
};

// The best name that begins with `prefix`: the bare name, or else the first in natural order.
std::string first_with_prefix(const std::vector<std::string>& names, std::string_view prefix) {
  if (std::find(names.begin(), names.end(), prefix) != names.end()) return std::string(prefix);
  const auto found = std::find_if(names.begin(), names.end(),
                                  [&](const std::string& name) { return name.starts_with(prefix); });
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
  return first_with_prefix(listing->folders, "480p").empty() && !listing->folders.empty()
             ? listing->folders.front()
             : first_with_prefix(listing->folders, "480p");
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

Result<std::vector<SourceSequence>> list_annotated(AnnotatedFolder folder) {
  auto level = resolution_level(folder.frames);
  if (!level) return forward_error(level);
  if (!level->empty()) {
    folder.frames /= *level;
    folder.annotations /= *level;
  }
  auto videos = list_folder(folder.frames);
  if (!videos) return forward_error(videos);
  auto sequences = list_subfolders(folder.frames, videos->folders);
  if (!sequences) return sequences;
  for (SourceSequence& sequence : *sequences) {
    auto objects = list_objects(folder.annotations / sequence.name);
    if (!objects) return forward_error(objects);
    sequence.objects = std::move(*objects);
  }
  return sequences;
}

Result<std::vector<SourceSequence>> list_videos(const std::string& path) {
  std::vector<SourceSequence> sequences;
  const auto add = [&](const fs::path& file) {
    SourceSequence sequence;
    sequence.name = file.filename().string();
    sequence.path = file.string();
    sequence.objects.emplace_back();
    sequences.push_back(std::move(sequence));
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

SourceSequence camera_sequence(int index) {
  SourceSequence sequence;
  sequence.name = fmt::format("camera {}", index);
  sequence.path = fmt::format("/dev/video{}", index);
  sequence.objects.emplace_back();
  return sequence;
}

// --- fingerprint

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

}  // namespace

Result<std::vector<SourceSequence>> list_image_folder(const std::string& folder, const ScanLimits& limits) {
  auto listing = list_folder(folder);
  if (!listing) return forward_error(listing);
  const std::string frames = first_with_prefix(listing->folders, "JPEGImages");
  auto sequences =
      frames.empty()
          ? list_subfolders(folder, listing->folders)
          : list_annotated({fs::path(folder) / frames,
                            fs::path(folder) / first_with_prefix(listing->folders, "Annotations")});
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
  if (spec.kind == SourceKind::camera) return std::vector{camera_sequence(spec.camera_index)};
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
  if (spec.kind == SourceKind::camera) return fingerprint.text();
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

}  // namespace headroom::media
