// Reads a recording: what was traced, and its events in the order of time across threads. The file is mapped
// and decoded as it is walked, so memory grows with the number of distinct stacks and scopes, not with the
// events. A file that was cut off or damaged is read as far as it is sound; problems() says what is missing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.h"
#include "model/limit.h"
#include "model/memory_event.h"
#include "recording/format.h"
#include "recording/module.h"
#include "recording/module_places.h"
#include "recording/node_ranges.h"
#include "recording/runtime_profile.h"
#include "recording/segment_decoder.h"
#include "recording/stack_table.h"
#include "recording/weight_blocks.h"

namespace headroom::recording {

// What a scope is called that was pushed with an empty name.
inline constexpr char kUnnamedScope[] = "(unnamed)";

struct Scope {
  ScopeId parent;
  ScopeSource source = ScopeSource::program;
  std::string name;  // its own name, empty for an id without a record; path_of() joins those of its parents
};

struct Thread {
  std::int64_t tid = 0;
  std::string name;
};

// A profile that the traced runtime wrote of itself (ONNX Runtime's JSON), to be joined by time.
struct RuntimeProfile {
  std::string path;
  Nanoseconds start;  // since the start of the recording
  ScopeId session;
  RuntimeProfileData data;  // empty where the file is gone or cannot be read; notes say so
};

// A GPU that the process used.
struct Device {
  std::uint32_t ordinal = 0;
  std::string name, uuid;  // as nvidia-smi writes it: "GPU-0123…"
  std::uint64_t total_bytes = 0;
  std::optional<std::uint64_t> limit_bytes;  // that allocations were refused by
  bool integrated = false;                   // its memory is the machine's
  bool shared_limit = false;                 // other processes count against the limit, too
  // What a probe found before the program was started; absent where there was none.
  std::optional<LimitType> proved_limit;
  std::uint64_t granule_bytes = 0;  // in what the device gives memory; 0: not known, or the machine's pages
};

struct RecordingInfo {
  std::vector<std::string> command;
  std::string executable, folder, host_system, host_release, host_machine;
  std::int64_t pid = 0, parent_pid = 0;
  int exec_generation = 0;
  Nanoseconds duration;                  // from the first to the last event
  std::int64_t started_realtime_ns = 0;  // since 1970
  bool full = false, ring = false, closed = false;
  bool host_recorded = true;  // false: memory of GPUs only; there is no event of the heap and of mappings
  bool forked = false;        // a child after fork: it began with its parent's blocks
  std::uint64_t large_bytes = 0, sample_period_bytes = 0;
  std::uint32_t page_bytes = 4096;
  std::uint64_t file_bytes = 0, segments = 0, segments_overwritten = 0, events_dropped = 0;
  std::vector<Module> modules;
  std::vector<Scope> scopes;  // by ScopeId; [0] is the root
  std::vector<Thread> threads;
  std::vector<Device> devices;  // in the order of their first use
  // Names of processes that held memory of a device when a limit refused a request.
  std::map<std::int64_t, std::string> processes;
  std::vector<RuntimeProfile> profiles;
  std::vector<std::string> notes;
};

// "model/layer1/conv": names of a scope and its parents; empty for the root.
std::string path_of(const RecordingInfo& info, ScopeId scope);

// Whether blocks were live before its first event: those of a forked child's parent, or from before what a
// ring still has. They would look like holes between the others.
bool has_unknown_blocks(const RecordingInfo& info);

class Recording {
 public:
  static Result<Recording> open(const std::filesystem::path& path);
  Recording(Recording&&) noexcept;
  Recording& operator=(Recording&&) noexcept;
  ~Recording();

  const RecordingInfo& info() const { return info_; }
  std::string path_of(ScopeId scope) const { return recording::path_of(info_, scope); }

  // Calls visit(const MemoryEvent&) for each event, ordered by time; releases come before allocations of the
  // same moment, so that an address that one thread frees and another gets is never live twice. May be called
  // again; the stacks keep their ids.
  template <class Visit>
  void for_each_event(Visit&& visit);

  // The stacks seen so far by for_each_event, innermost frame first, as addresses of return in
  // info().modules.
  const StackTable& stacks() const { return stacks_; }
  // What could not be read, a sentence each; complete only after for_each_event.
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  Recording() = default;
  Status map(const std::filesystem::path& path);
  Status read_header(const std::filesystem::path& path);
  void set_times();
  // Checksums (recording_checks.cpp). What does not match is a problem, and read all the same.
  void check_header();
  void find_end();
  void check_sizes();
  void take_seal_of(SegmentSpan& span, const SegmentHeader& segment);
  void check_segment(const SegmentSpan& span);
  void add_problem(std::string problem);
  // What the traced process still writes to (growing_recording.cpp).
  bool may_have_grown() const;
  bool take_copy(SegmentSpan& span, std::vector<std::uint8_t>& copy) const;
  const char* torn_words() const;  // what else may be wrong with a segment
  void report_overwritten(std::uint64_t segments);
  void read_metadata();
  void read_metadata_record(MetadataKind kind, std::uint32_t id, const std::uint8_t* at, std::size_t bytes);
  void find_segments();
  void read_profiles(const std::filesystem::path& recording);
  // Scopes of nodes by the run's scope and their name: a model that is loaded again has the same.
  using NodeScopes = std::map<std::pair<std::uint32_t, std::string>, ScopeId>;
  void add_nodes(std::uint32_t profile, NodeScopes& known);
  void note_unwritten_profiles();
  Nanoseconds time_of_ticks(std::uint64_t ticks) const;
  template <class Visit>
  void walk_nodes(Visit&& visit);  // with the nodes of graphs as scopes, with stacks as they were recorded
  void walk_places(const std::function<void(const MemoryEvent&)>& visit);
  template <class Visit>
  void walk(Visit&& visit);  // with weights in the scopes of their layers
  template <class Visit>
  void walk_records(Visit&& visit);  // the events as they were recorded
  void find_weights();
  void report_damage(const SegmentDecoder& decoder);
  void let_go_of(const std::uint8_t* begin, const std::uint8_t* end) const;

  const std::uint8_t* bytes_ = nullptr;
  std::size_t size_ = 0;
  std::uint64_t promised_bytes_ = 0;  // what the header said of the file's length, before that was asked
  RecordingInfo info_;
  TimeScale scale_;
  std::uint64_t first_ticks_ = 0;
  unsigned scale_time_shift_ = 0;
  std::size_t metadata_bytes_ = 0;  // of records that the file has
  // What changes in the file header: where the process ended its recording itself, as it was then.
  RecordingEnd end_{};
  std::map<std::uint64_t, SegmentSeal> seals_;  // by slot
  // Numbers of profiles that were begun, with their sessions, and those that were written.
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
    if (is_for_others(event)) visit(weight_blocks_.settled(event));
  });
}

template <class Visit>
void Recording::walk_records(Visit&& visit) {
  problems_ = open_problems_;
  const std::uint64_t coin_key = mixed(static_cast<std::uint64_t>(info_.started_realtime_ns));
  // One decoder for each segment whose time has come; seldom more than there are threads.
  std::vector<SegmentDecoder> active;
  std::size_t upcoming = 0;
  std::uint64_t overwritten = 0;
  while (upcoming < segments_.size() || !active.empty()) {
    // The decoder whose next event is the earliest, and the time until which it may run alone.
    std::size_t first = 0;
    for (std::size_t i = 1; i < active.size(); ++i)
      if (active[i].comes_before(active[first])) first = i;
    if (upcoming < segments_.size() &&
        (active.empty() || segments_[upcoming].base_time <= active[first].next_time())) {
      SegmentSpan& known = segments_[upcoming++];
      SegmentSpan segment = known;
      std::vector<std::uint8_t> copy;
      if (info_.ring && !take_copy(segment, copy)) {
        ++overwritten;
        continue;
      }
      if (!std::exchange(known.is_checked, true)) check_segment(segment);
      SegmentDecoder decoder(segment, scale_, weights_, coin_key, stacks_, std::move(copy));
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
    // The first event is due whatever the horizon (a tie was decided by comes_before).
    do {
      visit(decoder.event());
      more = decoder.advance();
    } while (more && decoder.next_time() < horizon);
    if (more) continue;
    report_damage(decoder);
    if (!info_.ring) let_go_of(decoder.begin(), decoder.end());
    active.erase(active.begin() + static_cast<std::ptrdiff_t>(first));
  }
  report_overwritten(overwritten);
}

}  // namespace headroom::recording
