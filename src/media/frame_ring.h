// Memory for decoded frames that the decoder process and the worker share: a fixed arena in a memfd, filled
// one window at a time. The decoder writes, then the worker reads. They never use it at the same time, so
// no other process competes with the measured loop for the cores.
//
// The conductor creates the memfd. The worker touches its pages first, so that the kernel charges them to
// the worker's control group, where the frames are used. The memfd's size is sealed, so a faulty peer
// cannot shrink it and kill the other process with SIGBUS. Data that a peer writes is checked before use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/files.h"
#include "base/result.h"
#include "base/units.h"

namespace headroom::media {

// One decoded frame: 8-bit BGR, rows packed without padding.
struct FrameSlot {
  std::int64_t index = 0;     // index in its sequence
  std::int32_t sequence = 0;  // index into SourceMetadata::sequences
  std::int32_t width = 0, height = 0;
  // Time to read, decode and (for more than 8 bits) scale the frame, without waiting for a sensor.
  std::int64_t decode_ns = 0;
  std::uint64_t offset = 0;  // offset of the first pixel in the arena
  char name[128] = {};       // file name, or "frame 17"; cut at 127 bytes
};

inline constexpr std::size_t kMaximumSlots = 4096;

// The header in the first pages: the decoder writes it, the worker reads it after the decoder's answer.
struct FrameRingHeader {
  std::uint64_t magic = 0;
  std::uint64_t arena_bytes = 0;  // size of the arena after the header
  std::uint32_t slot_count = 0;   // number of frames in this window
  FrameSlot slots[kMaximumSlots];
};

class FrameRing {
 public:
  // The offset of the pixels in the memfd.
  static Bytes arena_offset();
  // Creates a memfd whose arena has `arena` bytes for pixels.
  static Result<FrameRing> create(Bytes arena);
  // Maps a ring of another process; checks seals, size and magic.
  static Result<FrameRing> attach(UniqueFd fd);

  int fd() const { return fd_.get(); }
  FrameRingHeader& header() { return *header_; }
  const FrameRingHeader& header() const { return *header_; }

  // True if the slot's pixels are inside the arena. Check this before pixels(slot), with a copy of the
  // slot: the other process can change the original.
  bool valid(const FrameSlot& slot) const;
  // A checked copy of slot `i` of this window, for readers. An error means that the decoder is faulty.
  Result<FrameSlot> slot(std::size_t i) const;
  std::uint8_t* pixels(const FrameSlot& slot) { return arena_ + slot.offset; }
  const std::uint8_t* pixels(const FrameSlot& slot) const { return arena_ + slot.offset; }
  // The arena's size from the memfd's sealed size; the other process can change the header.
  Bytes arena() const { return {static_cast<std::int64_t>(arena_size_)}; }
  // Touches every page, so that it is charged to this process's control group.
  void touch_pages();

 private:
  FrameRing(UniqueFd fd, void* mapping, std::size_t arena_size);
  static Result<FrameRing> map(UniqueFd fd, std::size_t arena_size);
  struct Unmap {
    std::size_t bytes;
    void operator()(FrameRingHeader* mapping) const;
  };
  UniqueFd fd_;
  std::unique_ptr<FrameRingHeader, Unmap> header_;  // start of the mapping
  std::uint8_t* arena_;
  std::size_t arena_size_;
};

// The messages on the socket between worker and decoder (SOCK_SEQPACKET, one struct per message).
enum class DecoderVerb : std::uint32_t {
  next_window = 1,     // fill the ring with the next frames of the current sequence
  start_sequence = 2,  // go to frame 0 of `sequence`; the answer has no frames yet
};
struct DecoderRequest {
  DecoderVerb verb = DecoderVerb::next_window;
  std::int32_t sequence = 0;
  std::int64_t maximum_frames = 0;  // at most this many frames
};
struct DecoderAnswer {
  std::int32_t ok = 0;              // 0: `error` explains why no more frames can come
  std::uint32_t frames = 0;         // ready in the ring; 0 with ok: the sequence has ended
  std::uint32_t newly_skipped = 0;  // frames skipped since the last answer; the decoder logs their names
  char error[256] = {};
};

}  // namespace headroom::media
