#include "bench/sample_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "base/files.h"
#include "base/json.h"

namespace headroom::bench {
namespace {

constexpr std::string_view kStart = R"({"event":"sample","part":")";
constexpr std::size_t kLine = 4096;
// The longest item: a detection with six landmarks, that is 18 numbers of at most 16 characters and a comma.
constexpr std::size_t kLongestItem = 18 * 17 + 8;
constexpr std::size_t kLongestLineRead = 64 << 10;  // a name of 4 KiB with every byte escaped

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

void write_detections(int fd, const std::vector<Detection>& detections) {
  ListLine line(fd, "detections");
  for (const Detection& found : detections) {
    std::array<float, 18> numbers{found.left,   found.top,   found.right,
                                  found.bottom, found.score, static_cast<float>(found.class_id)};
    const auto landmarks = 2 * static_cast<std::size_t>(std::clamp(found.landmark_count, 0, 6));
    std::copy_n(found.landmarks.begin(), landmarks, numbers.begin() + 6);
    line.add(numbers.data(), 6 + landmarks);
  }
  line.finish();
}

void write_mask(int fd, const Mask& mask) {
  const std::array<float, 4> rectangle{mask.left, mask.top, mask.right, mask.bottom};
  Json head;
  head["event"] = "sample";
  head["part"] = "mask";
  head["width"] = mask.width;
  head["height"] = mask.height;
  head["class_id"] = mask.class_id;
  head["rectangle"] = rectangle;
  [[maybe_unused]] const auto ignored = write_all(fd, to_line(head) + "\n");
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

Detection detection_from(const Json& item) {
  Detection found;
  found.left = number_at(item, 0);
  found.top = number_at(item, 1);
  found.right = number_at(item, 2);
  found.bottom = number_at(item, 3);
  found.score = number_at(item, 4);
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
        findings.lines.push_back({number_at(item, 0), number_at(item, 1), number_at(item, 2),
                                  number_at(item, 3), number_at(item, 4)});
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
    const Json& rectangle = get_member(event, "rectangle");
    mask.left = number_at(rectangle, 0);
    mask.top = number_at(rectangle, 1);
    mask.right = number_at(rectangle, 2);
    mask.bottom = number_at(rectangle, 3);
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

// Returns false at the end. A line that is too long comes out empty, because Headroom writes no such line.
bool read_line(std::istream& lines, std::string& line) {
  line.clear();
  char c = 0;
  bool any = false;
  bool fits = true;
  while (lines.get(c)) {
    any = true;
    if (c == '\n') break;
    fits = fits && line.size() < kLongestLineRead;
    if (fits) line += c;
  }
  if (!fits) line.clear();
  return any;
}

}  // namespace

void write_sample(int fd, std::int32_t sequence, std::int64_t frame, const std::string& name,
                  const FrameFindings& findings) {
  Json head;
  head["event"] = "sample";
  head["part"] = "begin";
  head["sequence"] = sequence;
  head["frame"] = frame;
  head["name"] = name;
  [[maybe_unused]] const auto begun = write_all(fd, to_line(head) + "\n");
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
    const std::array<float, 5> numbers{line.x0, line.y0, line.x1, line.y1, line.score};
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
  while (read_line(lines, line)) {
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
    Json entry;
    entry["box"] = {found.left, found.top, found.right, found.bottom};
    entry["score"] = found.score;
    entry["class_id"] = found.class_id;
    const auto landmarks = 2 * std::clamp(found.landmark_count, 0, 6);
    for (int i = 0; i < landmarks; ++i)
      entry["landmarks"].push_back(found.landmarks.at(static_cast<std::size_t>(i)));
    object["detections"].push_back(std::move(entry));
  }
  for (const Quad& quad : findings.quads) {
    Json entry;
    entry["corners"] = quad.corners;
    entry["score"] = quad.score;
    object["quads"].push_back(std::move(entry));
  }
  for (const LineSegment& line : findings.lines) {
    Json entry;
    entry["ends"] = {line.x0, line.y0, line.x1, line.y1};
    entry["score"] = line.score;
    object["lines"].push_back(std::move(entry));
  }
  for (const Mask& mask : findings.masks) {
    Json entry;
    entry["width"] = mask.width;
    entry["height"] = mask.height;
    entry["rectangle"] = {mask.left, mask.top, mask.right, mask.bottom};
    object["masks"].push_back(std::move(entry));
  }
  return object;
}

}  // namespace headroom::bench
