// Builds a valid recording (.hrec) from given events, with the writer of the preload library. Times are in
// nanoseconds, unless the options set another unit.
//
//   test::RecordingBuilder builder(folder / "a.hrec");
//   const auto layer = builder.scope("conv1");
//   builder.enter_scope(0, 10, layer);
//   builder.allocate(0, 20, 0x1000, 4096, {0x401000, 0x402000});  // thread, time, address, size, stack
//   builder.release(0, 30, 0x1000);
//   auto recording = recording::Recording::open(builder.finish());
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "recording/format.h"
#include "recording/record_writer.h"
#include "types/memory_event.h"

namespace headroom::test {

struct RecordingOptions {
  bool full = true;
  bool ring = false;
  bool closed = true;
  bool host = true;  // false: GPU memory only
  bool forked = false;
  bool checksums = true;  // false: as older versions wrote it
  std::uint32_t segment_bytes = 64 << 10;
  std::uint32_t metadata_bytes = 64 << 10;
  // Events beyond this many segments count as dropped. In a ring, they overwrite the oldest segment.
  std::uint64_t segments_limit = 256;
  std::uint64_t large_bytes = 4096;
  std::uint64_t sample_period_bytes = 512 << 10;
  std::uint32_t time_shift = 0;
  double nanoseconds_per_tick = 1;
  std::uint64_t started_realtime_ns = 1'790'000'000'000'000'000;
  std::int32_t pid = 4242, parent_pid = 4241;
  std::uint32_t exec_generation = 0;
  std::vector<std::string> command{"/usr/bin/program", "--flag"};
};

class RecordingBuilder {
 public:
  using Frames = std::vector<std::uint64_t>;  // innermost first

  explicit RecordingBuilder(std::filesystem::path path, RecordingOptions options = {});

  // Metadata. A scope's id is 1, 2, … in the order of the calls; its parent must exist.
  std::uint32_t scope(const std::string& name, std::uint32_t parent = 0,
                      recording::ScopeSource source = recording::ScopeSource::program);
  void thread(std::uint32_t index, std::uint32_t tid, const std::string& name);
  void module(const std::string& path, const std::string& build_id_bytes, std::uint64_t start,
              std::uint64_t end, std::uint64_t load_bias, std::uint64_t ticks = 0);
  void module_gone(std::uint64_t load_bias, std::uint64_t ticks);
  // A profile of ONNX Runtime, which starts `start` nanoseconds after the recording. `number` 0: as in
  // recordings of older versions, which did not number profiles.
  void profile(const std::string& path, std::uint64_t start, std::uint32_t session_scope,
               std::uint32_t number = 0);
  void open_profile(std::uint32_t number, std::uint32_t session_scope);
  void note(const std::string& sentence);
  void metadata(recording::MetadataKind kind, std::uint32_t id, std::string_view payload);

  // Events of a thread. Times of a thread never run backwards; addresses are multiples of 8.
  void allocate(std::uint32_t thread, std::uint64_t time, std::uint64_t address, std::uint64_t size,
                const Frames& stack = {}) {
    write_with_stack<&Writer::allocate>(thread, time, stack, address, size);
  }
  void sample(std::uint32_t thread, std::uint64_t time, std::uint64_t address, std::uint64_t size,
              const Frames& stack = {}) {
    write_with_stack<&Writer::sample>(thread, time, stack, address, size);
  }
  void release(std::uint32_t thread, std::uint64_t time, std::uint64_t address) {
    write<&Writer::release>(thread, time, address);
  }
  void map(std::uint32_t thread, std::uint64_t time, std::uint64_t address, std::uint64_t size,
           const Frames& stack = {}) {
    write_with_stack<&Writer::map>(thread, time, stack, address, size);
  }
  void reserve(std::uint32_t thread, std::uint64_t time, std::uint64_t address, std::uint64_t size,
               const Frames& stack = {}) {
    write_with_stack<&Writer::reserve>(thread, time, stack, address, size);
  }
  void make_accessible(std::uint32_t thread, std::uint64_t time, std::uint64_t address, std::uint64_t size,
                       const Frames& stack = {}) {
    write_with_stack<&Writer::make_accessible>(thread, time, stack, address, size);
  }
  void unmap(std::uint32_t thread, std::uint64_t time, std::uint64_t address, std::uint64_t size) {
    write<&Writer::unmap>(thread, time, address, size);
  }
  void weight(std::uint32_t thread, std::uint64_t time, std::uint64_t address, std::uint32_t scope) {
    write<&Writer::weight>(thread, time, address, scope);
  }
  void enter_scope(std::uint32_t thread, std::uint64_t time, std::uint32_t scope) {
    write<&Writer::scope>(thread, time, scope);
    threads_[thread].scope = scope;
  }
  void counters(std::uint32_t thread, std::uint64_t time, std::uint32_t scope, std::uint64_t allocations,
                std::uint64_t bytes, std::uint64_t releases) {
    write<&Writer::counters>(thread, time, scope, allocations, bytes, releases);
  }
  // Adds counts to the header of the thread's segment, as a killed process leaves them.
  void count(std::uint32_t thread, std::uint64_t time, std::uint64_t allocations, std::uint64_t bytes,
             std::uint64_t releases);
  // Events of GPUs.
  void device(std::uint32_t ordinal, const recording::DeviceRecord& record, const std::string& name);
  void device_allocate(std::uint32_t thread, std::uint64_t time, std::uint32_t device, DeviceMemoryKind kind,
                       std::uint64_t handle, std::uint64_t size, const Frames& stack = {}) {
    write_with_stack<&Writer::device_allocate>(thread, time, stack, device, static_cast<std::uint8_t>(kind),
                                               handle, size);
  }
  void device_release(std::uint32_t thread, std::uint64_t time, std::uint32_t device, DeviceMemoryKind kind,
                      std::uint64_t handle) {
    write<&Writer::device_release>(thread, time, device, static_cast<std::uint8_t>(kind), handle);
  }
  void device_refused(std::uint32_t thread, std::uint64_t time, std::uint32_t device, DeviceMemoryKind kind,
                      std::uint64_t size, std::uint64_t charged, std::uint64_t limit,
                      const Frames& stack = {}) {
    write_with_stack<&Writer::device_refused>(thread, time, stack, device, static_cast<std::uint8_t>(kind),
                                              size, charged, limit);
  }
  // Call this after device_refused() of the same thread.
  void device_holder(std::uint32_t thread, std::uint64_t time, std::uint32_t device, std::uint32_t process,
                     std::uint64_t bytes, bool is_elsewhere = false) {
    write<&Writer::device_holder>(thread, time, device, process, bytes, is_elsewhere);
  }
  void process_name(std::uint32_t process, const std::string& name);
  void device_figure(std::uint32_t thread, std::uint64_t time, std::uint32_t device, DeviceMemoryKind kind,
                     std::uint64_t bytes) {
    write<&Writer::device_figure>(thread, time, device, static_cast<std::uint8_t>(kind), bytes);
  }
  void gap(std::uint32_t thread, std::uint64_t time, std::uint64_t events) {
    write<&Writer::gap>(thread, time, events);
  }
  // The following records in this thread's segment belong to the thread `other`.
  void hand_over(std::uint32_t thread, std::uint64_t time, std::uint32_t other) {
    write<&Writer::thread>(thread, time, other);
  }

  // Returns the writer of the thread's segment, with space for a record; null if the limit is reached.
  recording::RecordWriter* writer(std::uint32_t thread, std::uint64_t time);
  // The thread's next event goes to a new segment.
  void end_segment(std::uint32_t thread);

  // Writes the file and returns its path.
  std::filesystem::path finish();

 private:
  using Writer = recording::RecordWriter;
  using Segment = std::unique_ptr<std::uint64_t[]>;
  struct ThreadState {
    recording::RecordWriter writer;
    std::size_t slot = 0;
    std::uint32_t scope = 0;
    std::map<Frames, std::uint32_t> stacks;  // stacks that the segment defines
  };

  // Closes the writer's segment, with a checksum if the options want one.
  void leave(recording::RecordWriter& writer) const;
  // Writes the seals of the open segments and the end record, as an exiting process does.
  void write_end(recording::FileHeader& header);
  // Writes an event: calls `record(time, arguments…)`, and the second with the number of the stack behind.
  template <auto record, class... Arguments>
  void write(std::uint32_t thread, std::uint64_t time, Arguments... arguments) {
    if (Writer* out = writer(thread, time)) (out->*record)(time, arguments...);
  }
  template <auto record, class... Arguments>
  void write_with_stack(std::uint32_t thread, std::uint64_t time, const Frames& stack,
                        Arguments... arguments) {
    if (Writer* out = writer(thread, time)) (out->*record)(time, arguments..., stack_of(thread, time, stack));
  }
  std::uint32_t stack_of(std::uint32_t thread, std::uint64_t time, const Frames& frames);

  std::filesystem::path path_;
  RecordingOptions options_;
  std::string metadata_;
  std::vector<Segment> segments_;
  std::map<std::uint32_t, ThreadState> threads_;
  std::uint64_t claimed_ = 0, dropped_ = 0, last_time_ = 0;
  std::uint32_t scopes_ = 0;
};

}  // namespace headroom::test
