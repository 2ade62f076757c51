// The frames of a video, decoded and resized once, in a file that a worker maps. So a measured run decodes
// nothing, and neither does the next setup of the same frames.
//
// The file has a header of kPlanesHeader bytes: lines of text ("headroom planes 1", "side S", "frames N",
// "values uint8" or "values fp16 …" with mean and std, "sources HASH"), then newlines. Behind it are N frames
// of 3 × S × S values: the planes red, green and blue, row by row (squash.h). Values are levels 0..255, or
// (level / 255 - mean) / std in half precision. HASH covers the path, size and time of each picture file.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <utility>

#include "base/files.h"
#include "base/result.h"
#include "base/units.h"
#include "media/media_engine.h"
#include "types/vos.h"
#include "types/vos_run.h"

namespace headroom::media::vos {

inline constexpr std::int64_t kPlanesHeader = 4096;

// What a model takes. Files of different formats have different names.
struct PlanesFormat {
  int side = 0;  // S
  PlaneType type = PlaneType::uint8;
  std::array<float, 3> mean{0.485F, 0.456F, 0.406F}, std{0.229F, 0.224F, 0.225F};  // of fp16
  // "uint8", or "fp16" with mean and std.
  std::string values() const;
  // Equal formats have the same files.
  friend bool operator==(const PlanesFormat& a, const PlanesFormat& b) {
    return a.side == b.side && a.values() == b.values();
  }
};

// Of one frame, and of a file of this many frames.
Bytes planes_frame_size(int side, PlaneType type);
Bytes planes_file_size(int side, PlaneType type, std::int64_t frames);

struct PreparedPlanes {
  std::filesystem::path path;
  std::int64_t frames = 0;  // that were asked for; the file may have more
  bool was_there = false;   // written earlier from the same sources; nothing was decoded
};

// Where prepare_planes() puts a video's file.
std::filesystem::path planes_path(const VosVideo& video, const PlanesFormat& format,
                                  const std::filesystem::path& folder);
// Whether a file with at least the first `frames` frames is there, written from the pictures as they are now.
bool has_planes(const VosVideo& video, const PlanesFormat& format, std::int64_t frames,
                const std::filesystem::path& folder);

// Writes the first `frames` frames of a video, or finds them written. `folder` must exist. Calls `on_frame`
// after each decoded frame. Errors: a frame that cannot be decoded, which the error names (ErrorKind::input);
// a full disk (ErrorKind::failed).
Result<PreparedPlanes> prepare_planes(MediaEngine& engine, const VosVideo& video, const PlanesFormat& format,
                                      std::int64_t frames, const std::filesystem::path& folder,
                                      const std::function<void()>& on_frame = {});

// Removes unfinished files of setups that were killed. Those that a running setup writes are locked, and
// stay.
void remove_abandoned_planes(const std::filesystem::path& folder);

// Fails if `size` more bytes do not fit on the disk of `folder`.
Status check_space(const std::filesystem::path& folder, Bytes size);

// Reads a file of planes through a mapping. At most `window` frames are resident: pages of earlier frames are
// dropped, also from the page cache.
class PlanesReader {
 public:
  // Errors: no such file, another format, a file that was cut off.
  static Result<PlanesReader> open(const std::filesystem::path& path, std::int64_t window);
  PlanesReader(PlanesReader&& other) noexcept { swap(other); }
  PlanesReader& operator=(PlanesReader&& other) noexcept {
    swap(other);
    return *this;
  }
  ~PlanesReader();

  int side() const { return side_; }
  PlaneType type() const { return type_; }
  std::int64_t frames() const { return frames_; }
  // The planes of a frame, with all their pages in memory, until the next call. Frames are read in ascending
  // order; `index` is below frames().
  std::span<const std::uint8_t> frame(std::int64_t index);
  // These planes as halves, of a file of type fp16.
  static std::span<const std::uint16_t> as_halves(std::span<const std::uint8_t> planes);

 private:
  PlanesReader() = default;
  void swap(PlanesReader& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(memory_, other.memory_);
    std::swap(size_, other.size_);
    std::swap(dropped_, other.dropped_);
    std::swap(side_, other.side_);
    std::swap(type_, other.type_);
    std::swap(frames_, other.frames_);
    std::swap(window_, other.window_);
  }

  UniqueFd fd_;
  std::uint8_t* memory_ = nullptr;
  std::size_t size_ = 0, dropped_ = 0;  // bytes of the file; bytes from its start without pages
  int side_ = 0;
  PlaneType type_ = PlaneType::uint8;
  std::int64_t frames_ = 0, window_ = 1;
};

}  // namespace headroom::media::vos
