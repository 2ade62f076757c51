#include "media/vos/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <bitset>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/files.h"
#include "base/text.h"
#include "base/utf8.h"
#include "media/image_header.h"
#include "media/source_scan.h"
#include "media/vos/masks.h"
#include "media/vos/prompts_file.h"

namespace headroom::media::vos {
namespace {
namespace fs = std::filesystem;

constexpr Bytes kLargestVideoList = mebibytes(16);
constexpr int kVoid = 255;
constexpr const char* kNotUtf8 = "its name is not valid UTF-8; rename it";

// The folders of one video.
struct VideoFolder {
  std::string id{};
  fs::path frames{}, masks{};  // `masks` is empty without ground truth
};

std::string reason_in(const Error& error) { return error.why.empty() ? error.what : error.why; }

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

std::string stem_of(const std::string& name) { return fs::path(name).stem().string(); }

// The names of videos in a list, each once. A line of DAVIS 2016 has the paths of a frame and its mask:
// "/JPEGImages/480p/bear/00000.jpg /Annotations/480p/bear/00000.png".
Result<std::vector<std::string>> read_video_list(const fs::path& file) {
  auto text = read_file(file, kLargestVideoList);
  if (!text) return forward_error(text);
  std::vector<std::string> names;
  std::set<std::string> known;
  for (const std::string_view line : split(*text, '\n')) {
    const auto words = split_words(line);
    if (words.empty()) continue;
    const fs::path first(words.front());
    std::string name = (first.has_parent_path() ? first.parent_path().filename() : first).string();
    if (!name.empty() && name != "." && name != ".." && known.insert(name).second)
      names.push_back(std::move(name));
  }
  return names;
}

// The data set's list of videos, if it has one.
std::optional<fs::path> find_video_list(const fs::path& folder) {
  for (const char* name : {"sav_val.txt", "sav_test.txt", "ImageSets/2017/val.txt", "ImageSets/2016/val.txt",
                           "ImageSets/480p/val.txt"}) {
    std::error_code ignored;
    if (fs::is_regular_file(folder / name, ignored)) return folder / name;
  }
  return std::nullopt;
}

Result<std::vector<VideoFolder>> list_benchmark(const fs::path& folder, const AnnotatedFolder& annotated) {
  std::vector<std::string> names;
  if (const auto list = find_video_list(folder)) {
    auto listed = read_video_list(*list);
    if (!listed) return forward_error(listed);
    names = std::move(*listed);
  } else {
    auto listing = list_folder(annotated.frames);
    if (!listing) return forward_error(listing);
    names = std::move(listing->folders);
  }
  std::vector<VideoFolder> videos;
  for (std::string& name : names)
    videos.push_back({name, annotated.frames / name, annotated.annotations / name});
  return videos;
}

// Also of "." and "folder/".
std::string name_of_folder(const fs::path& folder) {
  std::error_code code;
  const fs::path whole = fs::absolute(folder, code).lexically_normal();
  return (whole.has_filename() ? whole : whole.parent_path()).filename().string();
}

bool has_pairs(const fs::path& folder) { return is_folder(folder / "frames") && is_folder(folder / "gt"); }

VideoFolder pair_of(const fs::path& folder) {
  return {name_of_folder(folder), folder / "frames", folder / "gt"};
}

// Builds the data set, and notes what is left out.
class DatasetScan {
 public:
  DatasetScan(MediaEngine& engine, const fs::path& folder, const DatasetOptions& options)
      : engine_(engine), folder_(folder), options_(options) {
    dataset_.folder = folder.string();
  }

  Result<VosDataset> run() {
    auto videos = list_videos();
    if (!videos) return forward_error(videos);
    if (auto read = read_all_prompts(*videos); !read) return forward_error(read);
    give_unnamed_prompts(*videos);
    for (const VideoFolder& video : *videos) {
      if (options_.limit_videos > 0 && std::ssize(dataset_.videos) >= options_.limit_videos) break;
      scan_video(video);
    }
    note_unused_prompts(*videos);
    if (dataset_.videos.empty()) return nothing_usable();
    return std::move(dataset_);
  }

 private:
  // --- which videos there are

  Result<std::vector<VideoFolder>> list_videos() {
    auto listing = list_folder(folder_);
    if (!listing) return forward_error(listing);
    auto annotated = find_annotated_folder(folder_, *listing);
    if (!annotated) return forward_error(annotated);
    if (!annotated->frames.empty()) {
      if (!is_folder(annotated->annotations))
        return input_error(fmt::format("cannot use the data set {}", folder_.string()),
                           fmt::format("{} has no folder of masks beside it", annotated->frames.string()),
                           "add Annotations_6fps (SA-V) or Annotations/480p (DAVIS)");
      dataset_.layout = VosLayout::davis;
      return list_benchmark(folder_, *annotated);
    }
    if (has_pairs(folder_)) {
      dataset_.layout = VosLayout::davis;
      return std::vector{pair_of(folder_)};
    }
    std::vector<VideoFolder> videos;
    for (const std::string& name : listing->folders)
      if (has_pairs(folder_ / name)) videos.push_back(pair_of(folder_ / name));
    if (!videos.empty()) {
      dataset_.layout = VosLayout::davis;
      return videos;
    }
    if (!listing->images.empty()) return std::vector{VideoFolder{name_of_folder(folder_), folder_, {}}};
    for (const std::string& name : listing->folders)
      if (contains_image(folder_ / name)) videos.push_back({name, folder_ / name, {}});
    if (videos.empty())
      return input_error(
          fmt::format("cannot use the data set {}", folder_.string()),
          "it has neither frames nor the folders of SA-V or DAVIS",
          "give the folder with JPEGImages and Annotations, with frames and gt, or with pictures "
          "and a prompts file");
    return videos;
  }

  // --- prompts

  Status read_all_prompts(const std::vector<VideoFolder>& videos) {
    if (!options_.prompts.empty()) return add_prompts(options_.prompts, {});
    if (dataset_.layout != VosLayout::folder) return {};
    if (auto read = find_prompts(folder_, {}); !read) return read;
    for (const VideoFolder& video : videos)
      if (video.frames != folder_)
        if (auto read = find_prompts(video.frames, video.id); !read) return read;
    if (!prompts_.empty()) return {};
    return input_error(fmt::format("cannot use the data set {}", folder_.string()),
                       "its frames have neither masks nor prompts",
                       "write prompts.json or prompts.csv into it (docs/evaluate.md)");
  }

  Status find_prompts(const fs::path& folder, const std::string& video) {
    for (const char* name : {"prompts.json", "prompts.csv"}) {
      std::error_code ignored;
      if (fs::exists(folder / name, ignored)) return add_prompts(folder / name, video);
    }
    return {};
  }

  Status add_prompts(const fs::path& file, const std::string& video) {
    auto entries = read_prompts(file);
    if (!entries) return forward_error(entries);
    for (PromptEntry& entry : *entries) {
      if (entry.video.empty()) entry.video = video;
      prompts_[entry.video].push_back(std::move(entry));
    }
    return {};
  }

  // Prompts without a video belong to the only one.
  void give_unnamed_prompts(const std::vector<VideoFolder>& videos) {
    const auto unnamed = prompts_.find("");
    if (unnamed == prompts_.end() || videos.size() != 1) return;
    std::vector<PromptEntry> entries = std::move(unnamed->second);
    prompts_.erase(unnamed);
    std::ranges::move(entries, std::back_inserter(prompts_[videos.front().id]));
  }

  void note_unused_prompts(const std::vector<VideoFolder>& videos) {
    for (const VideoFolder& video : videos) prompts_.erase(video.id);
    for (const auto& [name, entries] : prompts_) {
      std::set<std::string> objects;
      for (const PromptEntry& entry : entries)
        if (objects.insert(entry.object).second)
          leave_out(
              name, entry.object,
              name.empty() ? "its prompt names no video" : "its prompt names a video that is not there");
    }
  }

  // --- one video

  void scan_video(const VideoFolder& folder) {
    VosVideo video;
    video.id = folder.id;
    if (!is_valid_utf8(folder.frames.string())) return leave_out(folder.id, {}, kNotUtf8);
    if (!is_folder(folder.frames))
      return leave_out(folder.id, {}, fmt::format("it has no folder {}", folder.frames.string()));
    auto frames = list_folder(folder.frames);
    if (!frames) return leave_out(folder.id, {}, reason_in(frames.error()));
    if (frames->images.empty())
      return leave_out(folder.id, {}, fmt::format("{} has no pictures", folder.frames.string()));
    std::map<std::string, std::int64_t> index_of;
    for (const std::string& name : frames->images) {
      if (!is_valid_utf8(name)) return leave_out(folder.id, {}, fmt::format("a frame: {}", kNotUtf8));
      index_of.emplace(stem_of(name), std::ssize(video.frames));
      video.frames.push_back((folder.frames / name).string());
    }
    if (auto size = read_frame_size(video); !size)
      return leave_out(
          folder.id, {},
          fmt::format("its first frame {}: {}", frames->images.front(), reason_in(size.error())));
    if (!folder.masks.empty() && !add_objects(video, folder.masks, index_of)) return;
    add_prompted_objects(video);
    if (options_.limit_objects > 0 && std::ssize(video.objects) > options_.limit_objects)
      video.objects.resize(static_cast<std::size_t>(options_.limit_objects));
    if (!video.objects.empty()) dataset_.videos.push_back(std::move(video));
  }

  Status read_frame_size(VosVideo& video) {
    auto content = read_file(video.frames.front());
    if (!content) return forward_error(content);
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(content->data());
    auto header = inspect_image({bytes, content->size()});
    if (!header) return forward_error(header);
    video.width = header->width;
    video.height = header->height;
    if (header->orientation >= 5) std::swap(video.width, video.height);
    return {};
  }

  // Returns false if the video is left out.
  bool add_objects(VosVideo& video, const fs::path& folder,
                   const std::map<std::string, std::int64_t>& index_of) {
    if (!is_folder(folder)) {
      leave_out(video.id, {}, fmt::format("it has no masks: there is no folder {}", folder.string()));
      return false;
    }
    auto listing = list_folder(folder);
    if (!listing) {
      leave_out(video.id, {}, reason_in(listing.error()));
      return false;
    }
    const std::size_t before = dataset_.left_out.size();
    if (!listing->folders.empty()) {
      dataset_.layout = VosLayout::sav;
      for (const std::string& name : listing->folders) add_object_of_folder(video, folder / name, index_of);
    } else {
      add_objects_of_indexed(video, find_masks(folder, listing->images, index_of));
    }
    if (!video.objects.empty()) return true;
    if (dataset_.left_out.size() == before) leave_out(video.id, {}, "no mask has the name of a frame");
    return false;
  }

  using Masks = std::map<std::int64_t, std::string>;

  static Masks find_masks(const fs::path& folder, const std::vector<std::string>& names,
                          const std::map<std::string, std::int64_t>& index_of) {
    Masks masks;
    for (const std::string& name : names) {
      const auto frame = index_of.find(stem_of(name));
      if (to_lower(fs::path(name).extension().string()) == ".png" && frame != index_of.end())
        masks.emplace(frame->second, (folder / name).string());
    }
    return masks;
  }

  bool is_full(const VosVideo& video) const {
    return options_.limit_objects > 0 && std::ssize(video.objects) >= options_.limit_objects;
  }

  void add_object_of_folder(VosVideo& video, const fs::path& folder,
                            const std::map<std::string, std::int64_t>& index_of) {
    if (is_full(video)) return;
    const std::string id = folder.filename().string();
    if (!is_valid_utf8(id)) return leave_out(video.id, id, kNotUtf8);
    auto listing = list_folder(folder);
    if (!listing) return leave_out(video.id, id, reason_in(listing.error()));
    Masks masks = find_masks(folder, listing->images, index_of);
    if (masks.empty()) return leave_out(video.id, id, "it has no mask with the name of a frame");
    if (options_.check_first_masks) {
      const auto first = read_mask(engine_, masks.begin()->second, 0);
      if (!first) return leave_out(video.id, id, "its first mask: " + reason_in(first.error()));
      if (is_empty(*first)) return leave_out(video.id, id, "its first mask is empty");
      if (!has_size_of(*first, video)) return leave_out(video.id, id, size_problem(*first, video));
    }
    video.objects.push_back({id, std::move(masks), 0, {}});
  }

  void add_objects_of_indexed(VosVideo& video, const Masks& masks) {
    if (masks.empty()) return;
    const auto first = engine_.read_labels(masks.begin()->second);
    if (!first) return leave_out(video.id, {}, "its first mask: " + reason_in(first.error()));
    if (!has_size_of(*first, video)) return leave_out(video.id, {}, size_problem(*first, video));
    std::bitset<256> values;
    for (const std::uint8_t value : first->values) values.set(value);
    values.reset(0);
    if (values.none()) return leave_out(video.id, {}, "its first mask is empty");
    if (values.count() == 1 && values[kVoid]) return video.objects.push_back({"1", masks, 0, {}});
    int last = kVoid - 1;
    while (!values[static_cast<std::size_t>(last)]) --last;
    for (int value = 1; value <= last && !is_full(video); ++value) {
      const std::string id = fmt::format("{}", value);
      if (values[static_cast<std::size_t>(value)])
        video.objects.push_back({id, masks, value, {}});
      else
        leave_out(video.id, id, "it is not in the video's first mask");
    }
  }

  template <class Picture>
  static bool has_size_of(const Picture& mask, const VosVideo& video) {
    return mask.width == video.width && mask.height == video.height;
  }
  template <class Picture>
  static std::string size_problem(const Picture& mask, const VosVideo& video) {
    return fmt::format("its first mask has {} x {} pixels, its first frame {} x {}", mask.width, mask.height,
                       video.width, video.height);
  }

  // The object 1 of a prompts file is the folder 001.
  static std::string_view without_zeros(std::string_view id) {
    const std::size_t first = id.find_first_not_of('0');
    if (id.empty() || id.find_first_not_of("0123456789") != std::string_view::npos) return id;
    return first == std::string_view::npos ? id.substr(id.size() - 1) : id.substr(first);
  }

  void add_prompted_objects(VosVideo& video) {
    std::set<std::string> refused;
    for (PromptEntry& entry : prompts_[video.id]) {
      if (refused.contains(entry.object)) continue;
      auto object = std::ranges::find(video.objects, without_zeros(entry.object),
                                      [](const VosObject& known) { return without_zeros(known.id); });
      if (const std::string problem = problem_of(entry.prompt, video); !problem.empty()) {
        refused.insert(entry.object);
        if (object != video.objects.end()) video.objects.erase(object);
        leave_out(video.id, entry.object, problem);
        continue;
      }
      if (object == video.objects.end()) {
        video.objects.push_back({entry.object, {}, 0, {}});
        object = video.objects.end() - 1;
      }
      object->prompts.push_back(std::move(entry.prompt));
    }
    if (video.objects.empty() && refused.empty()) leave_out(video.id, {}, "no prompt names it");
  }

  static std::string problem_of(const VosPrompt& prompt, const VosVideo& video) {
    if (prompt.frame >= std::ssize(video.frames))
      return fmt::format("its prompt is for frame {}, but the last frame is {}", prompt.frame,
                         std::ssize(video.frames) - 1);
    const auto is_inside = [&](float x, float y) {
      return x >= 0 && y >= 0 && x < static_cast<float>(video.width) && y < static_cast<float>(video.height);
    };
    for (const PromptPoint& point : prompt.points)
      if (!is_inside(point.x, point.y))
        return fmt::format("its point {}, {} is outside the frame of {} x {} pixels", point.x, point.y,
                           video.width, video.height);
    if (prompt.box &&
        (!is_inside(prompt.box->left, prompt.box->top) || !is_inside(prompt.box->right, prompt.box->bottom)))
      return fmt::format("its box is not inside the frame of {} x {} pixels", video.width, video.height);
    return {};
  }

  void leave_out(std::string video, std::string object, std::string why) {
    dataset_.left_out.push_back({std::move(video), std::move(object), std::move(why)});
  }

  tl::unexpected<Error> nothing_usable() const {
    const std::string what = fmt::format("no object of the data set {} can be used", folder_.string());
    if (dataset_.left_out.empty()) return input_error(what, "it has no videos", "check the folder");
    const VosLeftOut& first = dataset_.left_out.front();
    std::string name = first.video.empty() ? "" : "video " + first.video;
    if (!first.object.empty()) name += (name.empty() ? "object " : ", object ") + first.object;
    return input_error(
        what, fmt::format("{}{}: {}", dataset_.left_out.size() > 1 ? "the first is " : "", name, first.why),
        "replace or complete its files");
  }

  MediaEngine& engine_;
  const fs::path& folder_;
  const DatasetOptions& options_;
  VosDataset dataset_;
  std::map<std::string, std::vector<PromptEntry>> prompts_;  // by video
};

}  // namespace

Result<VosDataset> scan_dataset(MediaEngine& engine, const fs::path& folder, const DatasetOptions& options) {
  return DatasetScan(engine, folder, options).run();
}

}  // namespace headroom::media::vos
