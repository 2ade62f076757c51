// The file that one process records into: its header and metadata are mapped for as long as the process
// lives, and segments are claimed, mapped and given back by the threads that write them.
//
// Disk space is had before it is written to, in steps of 128 KiB: a write through a mapping that finds the
// disk full would kill the program by SIGBUS, an allocation that fails only costs events.
#pragma once

#include <atomic>
#include <cstdint>

#include "recording/format.h"
#include "tracer/lock.h"
#include "tracer/options.h"

namespace headroom::tracer {

inline constexpr std::uint64_t kBackingStep = 128 << 10;

// A segment that a thread has to itself.
struct Segment {
  std::uint8_t* memory = nullptr;  // null: none
  std::uint64_t number = 0;        // in the order of claims
  std::uint64_t slot = 0;          // its place in the file
};

class RecordingFile {
 public:
  // Creates the recording of this process: `path` itself for the first process of the tree, else
  // `path`.d/PID-NUMBER.hrec. False when there is to be none.
  bool create(const char* path, const Options& options);
  // Forgets, in the child after fork, what is the parent's. The parent's file stays as it is.
  void abandon();

  recording::FileHeader* header() const { return header_; }
  bool is_open() const { return header_ != nullptr; }
  // The limit on file sizes (RLIMIT_FSIZE) keeps it smaller than what was asked for.
  bool is_kept_small() const { return is_kept_small_.load(std::memory_order_relaxed); }

  // False when the limit is reached, all slots of the ring are in use, or memory cannot be mapped.
  // `leave` is asked for the slots of a ring that are in use, the oldest first; true: that one no more.
  bool claim(Segment& segment, bool (*leave)(std::uint64_t slot));
  void give_back(Segment& segment);
  // Makes the first `bytes` of a segment, a multiple of the step, safe to write to. False when the disk is
  // full.
  bool back(const Segment& segment, std::uint64_t bytes);

  // Writes a metadata record whose payload is these pieces; drops it when the area or the disk is full.
  struct Piece {
    const void* data;
    std::size_t bytes;
  };
  // False then.
  bool write_metadata(recording::MetadataKind kind, std::uint32_t id, const Piece* pieces, std::size_t count);
  bool write_metadata(recording::MetadataKind kind, std::uint32_t id, Piece piece) {
    return write_metadata(kind, id, &piece, 1);
  }
  // The checksum of a segment that its thread may go on in. Leaves room for what a reader needs more.
  void write_seal(std::uint64_t slot, const recording::SegmentSeal& seal);
  // The last record of a process that ends: what the header holds now, and the checksum of the metadata.
  // False if there is no room.
  bool write_end();
  void note(const char* sentence);

  // Takes the second of the two points that turn ticks into time.
  void calibrate();

 private:
  bool open_new(const char* path);
  bool open_for_process(const char* path);
  bool set_up(const Options& options);
  void fill_header(recording::FileHeader& header, const Options& options);
  bool own_descriptor();
  enum class Reserve { as_a_hole, with_zeros };
  bool allocate(std::uint64_t offset, std::uint64_t bytes, Reserve how);
  bool reserve_on_disk(std::uint64_t offset, std::uint64_t bytes);
  bool back_metadata(std::uint64_t end);
  std::uint64_t segment_offset(std::uint64_t slot) const;

  bool zeros_reserve_ = false;  // writing zeros is as good as fallocate() there, and faster
  int fd_ = -1;
  std::uint64_t device_ = 0, inode_ = 0;  // of the file behind fd_
  std::uint32_t generation_ = 0;
  recording::FileHeader* header_ = nullptr;
  std::atomic<std::uint8_t>* slots_in_use_ = nullptr;  // of a ring
  std::atomic<std::uint64_t> next_slot_{0};            // of a ring: where the search for a free one goes on
  std::atomic<std::uint64_t> metadata_backed_{0};
  Lock backing_metadata_;
  std::atomic<bool> calibrating_{false}, is_kept_small_{false};
  char path_[4096] = {};
};

}  // namespace headroom::tracer
