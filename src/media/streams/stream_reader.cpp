#include "media/streams/stream_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/log.h"
#include "media/image_header.h"

namespace headroom::media {
namespace {

constexpr std::size_t kRowAlignment = 4;

std::int32_t little_endian(const std::uint8_t* bytes) {
  std::uint32_t value = 0;
  for (int i = 3; i >= 0; --i) value = value << 8 | bytes[i];
  return static_cast<std::int32_t>(value);
}

// The end of a process that was killed for its memory has no other sign.
std::string words_for_end(const ToolProcess& tool, const ExitStatus& status) {
  std::string words = fmt::format("{} ended with {}", program_of(tool.tool()), status.describe());
  if (status.signal == SIGKILL) words += ", as when memory is short (in the scan: raise --workspace)";
  return words;
}

}  // namespace

StreamReader::StreamReader(StreamInput input, Framing framing, StreamSubject subject, PictureSize size,
                           PixelOrder order)
    : input_(std::move(input)), framing_(framing), subject_(std::move(subject)), size_(size), order_(order) {}

std::size_t StreamReader::header_bytes() const { return framing_ == Framing::bmp ? kBmpHeaderBytes : 1; }

std::size_t StreamReader::row_bytes() const {
  return static_cast<std::size_t>(size_.width) * (order_ == PixelOrder::gray ? 1 : 3);
}

Status StreamReader::begin() {
  auto more = read_header();
  if (!more) return forward_error(more);
  if (!*more) {
    const std::string why = reason();
    return broken(why.empty() ? "it has no frames" : why);
  }
  has_begun_ = true;
  return {};
}

Result<Decoded> StreamReader::next_into(const AllocateFrame& allocate_frame) {
  sensor_wait_ = {};
  if (has_ended_) return Decoded::end;
  if (ToolProcess* tool = input_.tool()) tool->resume();
  auto more = has_header_ ? Result<bool>(true) : read_header();
  if (!more) return forward_error(more);
  if (!*more) return Decoded::end;
  has_begun_ = true;
  std::uint8_t* memory = allocate_frame(size_);
  if (memory == nullptr) return Decoded::no_space;
  if (auto read = read_pixels(memory); !read) return forward_error(read);
  to_bgr(memory, size_, order_);
  return Decoded::frame;
}

void StreamReader::skip_frame() {
  // The next call of next_into() reports the end, or an error of the frame after this one.
  if (has_header_) [[maybe_unused]]
    const auto read = read_pixels(nullptr);
}

void StreamReader::pause() {
  if (ToolProcess* tool = input_.tool()) tool->pause();
}

Result<bool> StreamReader::read_header() {
  ToolProcess* tool = input_.tool();
  const auto computed = [&] { return tool != nullptr ? tool->cpu_time() : Nanoseconds{}; };
  const Nanoseconds asked = monotonic_now(), computed_before = computed();
  if (framing_ == Framing::padded && size_ == PictureSize{}) {
    auto more = read_frame_size();
    if (!more || !*more) return more;
  }
  parts_ = {{header_.data(), header_bytes()}};
  const StreamInput::Progress read = input_.fill(parts_);
  if (read.bytes < header_bytes()) return end(read, read.bytes);
  // The program decodes and converts before the first byte comes; that is not waiting.
  if (subject_.is_live)
    sensor_wait_ = std::max(Nanoseconds{}, monotonic_now() - asked - (computed() - computed_before));
  if (auto taken = take_header(); !taken) {
    has_ended_ = true;
    return forward_error(taken);
  }
  has_header_ = true;
  return true;
}

Result<bool> StreamReader::read_frame_size() {
  if (!input_.wait_for_frame_size()) {
    has_ended_ = true;
    return stalled();
  }
  const auto size = input_.tool()->messages().frame_size();
  if (!size) return end({}, 0);
  size_ = *size;
  return true;
}

Status StreamReader::take_header() {
  if (framing_ == Framing::bmp) {
    if (header_[0] != 'B' || header_[1] != 'M') return broken("the program wrote something else than frames");
    size_ = {little_endian(&header_[18]), std::abs(little_endian(&header_[22]))};
  } else if (framing_ == Framing::padded && input_.tool()->messages().frame_size() != size_) {
    return broken(fmt::format("the size of its frames is not {} x {} any more", size_.width, size_.height));
  }
  if (size_.width <= 0 || size_.height <= 0) return broken("it has no frame size");
  if (std::int64_t{size_.width} * size_.height > kMaximumPixels)
    return broken(fmt::format("its frames of {} x {} pixels exceed the limit of {} pixels", size_.width,
                              size_.height, kMaximumPixels));
  return {};
}

void StreamReader::list_parts(std::uint8_t* memory) {
  const std::size_t row = row_bytes();
  const auto height = static_cast<std::size_t>(size_.height);
  const std::size_t padding =
      framing_ == Framing::packed ? 0 : (kRowAlignment - row % kRowAlignment) % kRowAlignment;
  dropped_row_.resize(memory == nullptr ? row : 0);
  parts_.clear();
  for (std::size_t i = 0; i < height; ++i) {
    const std::size_t at = framing_ == Framing::bmp ? height - 1 - i : i;
    parts_.push_back({memory == nullptr ? dropped_row_.data() : memory + at * row, row});
    if (padding > 0) parts_.push_back({padding_.data(), padding});
  }
}

Status StreamReader::read_pixels(std::uint8_t* memory) {
  has_header_ = false;
  const std::size_t frame_bytes = row_bytes() * static_cast<std::size_t>(size_.height);
  // Gray pixels go to the end of the memory, where to_bgr() expects them.
  list_parts(memory == nullptr ? nullptr : memory + size_.bytes() - frame_bytes);
  std::size_t expected = 0;
  for (const iovec& part : parts_) expected += part.iov_len;
  if (framing_ != Framing::bmp) {  // the first byte is already here
    *static_cast<std::uint8_t*>(parts_[0].iov_base) = header_[0];
    parts_[0].iov_base = static_cast<std::uint8_t*>(parts_[0].iov_base) + 1;
    --parts_[0].iov_len;
    --expected;
  }
  const StreamInput::Progress read = input_.fill(parts_);
  if (read.bytes < expected) {
    auto ended = end(read, header_bytes() + read.bytes);
    return ended ? Status{} : Status(forward_error(ended));
  }
  ++frames_;
  return {};
}

Result<bool> StreamReader::end(const StreamInput::Progress& read, std::size_t bytes_of_frame) {
  has_ended_ = true;
  if (read.has_stalled) return stalled();
  if (read.error != 0) return broken(errno_text(read.error));
  ToolProcess* tool = input_.tool();
  const auto status = tool != nullptr ? tool->finish() : std::nullopt;
  const std::string why = reason();
  if (status && !status->success()) {
    if (!has_begun_ && !why.empty()) return broken(why);
    const std::string ended = words_for_end(*tool, *status);
    return broken(why.empty() ? ended : ended + ": " + why);
  }
  if (bytes_of_frame > 0)
    return broken(fmt::format("it ends {} bytes after the start of frame {}{}", bytes_of_frame, frames_,
                              tool == nullptr ? ": the size or the pixel format may be wrong" : ""));
  if (subject_.is_live && has_begun_)
    log::warning("{} ended before frame {}{}", subject_.name, frames_, why.empty() ? why : ": " + why);
  return false;
}

tl::unexpected<Error> StreamReader::stalled() const {
  return input_error(
      fmt::format("{} stalled at frame {}", subject_.name, frames_),
      fmt::format("no frame for {}", format_duration(input_.stall_time().value_or(Nanoseconds{}))),
      subject_.fix);
}

tl::unexpected<Error> StreamReader::broken(std::string why) const {
  return input_error(has_begun_ ? fmt::format("{} broke off at frame {}", subject_.name, frames_)
                                : fmt::format("cannot open {}", subject_.name),
                     std::move(why), subject_.fix);
}

std::string StreamReader::reason() {
  ToolProcess* tool = input_.tool();
  if (tool == nullptr) return {};
  std::string text = has_begun_ ? tool->messages().last_reason() : tool->messages().first_reason();
  for (const std::string& secret : subject_.secrets)
    for (std::size_t at = 0; (at = text.find(secret)) != std::string::npos;) text.erase(at, secret.size());
  return text;
}

}  // namespace headroom::media
