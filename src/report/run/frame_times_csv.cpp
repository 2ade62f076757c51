#include "report/run/frame_times_csv.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <iterator>
#include <optional>

#include "base/text.h"

namespace headroom::report {
namespace {

constexpr std::size_t kColumns = 6;
// 31 years: sums of a frame's times cannot overflow.
constexpr std::int64_t kLongest = 1'000'000'000'000'000'000;

std::optional<FrameTimes> frame_of(std::string_view line) {
  std::array<std::optional<std::int64_t>, kColumns> fields;
  for (std::size_t i = 0; i < kColumns; ++i) {
    const std::size_t comma = line.find(',');
    if (comma == std::string_view::npos && i + 1 < kColumns) return std::nullopt;
    const std::string_view field = line.substr(0, comma);
    fields[i] = parse_number<std::int64_t>(field);
    const bool may_be_absent = i + 1 == kColumns && field.empty();
    if (!may_be_absent && (!fields[i] || *fields[i] < 0 || *fields[i] > kLongest)) return std::nullopt;
    line = comma == std::string_view::npos ? std::string_view() : line.substr(comma + 1);
  }
  FrameTimes frame{{*fields[0]}, {*fields[1]}, {*fields[2]}, {*fields[3]}, *fields[4]};
  if (fields[5]) frame.device = Nanoseconds{*fields[5]};
  return frame;
}

}  // namespace

void append_csv(std::string& text, std::span<const FrameTimes> frames) {
  for (const FrameTimes& frame : frames) {
    fmt::format_to(std::back_inserter(text), "{},{},{},{},{},", frame.decode.count, frame.preprocess.count,
                   frame.inference.count, frame.postprocess.count, frame.findings);
    if (frame.device) fmt::format_to(std::back_inserter(text), "{}", frame.device->count);
    text += '\n';
  }
}

Result<std::vector<FrameTimes>> read_frame_times(std::string_view text, std::string_view name) {
  const std::string fix = "measure the run again, or remove the file";
  std::size_t end = text.find('\n');
  const std::string_view columns = kFrameTimesHeader.substr(0, kFrameTimesHeader.size() - 1);
  if (end == std::string_view::npos || !text.substr(0, end).starts_with(columns))
    return input_error(fmt::format("no frame times in {}", name),
                       fmt::format("the first line is not {}", columns), fix);
  std::vector<FrameTimes> frames;
  for (std::size_t line = 2; end + 1 < text.size(); ++line) {
    const std::size_t start = end + 1;
    end = text.find('\n', start);
    if (end == std::string_view::npos) end = text.size();
    const auto frame = frame_of(text.substr(start, end - start));
    if (!frame)
      return input_error(fmt::format("invalid frame in {}:{}", name, line), "expected six numbers", fix);
    frames.push_back(*frame);
  }
  return frames;
}

}  // namespace headroom::report
