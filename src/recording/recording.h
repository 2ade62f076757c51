// Reads a recording: the process, and its events ordered by time across threads.
//
// The file is mapped, and each pass decodes it anew. So memory use grows with the number of distinct stacks
// and scopes, not with the number of events. A truncated or damaged file is read as far as it is intact;
// problems() lists the missing parts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.h"
#include "recording/event_scopes.h"
#include "recording/format.h"
#include "recording/module_places.h"
#include "recording/runtime_profile.h"
#include "recording/segment_decoder.h"
#include "types/limit.h"
#include "types/memory_event.h"

namespace headroom::recording {

// The name of a scope that was pushed with an empty name.
inline constexpr char kUnnamedScope[] = "(unnamed)";

struct Scope {
  ScopeId parent;
  ScopeSource source = ScopeSource::program;
  std::string name;  // own name, empty for an id without a record; path_of() joins the names of all parents
};

struct Thread {
  std::int64_t tid = 0;
  std::string name;
};

// A profile that the traced runtime wrote (ONNX Runtime's JSON). It is joined with the events by time.
struct RuntimeProfile {
  std::string path;
  Nanoseconds start;  // since the start of the recording
  ScopeId session;
  RuntimeProfileData data;  // empty if the file is missing or unreadable; a note says so
};

// A GPU that the process used.
struct Device {
  std::uint32_t ordinal = 0;
  std::string name, uuid;  // uuid as nvidia-smi writes it: "GPU-0123…"
  std::uint64_t total_bytes = 0;
  std::optional<std::uint64_t> limit_bytes;  // allocations above this were refused
  bool integrated = false;                   // uses host memory
  bool shared_limit = false;                 // other processes count against the same limit
  // Result of the limit probe before the program started; absent if no probe ran.
  std::optional<LimitType> proved_limit;
  std::uint64_t granule_bytes = 0;  // allocation granule of the device; 0: unknown, or host pages
};

// The recorder came into a running process, which has blocks from before. Zeros: unknown.
struct Attached {
  Nanoseconds process_age;
  std::uint64_t resident_bytes = 0;  // of the whole process, before attaching
};

struct RecordingInfo {
  std::vector<std::string> command;
  std::string executable, folder;
  std::int64_t pid = 0, parent_pid = 0;
  int exec_generation = 0;
  Nanoseconds duration;  // up to the last time in the header; a killed process may have events after it
  std::int64_t started_realtime_ns = 0;  // since 1970
  bool full = false, ring = false, closed = false;
  bool host_recorded = true;  // false: GPU memory only, no heap and mapping events
  bool forked = false;        // a child after fork: it started with its parent's live blocks
  std::optional<Attached> attached;
  std::uint64_t large_bytes = 0, sample_period_bytes = 0;
  std::uint32_t page_bytes = 4096;
  std::uint64_t file_bytes = 0, segments = 0, segments_overwritten = 0, events_dropped = 0;
  std::vector<Module> modules;
  std::vector<Scope> scopes;  // by ScopeId; [0] is the root
  std::vector<Thread> threads;
  std::vector<Device> devices;  // in order of first use
  // Names of processes that held memory of a device when the limit refused a request.
  std::map<std::int64_t, std::string> processes;
  std::vector<RuntimeProfile> profiles;
  std::vector<std::string> notes;
};

// "model/layer1/conv": the names of a scope and its parents; empty for the root.
std::string path_of(const RecordingInfo& info, ScopeId scope);

// Whether blocks were live before the first event: the parent's blocks in a forked child, those of a process
// that ran before the recorder came, or events that a ring has overwritten. They look like holes between the
// known blocks.
bool has_unknown_blocks(const RecordingInfo& info);

class Recording {
 public:
  // Errors: missing, unreadable, not a regular file, not a recording, or of a version that is not supported.
  static Result<Recording> open(const std::filesystem::path& path);
  const RecordingInfo& info() const { return info_; }
  std::string path_of(ScopeId scope) const { return recording::path_of(info_, scope); }
  // `units`: time units since the start, as in the records (docs/recording-format.md).
  Nanoseconds time_of_units(std::uint64_t units) const { return scale_.of(units); }

  // Calls visit(const MemoryEvent&) for each event, ordered by time. At equal times frees come before
  // allocations, so an address that one thread frees and another receives is never live twice. May be called
  // again; stacks keep their ids.
  template <class Visit>
  void for_each_event(Visit&& visit);

  // The stacks that for_each_event() has seen so far: return addresses in info().modules, innermost frame
  // first.
  const StackTable& stacks() const { return stacks_; }
  // Parts that could not be read, one sentence each. Complete only after for_each_event().
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  Recording() = default;
  Status map(const std::filesystem::path& path);
  Status read_header(const std::filesystem::path& path);
  void set_times();
  // Checksums (recording_checks.cpp). Data with a wrong checksum is reported and still read.
  void check_header();
  void find_end();
  void use_seal_of(SegmentSpan& span, const SegmentHeader& segment);
  void check_segment(const SegmentSpan& span);
  void add_problem(std::string problem);
  // Reading while the traced process writes (recording_checks.cpp).
  bool may_have_grown() const;
  bool copy_segment(SegmentSpan& span, std::vector<std::uint8_t>& copy) const;
  const char* copy_hint() const;  // another possible cause of damage in a segment
  void report_overwritten(std::uint64_t segments);
  // Calls visit(record, payload, offset) for each metadata record, until it returns false.
  struct SkippedBytes {
    std::size_t total = 0, at_the_end = 0;
  };
  template <class Visit>
  SkippedBytes walk_metadata(Visit&& visit) const;
  std::size_t metadata_bytes() const;  // of the records that are in the file
  void read_metadata();
  void read_metadata_record(MetadataKind kind, std::uint32_t id, const std::uint8_t* at, std::size_t bytes);
  void find_segments();
  void read_profiles(const std::filesystem::path& recording);
  // Scopes of nodes, by run scope and node name: a model that is loaded again gets the same scopes.
  using NodeScopes = std::map<std::pair<std::uint32_t, std::string>, ScopeId>;
  void add_nodes(std::uint32_t profile, NodeScopes& known);
  void note_unwritten_profiles();
  Nanoseconds time_of_ticks(std::uint64_t ticks) const;
  template <class Visit>
  void walk_nodes(Visit&& visit);  // with graph nodes as scopes, and stacks as recorded
  void walk_places(const std::function<void(const MemoryEvent&)>& visit);
  template <class Visit>
  void walk(Visit&& visit);  // with weights in the scopes of their layers
  template <class Visit>
  void walk_records(Visit&& visit);  // the events as recorded
  void find_weights();
  void report_damage(const SegmentDecoder& decoder);
  void drop_pages(const std::uint8_t* begin, const std::uint8_t* end) const;

  struct Unmap {
    std::size_t size;
    void operator()(const std::uint8_t* bytes) const;
  };
  std::unique_ptr<const std::uint8_t, Unmap> mapping_;
  const std::uint8_t* bytes_ = nullptr;  // the mapping's
  std::size_t size_ = 0;
  std::uint64_t header_file_bytes_ = 0;  // file length in the header, read before the real length
  RecordingInfo info_;
  TimeScale scale_;
  std::uint64_t first_ticks_ = 0;
  unsigned scale_time_shift_ = 0;
  // The changing fields of the file header, as of the end if the process closed the recording.
  RecordingEnd end_{};
  std::map<std::uint64_t, SegmentSeal> seals_;  // by slot
  // Numbers of profiles that were started, with their sessions, and of those that were written.
  std::map<std::uint32_t, ScopeId> begun_profiles_;
  std::set<std::uint32_t> written_profiles_;
  std::vector<SegmentSpan> segments_;  // by base time
  StackTable stacks_;
  SampleWeights weights_;
  NodeRanges nodes_;
  ModulePlaces places_;
  WeightBlocks weight_blocks_;
  bool has_weights_to_find_ = false;
  std::vector<std::string> problems_, open_problems_;
};

template <class Visit>
void Recording::for_each_event(Visit&& visit) {
  if (std::exchange(has_weights_to_find_, false)) find_weights();
  if (places_.empty()) return walk_nodes(visit);
  walk_places(std::ref(visit));
}

// A thread that was killed while writing leaves a hole. The next record starts at a multiple of eight.
template <class Visit>
Recording::SkippedBytes Recording::walk_metadata(Visit&& visit) const {
  const std::uint8_t* const area = bytes_ + kHeaderBytes;
  const std::size_t used = metadata_bytes();
  SkippedBytes skipped;
  for (std::size_t at = 0; at <= used && used - at >= sizeof(MetadataHeader);) {
    const auto& record = *reinterpret_cast<const MetadataHeader*>(area + at);
    const std::size_t left = used - at - sizeof record;
    if (record.magic.load(std::memory_order_acquire) != kMetadataMagic || record.bytes > left) {
      at += 8;
      skipped.total += 8;
      skipped.at_the_end += 8;
      continue;
    }
    skipped.at_the_end = 0;
    if (!visit(record, area + at + sizeof record, at)) break;
    at += sizeof record + (std::size_t{record.bytes} + 7) / 8 * 8;
  }
  return skipped;
}

template <class Visit>
void Recording::walk_nodes(Visit&& visit) {
  if (nodes_.empty()) return walk(visit);
  nodes_.rewind();
  walk([&](const MemoryEvent& event) { nodes_.visit(event, visit); });
}

template <class Visit>
void Recording::walk(Visit&& visit) {
  const auto is_for_others = [](const MemoryEvent& event) { return event.kind != MemoryEventKind::weight; };
  if (weight_blocks_.empty()) {
    walk_records([&](const MemoryEvent& event) {
      if (is_for_others(event)) visit(event);
    });
    return;
  }
  walk_records([&](const MemoryEvent& event) {
    if (is_for_others(event)) visit(weight_blocks_.with_layer_scope(event));
  });
}

template <class Visit>
void Recording::walk_records(Visit&& visit) {
  problems_ = open_problems_;
  const std::uint64_t coin_key = mixed(static_cast<std::uint64_t>(info_.started_realtime_ns));
  // One decoder for each segment whose time has come; rarely more than there are threads.
  std::vector<SegmentDecoder> active;
  std::size_t upcoming = 0;
  std::uint64_t overwritten = 0;
  while (upcoming < segments_.size() || !active.empty()) {
    // Find the decoder with the earliest next event, and the time until which it can run alone.
    std::size_t first = 0;
    for (std::size_t i = 1; i < active.size(); ++i)
      if (active[i].comes_before(active[first])) first = i;
    if (upcoming < segments_.size() &&
        (active.empty() || segments_[upcoming].base_time <= active[first].next_time())) {
      SegmentSpan& known = segments_[upcoming++];
      SegmentSpan segment = known;
      std::vector<std::uint8_t> copy;
      if (info_.ring && !copy_segment(segment, copy)) {
        ++overwritten;
        continue;
      }
      if (!std::exchange(known.is_checked, true)) check_segment(segment);
      SegmentDecoder decoder(segment, scale_, weights_, coin_key, &stacks_, std::move(copy));
      if (decoder.advance())
        active.push_back(std::move(decoder));
      else
        report_damage(decoder);
      continue;
    }
    std::uint64_t horizon = upcoming < segments_.size() ? segments_[upcoming].base_time : ~std::uint64_t{0};
    for (std::size_t i = 0; i < active.size(); ++i)
      if (i != first) horizon = std::min(horizon, active[i].next_time());
    SegmentDecoder& decoder = active[first];
    bool more = true;
    // The first event is always due (comes_before() has decided a tie).
    do {
      visit(decoder.event());
      more = decoder.advance();
    } while (more && decoder.next_time() < horizon);
    if (more) continue;
    report_damage(decoder);
    if (!info_.ring) drop_pages(decoder.begin(), decoder.end());
    active.erase(active.begin() + static_cast<std::ptrdiff_t>(first));
  }
  report_overwritten(overwritten);
}

// Whether the file begins like a recording. Never opens a pipe, which would block.
bool is_recording(const std::filesystem::path& file);

}  // namespace headroom::recording
