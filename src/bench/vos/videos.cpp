#include "bench/vos/videos.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/files.h"
#include "base/json.h"
#include "report/run/json_fields.h"

// Described as in the report, but these files are read by this program only.
namespace headroom::report {

void describe(auto& field, a<PromptPoint> auto& point) {
  auto x = static_cast<double>(point.x), y = static_cast<double>(point.y);
  field("x", x);
  field("y", y);
  field("positive", point.positive);
  if constexpr (!std::is_const_v<std::remove_reference_t<decltype(point)>>) {
    point.x = static_cast<float>(x);
    point.y = static_cast<float>(y);
  }
}

}  // namespace headroom::report

namespace headroom::bench {
namespace fs = std::filesystem;
namespace {

using report::a;

struct FrameMask {
  std::int64_t frame = 0;
  std::string file;
};
void describe(auto& field, a<FrameMask> auto& mask) {
  field("frame", mask.frame);
  field("file", mask.file);
}

struct MaskRuns {
  int width = 0, height = 0;
  std::vector<std::int64_t> runs;
};
void describe(auto& field, a<MaskRuns> auto& mask) {
  field("width", mask.width);
  field("height", mask.height);
  field("runs", mask.runs);
}

struct PromptLine {
  std::int64_t frame = 0;
  std::vector<PromptPoint> points;
  std::vector<double> box;  // left, top, right, bottom
  std::optional<MaskRuns> mask;
};
void describe(auto& field, a<PromptLine> auto& prompt) {
  field("frame", prompt.frame);
  field("points", prompt.points);
  field("box", prompt.box);
  field("mask", prompt.mask);
}

struct ObjectLine {
  std::string id;
  int value = 0;
  std::vector<FrameMask> masks;
  std::vector<PromptLine> prompts, made;
};
void describe(auto& field, a<ObjectLine> auto& object) {
  field("id", object.id);
  field("value", object.value);
  field("masks", object.masks);
  field("prompts", object.prompts);
  field("made", object.made);
}

struct VideoLine {
  std::string id;
  int width = 0, height = 0;
  std::vector<std::string> frames;
  std::vector<ObjectLine> objects;
};
void describe(auto& field, a<VideoLine> auto& video) {
  field("id", video.id);
  field("width", video.width);
  field("height", video.height);
  field("frames", video.frames);
  field("objects", video.objects);
}

PromptLine line_of(const VosPrompt& prompt) {
  PromptLine line{prompt.frame, prompt.points, {}, {}};
  if (prompt.box) line.box = {prompt.box->left, prompt.box->top, prompt.box->right, prompt.box->bottom};
  if (prompt.mask) {
    line.mask = MaskRuns{prompt.mask->width, prompt.mask->height, {}};
    append_runs(*prompt.mask, line.mask->runs);
  }
  return line;
}

Result<VosPrompt> prompt_of(PromptLine line) {
  VosPrompt prompt{line.frame, std::move(line.points), {}, {}};
  if (line.box.size() == 4)
    prompt.box = PromptBox{static_cast<float>(line.box[0]), static_cast<float>(line.box[1]),
                           static_cast<float>(line.box[2]), static_cast<float>(line.box[3])};
  if (!line.mask) return prompt;
  auto mask = mask_of_runs(line.mask->width, line.mask->height, line.mask->runs);
  if (!mask) return forward_error(mask);
  prompt.mask = std::move(*mask);
  return prompt;
}

Status add_prompts(std::vector<PromptLine>& lines, std::vector<VosPrompt>& prompts) {
  for (PromptLine& line : lines) {
    auto prompt = prompt_of(std::move(line));
    if (!prompt) return forward_error(prompt);
    prompts.push_back(std::move(*prompt));
  }
  return {};
}

}  // namespace

std::vector<VosPrompt> PreparedVideo::prompts_of(std::size_t object, PromptKind kind) const {
  if (const auto& own = video.objects[object].prompts; !own.empty()) return own;
  const auto& of_each_kind = made[object];
  const auto index = static_cast<std::size_t>(kind);
  return index < of_each_kind.size() ? std::vector{of_each_kind[index]} : std::vector<VosPrompt>{};
}

fs::path videos_path(const fs::path& prepared_folder) { return prepared_folder / "videos.jsonl"; }

Json to_json(const PreparedVideo& prepared) {
  const VosVideo& video = prepared.video;
  VideoLine line{video.id, video.width, video.height, video.frames, {}};
  for (std::size_t i = 0; i < video.objects.size(); ++i) {
    const VosObject& object = video.objects[i];
    ObjectLine described{object.id, object.value, {}, {}, {}};
    for (const auto& [frame, file] : object.masks) described.masks.push_back({frame, file});
    for (const VosPrompt& prompt : object.prompts) described.prompts.push_back(line_of(prompt));
    for (const VosPrompt& prompt : prepared.made[i]) described.made.push_back(line_of(prompt));
    line.objects.push_back(std::move(described));
  }
  return report::object_of([&](report::FieldWriter& field) { describe(field, line); });
}

Result<PreparedVideo> prepared_video_from_json(const Json& document) {
  VideoLine line;
  std::string problem;
  const report::Place root;
  report::FieldReader reader(document, root, problem);
  describe(reader, line);
  if (!problem.empty()) return input_error("a prepared video is not usable", problem);
  PreparedVideo prepared;
  VosVideo& video = prepared.video;
  video.id = std::move(line.id);
  video.width = line.width;
  video.height = line.height;
  video.frames = std::move(line.frames);
  for (ObjectLine& described : line.objects) {
    VosObject& object = video.objects.emplace_back();
    object.id = std::move(described.id);
    object.value = described.value;
    for (FrameMask& mask : described.masks) object.masks[mask.frame] = std::move(mask.file);
    if (auto added = add_prompts(described.prompts, object.prompts); !added) return forward_error(added);
    if (auto added = add_prompts(described.made, prepared.made.emplace_back()); !added)
      return forward_error(added);
  }
  return prepared;
}

Status write_videos(const fs::path& path, const std::vector<PreparedVideo>& videos) {
  return write_file_in_pieces(path, [&](const WritePiece& write) -> Status {
    for (const PreparedVideo& video : videos)
      if (auto written = write(to_line(to_json(video)) + "\n"); !written) return written;
    return {};
  });
}

Result<VideoLines> VideoLines::open(const fs::path& path) {
  VideoLines lines(path.string());
  lines.file_.open(path);
  if (!lines.file_)
    return input_error(fmt::format("cannot read {}", path.string()), "it is missing or unreadable",
                       "run the setup phase again, without --skip-setup");
  return lines;
}

Result<std::optional<PreparedVideo>> VideoLines::next() {
  std::string line;
  if (!std::getline(file_, line)) return std::optional<PreparedVideo>();
  auto document = parse_json(line, name_);
  if (!document) return forward_error(document);
  auto video = prepared_video_from_json(*document);
  if (!video) return forward_error(video);
  return std::optional(std::move(*video));
}

void append_runs(const BinaryMask& mask, std::vector<std::int64_t>& runs) {
  bool inside = false;
  for (auto pixel = mask.pixels.begin(); pixel != mask.pixels.end(); inside = !inside) {
    const auto end =
        std::find_if(pixel, mask.pixels.end(), [&](auto value) { return (value != 0) != inside; });
    runs.push_back(end - pixel);
    pixel = end;
  }
}

Result<BinaryMask> mask_of_runs(int width, int height, const std::vector<std::int64_t>& runs) {
  constexpr int kLargest = 1 << 15;
  const std::int64_t size = std::int64_t{width} * height;
  std::int64_t total = 0;
  bool is_right = width >= 0 && height >= 0 && width <= kLargest && height <= kLargest;
  for (const std::int64_t length : runs) {
    is_right = is_right && length >= 0 && length <= size - total;
    if (is_right) total += length;
  }
  if (!is_right || total != size) return input_error("the runs of a mask do not match its size");
  BinaryMask mask{width, height, {}};
  mask.pixels.reserve(static_cast<std::size_t>(size));
  std::uint8_t value = 0;
  for (const std::int64_t length : runs) {
    mask.pixels.insert(mask.pixels.end(), static_cast<std::size_t>(length), value);
    value ^= 1;
  }
  return mask;
}

}  // namespace headroom::bench
