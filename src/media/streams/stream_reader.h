// Splits the bytes of a StreamInput into frames.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "media/streams/raw_frames.h"
#include "media/streams/stream_input.h"

namespace headroom::media {

// What messages say about a source.
struct StreamSubject {
  std::string name;                  // "the video /data/a.mp4", "camera 0"
  std::string fix;                   // for a source that cannot be opened, stalls or breaks off
  std::vector<std::string> secrets;  // "user:password@": removed from the programs' messages
  bool is_live = false;              // frames come when they come, and once only
};

enum class Framing {
  bmp,     // BMP pictures: a header with the size; rows bottom-up and padded to 4 bytes
  padded,  // rows padded to 4 bytes; GStreamer prints the size
  packed,  // raw frames of a known size
};

class StreamReader final : public VideoReader {
 public:
  // `size` and `order`: for Framing::packed.
  StreamReader(StreamInput input, Framing framing, StreamSubject subject, PictureSize size = {},
               PixelOrder order = PixelOrder::bgr);

  // Waits for the first frame. The error says why the source cannot be opened.
  Status begin();
  void count_frames_with(std::function<std::int64_t()> count) { count_frames_ = std::move(count); }

  Result<Decoded> next_into(const AllocateFrame& allocate_frame) override;
  void skip_frame() override;
  PictureSize size() const override { return size_; }
  std::int64_t frame_count() const override { return count_frames_ ? count_frames_() : 0; }
  Nanoseconds sensor_wait() const override { return sensor_wait_; }
  void pause() override;

 private:
  static constexpr std::size_t kBmpHeaderBytes = 54;
  std::size_t header_bytes() const;
  std::size_t row_bytes() const;
  // Returns false at the end of the stream.
  Result<bool> read_header();
  Result<bool> read_frame_size();
  Status take_header();
  // Reads the rest of the frame to `memory`, or drops it if that is null.
  Status read_pixels(std::uint8_t* memory);
  void list_parts(std::uint8_t* memory);

  // The end of the stream, or its error. `read`: why no more bytes came.
  Result<bool> end(const StreamInput::Progress& read, std::size_t bytes_of_frame);
  tl::unexpected<Error> stalled() const;
  tl::unexpected<Error> broken(std::string why) const;
  std::string reason();

  StreamInput input_;
  Framing framing_;
  StreamSubject subject_;
  PictureSize size_;
  PixelOrder order_;
  std::function<std::int64_t()> count_frames_;
  // The start of the frame: a BMP header, or the first byte, which shows that there is a frame.
  std::array<std::uint8_t, kBmpHeaderBytes> header_{};
  std::vector<iovec> parts_;
  std::vector<std::uint8_t> dropped_row_;
  std::array<std::uint8_t, 4> padding_{};
  std::int64_t frames_ = 0;
  Nanoseconds sensor_wait_;
  bool has_header_ = false, has_begun_ = false, has_ended_ = false;
};

}  // namespace headroom::media
