#include "bench/annotated_samples.h"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <limits>
#include <memory>
#include <utility>

#include "base/files.h"
#include "base/json.h"
#include "bench/prepared_data.h"
#include "bench/processes.h"
#include "media/media_engine.h"
#include "media/streams/open_stream.h"

namespace headroom::bench {
namespace {

constexpr std::string_view kStart = R"({"event":"sample","part":")";
constexpr std::size_t kLine = 4096;
// The longest item: a detection with six landmarks, that is 18 numbers of at most 16 characters and a comma.
constexpr std::size_t kLongestItem = 18 * 17 + 8;

// One line of a list. It is sent when it is full or finished.
class ListLine {
 public:
  ListLine(int fd, std::string_view part) : fd_(fd), part_(part) {}

  void add(const float* numbers, std::size_t count) {
    begin_item();
    put('[');
    for (std::size_t i = 0; i + 1 < count; ++i) put_number(numbers[i]);
    put_number(numbers[count - 1]);
    end_[-1] = ']';
  }
  void add_run(unsigned value, std::int64_t length) {
    begin_item();
    end_ = fmt::format_to(end_, "{},{}", value, length);
  }
  void finish() {
    if (end_ == text_.data()) return;
    end_ = fmt::format_to(end_, "]}}\n");
    [[maybe_unused]] const auto ignored =
        write_all(fd_, {text_.data(), static_cast<std::size_t>(end_ - text_.data())});
    end_ = text_.data();
  }

 private:
  void begin_item() {
    if (static_cast<std::size_t>(end_ - text_.data()) + kLongestItem > kLine) finish();
    if (end_ == text_.data())
      end_ = fmt::format_to(end_, R"({}{}","list":[)", kStart, part_);
    else
      put(',');
  }
  void put(char c) { *end_++ = c; }
  // JSON has no NaN.
  void put_number(float number) { end_ = fmt::format_to(end_, "{},", std::isfinite(number) ? number : 0); }

  int fd_;
  std::string_view part_;
  std::array<char, kLine> text_;
  char* end_ = text_.data();
};

// The numbers of an item, in the order in which they are sent.
constexpr std::array kDetection{&Detection::left, &Detection::top, &Detection::right, &Detection::bottom,
                                &Detection::score};
constexpr std::array kLineSegment{&LineSegment::x0, &LineSegment::y0, &LineSegment::x1, &LineSegment::y1,
                                  &LineSegment::score};
constexpr std::array kRectangle{&Mask::left, &Mask::top, &Mask::right, &Mask::bottom};

template <class Item, std::size_t N>
std::array<float, N> numbers_of(const Item& item, const std::array<float Item::*, N>& members) {
  std::array<float, N> numbers;
  for (std::size_t i = 0; i < N; ++i) numbers[i] = item.*members[i];
  return numbers;
}

void send_line(int fd, const Json& line) {
  [[maybe_unused]] const auto ignored = write_all(fd, to_line(line) + "\n");
}

void write_detections(int fd, const std::vector<Detection>& detections) {
  ListLine line(fd, "detections");
  for (const Detection& found : detections) {
    std::array<float, 18> numbers{};
    std::ranges::copy(numbers_of(found, kDetection), numbers.begin());
    numbers[5] = static_cast<float>(found.class_id);
    const auto landmarks = 2 * static_cast<std::size_t>(std::clamp(found.landmark_count, 0, 6));
    std::copy_n(found.landmarks.begin(), landmarks, numbers.begin() + 6);
    line.add(numbers.data(), 6 + landmarks);
  }
  line.finish();
}

void write_mask(int fd, const Mask& mask) {
  send_line(fd, {{"event", "sample"},
                 {"part", "mask"},
                 {"width", mask.width},
                 {"height", mask.height},
                 {"class_id", mask.class_id},
                 {"rectangle", numbers_of(mask, kRectangle)}});
  ListLine runs(fd, "runs");
  const auto end = mask.values.end();
  for (auto begin = mask.values.begin(); begin != end;) {
    const auto next = std::find_if(begin, end, [&](std::uint8_t value) { return value != *begin; });
    runs.add_run(*begin, next - begin);
    begin = next;
  }
  runs.finish();
}

// --- reading

float number_at(const Json& list, std::size_t index) {
  if (!list.is_array() || index >= list.size() || !list[index].is_number()) return 0;
  const auto number = list[index].get<double>();
  return std::abs(number) <= double{std::numeric_limits<float>::max()} ? static_cast<float>(number) : 0;
}

template <class Item, std::size_t N>
void read_numbers(const Json& list, Item& item, const std::array<float Item::*, N>& members) {
  for (std::size_t i = 0; i < N; ++i) item.*members[i] = number_at(list, i);
}

Detection detection_from(const Json& item) {
  Detection found;
  read_numbers(item, found, kDetection);
  const float class_id = number_at(item, 5);
  if (std::abs(class_id) < 1e9F) found.class_id = static_cast<std::int32_t>(class_id);
  const std::size_t landmarks =
      std::min<std::size_t>(item.size() - std::min<std::size_t>(6, item.size()), 12);
  found.landmark_count = static_cast<std::int32_t>(landmarks / 2);
  for (std::size_t i = 0; i < 2 * (landmarks / 2); ++i) found.landmarks.at(i) = number_at(item, 6 + i);
  return found;
}

std::size_t pixels_of(const Mask& mask) {
  return static_cast<std::size_t>(mask.width) * static_cast<std::size_t>(mask.height);
}

// Builds a sample from its lines. An invalid line spoils the sample.
class SampleBuilder {
 public:
  SampleFrame take() { return std::move(sample_); }

  void begin(const Json& event) {
    *this = {};
    sample_.sequence = static_cast<std::int32_t>(get_integer(event, "sequence").value_or(0));
    sample_.frame = get_integer(event, "frame").value_or(0);
    sample_.name = get_text(event, "name");
  }
  // Returns false if the line is invalid.
  bool add(std::string_view part, const Json& event) {
    const Json& list = get_member(event, "list");
    FrameFindings& findings = sample_.findings;
    if (part == "mask") return begin_mask(event);
    if (!list.is_array()) return false;
    if (part == "runs") return add_runs(list);
    for (const Json& item : list) {
      if (!item.is_array()) return false;
      if (part == "detections") {
        findings.detections.push_back(detection_from(item));
      } else if (part == "quads") {
        Quad quad;
        for (std::size_t i = 0; i < quad.corners.size(); ++i) quad.corners.at(i) = number_at(item, i);
        quad.score = number_at(item, quad.corners.size());
        findings.quads.push_back(quad);
      } else if (part == "lines") {
        read_numbers(item, findings.lines.emplace_back(), kLineSegment);
      }
    }
    return true;
  }
  // Whether all pixels of the last mask have arrived.
  bool whole() const {
    const auto& masks = sample_.findings.masks;
    return masks.empty() || masks.back().values.size() == pixels_of(masks.back());
  }

 private:
  bool begin_mask(const Json& event) {
    const std::int64_t width = get_integer(event, "width").value_or(0);
    const std::int64_t height = get_integer(event, "height").value_or(0);
    const bool valid = width > 0 && height > 0 && width <= kMostMaskPixels && height <= kMostMaskPixels;
    if (!whole() || !valid || width * height > kMostMaskPixels - pixels_) return false;
    pixels_ += width * height;
    Mask& mask = sample_.findings.masks.emplace_back();
    mask.width = static_cast<std::int32_t>(width);
    mask.height = static_cast<std::int32_t>(height);
    mask.class_id = static_cast<std::int32_t>(get_integer(event, "class_id").value_or(0));
    read_numbers(get_member(event, "rectangle"), mask, kRectangle);
    return true;
  }
  bool add_runs(const Json& list) {
    if (sample_.findings.masks.empty() || list.size() % 2 != 0) return false;
    Mask& mask = sample_.findings.masks.back();
    for (std::size_t i = 0; i < list.size(); i += 2) {
      if (!list[i].is_number_unsigned() || !list[i + 1].is_number_unsigned()) return false;
      const auto value = list[i].get<std::uint64_t>();
      const auto length = list[i + 1].get<std::uint64_t>();
      if (value > 255 || length > pixels_of(mask) - mask.values.size()) return false;
      mask.values.insert(mask.values.end(), length, static_cast<std::uint8_t>(value));
    }
    return true;
  }

  SampleFrame sample_;
  std::int64_t pixels_ = 0;
};

}  // namespace

void write_sample(int fd, std::int32_t sequence, std::int64_t frame, const std::string& name,
                  const FrameFindings& findings) {
  send_line(
      fd, {{"event", "sample"}, {"part", "begin"}, {"sequence", sequence}, {"frame", frame}, {"name", name}});
  write_detections(fd, findings.detections);
  ListLine quads(fd, "quads");
  for (const Quad& quad : findings.quads) {
    std::array<float, 9> numbers{};
    std::copy(quad.corners.begin(), quad.corners.end(), numbers.begin());
    numbers.back() = quad.score;
    quads.add(numbers.data(), numbers.size());
  }
  quads.finish();
  ListLine lines(fd, "lines");
  for (const LineSegment& line : findings.lines) {
    const auto numbers = numbers_of(line, kLineSegment);
    lines.add(numbers.data(), numbers.size());
  }
  lines.finish();
  for (const Mask& mask : findings.masks) write_mask(fd, mask);
  [[maybe_unused]] const auto ended = write_all(fd, fmt::format("{}end\"}}\n", kStart));
}

bool is_sample_line(std::string_view line) { return line.starts_with(kStart); }

std::optional<SampleFrame> read_sample(std::istream& lines) {
  SampleBuilder builder;
  bool valid = false;
  std::string line;
  while (std::getline(lines, line)) {
    const auto event = parse_json(line, "a sample");
    if (!event) {
      valid = false;
      continue;
    }
    const std::string part = get_text(*event, "part");
    if (part == "begin") {
      builder.begin(*event);
      valid = true;
    } else if (part == "end") {
      if (valid && builder.whole()) return builder.take();
      valid = false;
    } else {
      valid = valid && builder.add(part, *event);
    }
  }
  return std::nullopt;
}

Json to_json(const FrameFindings& findings) {
  Json object = Json::object();
  for (const Detection& found : findings.detections) {
    Json entry{{"box", {found.left, found.top, found.right, found.bottom}},
               {"score", found.score},
               {"class_id", found.class_id}};
    const auto landmarks = static_cast<std::size_t>(2 * std::clamp(found.landmark_count, 0, 6));
    for (std::size_t i = 0; i < landmarks; ++i) entry["landmarks"].push_back(found.landmarks.at(i));
    object["detections"].push_back(std::move(entry));
  }
  for (const Quad& quad : findings.quads)
    object["quads"].push_back({{"corners", quad.corners}, {"score", quad.score}});
  for (const LineSegment& line : findings.lines)
    object["lines"].push_back({{"ends", {line.x0, line.y0, line.x1, line.y1}}, {"score", line.score}});
  for (const Mask& mask : findings.masks)
    object["masks"].push_back(
        {{"width", mask.width}, {"height", mask.height}, {"rectangle", numbers_of(mask, kRectangle)}});
  return object;
}

namespace fs = std::filesystem;
namespace {

// The most recently read video. The samples of a video come in order, so it is decoded in one pass.
struct OpenVideo {
  std::size_t sequence = 0;
  std::int64_t next_frame = 0;
  std::unique_ptr<media::VideoReader> reader;
};

Status read_frame(media::MediaEngine& engine, const SourceMetadata& source, std::size_t sequence_index,
                  std::int64_t frame, OpenVideo& video, media::Picture& picture) {
  if (sequence_index >= source.sequences.size()) return input_error("the sample's sequence does not exist");
  const SourceSequence& sequence = source.sequences[sequence_index];
  if (source.spec.kind == SourceKind::image_dir) {
    if (frame < 0 || frame >= static_cast<std::int64_t>(sequence.images.size()))
      return input_error("the sample's image does not exist");
    const fs::path path = fs::path(sequence.path) / sequence.images[static_cast<std::size_t>(frame)];
    return engine.decode_image(path.string(), picture);
  }
  if (!video.reader || video.sequence != sequence_index || video.next_frame > frame) {
    auto opened = media::open_stream(source.spec, sequence.path);
    if (!opened) return forward_error(opened);
    video = {sequence_index, 0, std::move(*opened)};
  }
  for (; video.next_frame <= frame; ++video.next_frame) {
    auto more = video.reader->next(picture);
    if (more && !*more) return input_error("the video ended before the sample's frame");
  }
  return {};
}

std::string image_name(const std::string& model, std::int64_t number) {
  return fmt::format("{}_{}.jpg", model, number);
}

// Writes the findings to samples/MODEL.json before the first image is drawn, because drawing may crash this
// process.
Result<std::int64_t> list_samples(const Json& job) {
  std::ifstream lines(get_text(job, "samples"));
  Json found = Json::array();
  while (const auto sample = read_sample(lines)) {
    const auto number = static_cast<std::int64_t>(found.size()) + 1;
    found.push_back({{"name", sample->name},
                     {"frame", sample->frame},
                     {"image", "samples/" + image_name(get_text(job, "model"), number)},
                     {"findings", to_json(sample->findings)}});
  }
  const fs::path path = fs::path(get_text(job, "folder")) / (get_text(job, "model") + ".json");
  if (auto written = write_file_atomically(path, to_text(found)); !written) return forward_error(written);
  return static_cast<std::int64_t>(found.size());
}

Result<Json> draw(const Json& job) {
  auto source = read_metadata(get_text(job, "metadata"));
  if (!source) return forward_error(source);
  auto count = list_samples(job);
  if (!count) return forward_error(count);
  Json answer{{"samples", *count}, {"drawn", Json::array()}, {"problems", Json::array()}};
  if (media::is_live(source->spec)) return answer;  // its frames cannot be read again
  auto engine = media::load_media_engine();
  if (!engine) return forward_error(engine);
  std::vector<std::string> class_names;
  for (const Json& name : get_member(job, "class_names"))
    class_names.push_back(name.is_string() ? name.get<std::string>() : std::string());
  OpenVideo video;
  std::ifstream lines(get_text(job, "samples"));
  for (std::int64_t number = 1; const auto sample = read_sample(lines); ++number) {
    media::Picture picture;
    const fs::path output = fs::path(get_text(job, "folder")) / image_name(get_text(job, "model"), number);
    auto read = read_frame(**engine, *source, static_cast<std::size_t>(sample->sequence), sample->frame,
                           video, picture);
    if (read) read = (*engine)->write_annotated(picture, sample->findings, class_names, output.string());
    if (read)
      answer["drawn"].push_back(output.filename().string());
    else
      answer["problems"].push_back(read.error().sentence());
    send_helper_event("alive");
  }
  return answer;
}

}  // namespace

Result<DrawnSamples> draw_samples(const std::string& model, const fs::path& samples,
                                  const std::vector<std::string>& class_names, const fs::path& metadata,
                                  const fs::path& run_folder, Interrupt& interrupt) {
  DrawnSamples drawn;
  std::error_code code;
  if (!fs::exists(samples, code)) return drawn;
  const fs::path folder = run_folder / "samples";
  if (auto made = make_folder(folder); !made) return forward_error(made);
  const Json job{{"metadata", metadata.string()},
                 {"class_names", class_names},
                 {"samples", samples.string()},
                 {"folder", folder.string()},
                 {"model", file_name_of(model)}};
  auto done = run_helper({.verb = "_annotate", .purpose = "drawing sample images"}, job, interrupt);
  fs::remove(samples, code);
  if (!done) return forward_error(done);
  for (const Json& name : get_member(*done, "drawn"))
    if (name.is_string()) drawn.images.push_back("samples/" + name.get<std::string>());
  const Json& problems = get_member(*done, "problems");
  if (!problems.empty() && problems.front().is_string())
    drawn.problem =
        fmt::format("{} of {} annotated samples could not be made: {}", problems.size(),
                    get_integer(*done, "samples").value_or(0), problems.front().get<std::string>());
  return drawn;
}

int run_annotate_process() { return serve_helper(draw); }

}  // namespace headroom::bench
