// The file that one process records into. Its header and metadata stay mapped as long as the process lives.
// Threads claim segments, map them, write them, and release them.
//
// Disk space is reserved before it is written to, in steps of 128 KiB. A write through a mapping to a full
// disk would kill the program by SIGBUS, whereas a failed reservation only costs events.
#pragma once

#include <atomic>
#include <cstdint>

#include "preload/options.h"
#include "recording/format.h"
#include "types/lock.h"

namespace headroom::preload {

inline constexpr std::uint64_t kBackingStep = 128 << 10;

// A segment that belongs to one thread.
struct Segment {
  std::uint8_t* memory = nullptr;  // null: none
  std::uint64_t number = 0;        // in the order of claims
  std::uint64_t slot = 0;          // its position in the file
};

class RecordingFile {
 public:
  // Creates the recording of this process: `path` itself for the first process of the tree, otherwise
  // `path`.d/PID-NUMBER.hrec. Returns false on failure.
  bool create(const char* path, const Options& options);
  // In a forked child: drops the parent's recording. The parent's file does not change.
  void abandon();

  recording::FileHeader* header() const { return header_; }
  bool is_open() const { return header_ != nullptr; }
  // True if RLIMIT_FSIZE keeps the recording smaller than requested.
  bool is_size_limited() const { return is_size_limited_.load(std::memory_order_relaxed); }

  // Returns false when the size limit is reached, all slots of the ring are in use, or memory cannot be
  // mapped. In a ring, calls `leave` for used slots, oldest first, until one call returns true: then that
  // slot is free.
  bool claim(Segment& segment, bool (*leave)(std::uint64_t slot));
  void release(Segment& segment);
  // Reserves disk space for the first `bytes` of a segment (a multiple of the step). Returns false when the
  // disk is full.
  bool reserve_space(const Segment& segment, std::uint64_t bytes);

  // Writes a metadata record that consists of these pieces. If the area or the disk is full, drops the record
  // and returns false.
  struct Piece {
    const void* data;
    std::size_t bytes;
  };
  bool write_metadata(recording::MetadataKind kind, std::uint32_t id, const Piece* pieces, std::size_t count);
  bool write_metadata(recording::MetadataKind kind, std::uint32_t id, Piece piece) {
    return write_metadata(kind, id, &piece, 1);
  }
  // Writes the checksum of a segment whose thread may go on writing. Leaves some metadata space free for
  // records that a reader needs more.
  void write_seal(std::uint64_t slot, const recording::SegmentSeal& seal);
  // Writes the last record of a process that ends: the header's current values and the checksum of the
  // metadata. Returns false if there is no space.
  bool write_end();
  void note(const char* sentence);

  // Takes the second of the two points that convert ticks into time.
  void calibrate();

 private:
  bool open_new(const char* path);
  bool open_for_process(const char* path);
  bool set_up(const Options& options);
  void fill_header(recording::FileHeader& header, const Options& options);
  bool ensure_descriptor();
  enum class Reserve { as_a_hole, with_zeros };
  bool allocate(std::uint64_t offset, std::uint64_t bytes, Reserve how);
  bool reserve_on_disk(std::uint64_t offset, std::uint64_t bytes);
  bool back_metadata(std::uint64_t end);
  std::uint64_t segment_offset(std::uint64_t slot) const;

  bool zeros_reserve_ = false;  // writing zeros reserves space as well as fallocate(), and faster
  int fd_ = -1;
  std::uint64_t device_ = 0, inode_ = 0;  // identify the file behind fd_
  std::uint32_t generation_ = 0;
  recording::FileHeader* header_ = nullptr;
  std::atomic<std::uint8_t>* slots_in_use_ = nullptr;  // only in a ring
  // only in a ring: where the search for a free slot continues
  std::atomic<std::uint64_t> next_slot_{0};
  std::atomic<std::uint64_t> metadata_backed_{0};
  Lock backing_metadata_;
  std::atomic<bool> calibrating_{false}, is_size_limited_{false};
  char path_[4096] = {};
};

}  // namespace headroom::preload
