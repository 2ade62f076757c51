// Decoded frames in memory that the decoder process and the worker share: a fixed arena in a memfd, filled a
// window at a time. The decoder writes, then the worker reads; the two never touch it at the same time, so
// the measured loop shares the cores with nobody.
//
// The conductor creates the memfd; the worker touches its pages first, so that the kernel charges the frames
// to the worker's control group, where they are used. The memfd's size is sealed: a peer that went wrong
// cannot shrink it and so kill the other with SIGBUS. What a peer writes into it is checked before it is
// used.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/files.h"
#include "base/result.h"
#include "base/units.h"

namespace headroom::media {

// One decoded frame: 8-bit BGR, rows packed without padding.
struct FrameSlot {
  std::int64_t index = 0;     // in its sequence
  std::int32_t sequence = 0;  // index into SourceMetadata::sequences
  std::int32_t width = 0, height = 0;
  std::int64_t decode_ns =
      0;  // time to read and decode (and to scale frames of more than 8 bits), without waiting for a sensor
  std::uint64_t offset = 0;  // of the first pixel in the arena
  char name[128] = {};       // file name, or "frame 17"; cut if longer
};

inline constexpr std::size_t kMaximumSlots = 4096;

// The first pages: written by the decoder, read by the worker after the decoder's answer.
struct FrameRingHeader {
  std::uint64_t magic = 0;
  std::uint64_t arena_bytes = 0;  // after the header
  std::uint32_t slot_count = 0;   // frames ready in this window
  FrameSlot slots[kMaximumSlots];
};

class FrameRing {
 public:
  // Where the pixels begin in the memfd.
  static Bytes arena_offset();
  // A new memfd whose arena holds `arena` bytes of pixels.
  static Result<FrameRing> create(Bytes arena);
  // Maps a ring made by another process; checks seals, size and magic.
  static Result<FrameRing> attach(UniqueFd fd);
  FrameRing(FrameRing&& other) noexcept;
  FrameRing& operator=(FrameRing&& other) noexcept;
  FrameRing(const FrameRing&) = delete;
  FrameRing& operator=(const FrameRing&) = delete;
  ~FrameRing();

  int fd() const { return fd_.get(); }
  FrameRingHeader& header() { return *header_; }
  const FrameRingHeader& header() const { return *header_; }

  // True if the slot's pixels lie inside the arena. Ask before pixels(slot), on a copy of the slot: the
  // original is in memory that the other process can write.
  bool valid(const FrameSlot& slot) const;
  // A checked copy of slot `i` of this window: the way for a reader. The error means that the decoder is
  // broken.
  Result<FrameSlot> slot(std::size_t i) const;
  std::uint8_t* pixels(const FrameSlot& slot) { return arena_ + slot.offset; }
  const std::uint8_t* pixels(const FrameSlot& slot) const { return arena_ + slot.offset; }
  // From the memfd's sealed size, not from the header, which the other process can write.
  Bytes arena() const { return {static_cast<std::int64_t>(arena_size_)}; }
  // Touches every page, so that they belong to this process's control group.
  void touch_pages();

 private:
  FrameRing(UniqueFd fd, void* mapping, std::size_t arena_size);
  static Result<FrameRing> map(UniqueFd fd, std::size_t arena_size);
  void unmap();
  UniqueFd fd_;
  FrameRingHeader* header_ = nullptr;  // the mapping's start
  std::uint8_t* arena_ = nullptr;
  std::size_t arena_size_ = 0;
};

// The two messages on the socket between worker and decoder (SOCK_SEQPACKET, one struct a message).
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
  std::int32_t ok = 0;       // 0: `error` says why no frame can come any more
  std::uint32_t frames = 0;  // ready in the ring; 0 with ok: the sequence has ended
  std::uint32_t newly_skipped =
      0;  // frames left out since the last answer; named in the decoder's own output
  char error[256] = {};
};

}  // namespace headroom::media
