// What a recording says: who allocated how much, who held it at the peak, what stayed, and what it cost.
//
//   auto recording = Recording::open(path);
//   const RecordingAnalysis analysis = analyze_recording(*recording, {});
//
// One pass over the events in the order of time. Memory is that of the live allocations at the fullest moment
// (80 to 160 bytes each, 240 while their table grows), of the distinct stacks and of the layers; the number
// of events does not matter. All figures are defined in docs/trace-report.md.
//
// A recording in default mode holds large allocations each and small ones as exact counters and samples. What
// was counted is exact; what is live of the small ones is estimated from the samples, and such figures carry
// a standard error. The largest of many estimates is too large: so half of the samples choose the moment of
// the peak, and the others tell what was live then (recording/sample_half.h); figures at the peak are theirs.
// What is live at a given moment, such as the end, is estimated from all. Before the pass over such a
// recording comes one that finds the moment.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "attribution/cycle_leaks.h"
#include "attribution/device_memory.h"
#include "attribution/heap_fragmentation.h"
#include "attribution/live_counter.h"
#include "attribution/mapping_ledger.h"
#include "attribution/memory_timeline.h"
#include "base/units.h"
#include "recording/recording.h"
#include "types/memory_event.h"

namespace headroom::attribution {

// A figure that was counted, or estimated from samples.
struct Figure {
  std::int64_t value = 0;
  std::optional<double> standard_error = {};  // absent: the value is exact
  // Where all small allocations together are less than one sample stands for: what it can be at most.
  std::optional<std::int64_t> at_most = {};
  bool at_least = false;  // what is older than the first event of an overwritten ring is not in it
};

// Live memory of one stack, layer, size class or thread. In a recording of samples it is estimated.
struct LiveFigures {
  std::int64_t peak_bytes = 0, peak_blocks = 0;  // at the moment when the whole heap was fullest
  std::int64_t end_bytes = 0, end_blocks = 0;
  // Of the bytes, where samples stand for a part of them: sums of square bytes, so they add up as the bytes
  // do.
  double peak_variance = 0, end_variance = 0;

  // Wraps, as sums of what a damaged file claims do.
  void add(const LiveFigures& other) {
    add_wrapping(peak_bytes, other.peak_bytes);
    add_wrapping(peak_blocks, other.peak_blocks);
    add_wrapping(end_bytes, other.end_bytes);
    add_wrapping(end_blocks, other.end_blocks);
    peak_variance += other.peak_variance;
    end_variance += other.end_variance;
  }
  // Absent where the bytes are exact.
  std::optional<double> peak_standard_error() const { return standard_error_of(peak_variance); }
  std::optional<double> end_standard_error() const { return standard_error_of(end_variance); }

 private:
  static std::optional<double> standard_error_of(double variance) {
    return variance > 0 ? std::optional(std::sqrt(variance)) : std::nullopt;
  }
};

struct StackFigures {
  StackId stack;
  std::int64_t allocations = 0, allocated_bytes = 0;  // estimated where samples stand for others
  std::int64_t temporary = 0;                         // of full recordings only
  LiveFigures live;
  std::int64_t outside_peak_bytes = 0;           // the part of live.peak_bytes that belongs to no layer
  double outside_peak_variance = 0;              // as in `live`
  std::int64_t most_blocks = 0, most_bytes = 0;  // live at once, at this stack's own fullest moments
  std::optional<std::int64_t> block_bytes;       // the size of all its allocations, if they had the same
  bool sampled = false;                          // some of it was estimated
};

// A scope by its path; the fields of the reference's LayerMemoryStats and what goes with them. Layers hold
// what was allocated in them and in the layers inside them, except for `self`.
struct LayerFigures {
  std::string path;  // "session/Run/conv1"; empty for what lies outside of any layer
  std::string key;   // layer_tree.h: by this a layer is found in another recording
  std::optional<std::size_t> parent;
  recording::ScopeSource source = recording::ScopeSource::program;
  std::int64_t entries = 0;
  Nanoseconds duration;                        // between entering and leaving, over all entries and threads
  std::int64_t peak_allocated = 0;             // most bytes of it live at once
  std::int64_t peak_reserved = 0;              // the same with the allocator's headers and rounding
  double average_fragmentation = 0;            // (reserved − allocated) / reserved, over its allocations
  std::int64_t process_peak = 0;               // most bytes live in the whole process while it ran
  std::int64_t allocations = 0, releases = 0;  // made in it, whoever allocated what was released; exact
  std::int64_t allocated_bytes = 0;            // exact
  // False for a graph's node in a recording of samples: what was counted is known of its whole run only, and
  // the three above hold what was recorded one by one.
  bool counts_known = true;
  LiveFigures live;  // with the layers inside it
  LiveFigures self;  // without them: these add up to the heap
  // The part of self.peak_bytes that was there for the tracing's sake: a runtime's profile of itself, which
  // the tracer switched on and ended.
  std::int64_t tracing_peak_bytes = 0;
  bool of_session = false;  // one that `sessions` has is loaded or runs in it
};

// Live bytes at the heap's peak of a session of a runtime that wrote a profile of itself.
struct SessionAtPeak {
  std::int64_t loaded_bytes = 0;   // allocated while it was loaded
  std::int64_t run_bytes = 0;      // allocated in its runs, but for
  std::int64_t tracing_bytes = 0;  // its profile, which only tracing switches on
  // Parts of run_bytes: what was allocated in runs that began after the profiled ones, and of both parts what
  // the runtime's arena took from the system, where that is known (arena_chunks.h).
  std::int64_t later_bytes = 0;
  bool arena_is_told = false;
  std::int64_t arena_bytes = 0, arena_later_bytes = 0;
  std::int64_t arena_loaded_bytes = 0;  // the same, part of loaded_bytes
};

struct SizeClassFigures {
  std::uint64_t smallest = 0, largest = 0;  // sizes that belong to it
  std::int64_t allocations = 0, allocated_bytes = 0;
  LiveFigures live;
};

struct ThreadFigures {
  ThreadIndex thread;
  std::int64_t allocations = 0, releases = 0, allocated_bytes = 0;  // exact
  LiveFigures live;                                                 // of what the thread allocated
};

// Memory that the program mapped itself; apart from the heap and never added to it. Exact, in whole pages,
// whether they were touched or not.
struct MappedFigures {
  std::int64_t maps = 0, unmaps = 0;
  std::int64_t mapped_bytes = 0;               // in all, as it was asked for
  std::int64_t peak_bytes = 0, end_bytes = 0;  // most mapped at once, and what still was at the end
  Nanoseconds peak_time;                       // the first moment when most was mapped
  std::int64_t bytes_at_heap_peak = 0;
  // Addresses that were reserved without access: no part of the above until access is given.
  std::int64_t reserved_peak_bytes = 0, reserved_end_bytes = 0;
  // Of peak_bytes and end_bytes, to which each list adds up; the largest first. Layers are without those
  // inside them.
  std::vector<MappingShare> stacks, layers;
};

// Allocations that lived for less than `below` and not for less than half of it.
struct LifetimeClass {
  Nanoseconds below;
  std::int64_t blocks = 0, bytes = 0;
};

// What one stack allocates again and again, and a pool or a buffer that is kept would not.
struct ReuseCandidate {
  StackId stack;
  std::int64_t calls_saved = 0;        // allocations beyond those that were needed at once
  std::int64_t bytes_not_churned = 0;  // allocated in all, less the pool
  // What the pool has to hold and how large it gets. Absent where samples tell: a place that has one block of
  // 400 bytes at a time seems to have a whole period of them (256 KiB) whenever one is a sample.
  std::optional<std::int64_t> most_blocks, pool_bytes;
  double calls_saved_per_second = 0;
};

struct RecordingAnalysis {
  // False: memory of GPUs only. Then what is told of the heap, of mappings and of leaks below is empty, which
  // means unknown and not zero; a layer has its entries and its time, and a device all its figures.
  bool host_recorded = true;
  bool full = false;      // every allocation was recorded
  bool complete = false;  // nothing is missing: ended by itself, no gaps, no damage, nothing overwritten
  std::vector<std::string> problems;
  Nanoseconds duration;

  std::int64_t events = 0;  // records read
  std::int64_t allocations = 0, deallocations = 0,
               total_allocated_bytes = 0;                         // exact but for what is missing
  std::int64_t sampled_allocations = 0, counted_allocations = 0;  // of those
  std::int64_t unknown_releases = 0;  // of blocks that were allocated before the recording, or in a gap
  // At least so many blocks were released whose allocation nothing explains that it was not recorded: neither
  // a fork nor a loss of events. In a recording of samples only as far as there are more releases than
  // allocations.
  std::int64_t unseen_blocks = 0;
  std::int64_t missed_releases = 0;  // an address was given out again and its release was not seen
  std::int64_t gaps = 0, dropped_events = 0;

  Figure peak_bytes;
  Nanoseconds peak_time;
  Figure peak_blocks;
  // Still live at the end. The blocks are exact where all their releases are of blocks that this process
  // allocated while it was recorded; a forked child releases its parent's, too.
  Figure leaked_bytes, leaked_blocks;
  std::optional<std::int64_t> temporary;  // released by the thread's next event after its allocation
  MappedFigures mapped;

  std::vector<StackFigures> stacks;            // [i] is StackId{i}; 0 is "no stack"
  std::vector<LayerFigures> layers;            // [0] is outside of any layer; parents come first
  std::vector<SessionAtPeak> sessions;         // [i] is of RecordingInfo::profiles[i]
  std::vector<SizeClassFigures> size_classes;  // those that occur, ascending
  std::vector<ThreadFigures> threads;          // [i] is ThreadIndex{i}
  MemoryTimeline timeline;
  LeakVerdict leaks;
  std::vector<LifetimeClass> lifetimes;  // those that occur, ascending
  // Of full recordings only, and if they know of all that is live: it needs every address.
  std::optional<HeapFragmentation> fragmentation;
  std::vector<ReuseCandidate> reuse;   // largest saving first
  std::vector<DeviceFigures> devices;  // GPUs, by ordinal; never added to the heap
};

struct AnalysisOptions {
  std::size_t timeline_points = 2000;
  std::size_t timeline_layers = 12;  // told apart in the timeline; the others are one
  std::size_t reuse_candidates = 20;
};

RecordingAnalysis analyze_recording(recording::Recording& recording, const AnalysisOptions& options);

// What was live at a moment.
struct LiveMoment {
  Nanoseconds time;
  std::optional<Nanoseconds> until;  // where somebody knows that nothing changed up to and with then
  std::int64_t bytes = 0, blocks = 0;
  std::vector<std::int64_t> bytes_by_stack;   // [StackId]
  std::vector<std::int64_t> bytes_by_layer;   // [index of RecordingAnalysis::layers], without inner layers
  std::vector<std::int64_t> bytes_by_thread;  // [ThreadIndex]
  std::vector<std::int64_t> bytes_by_class;   // [bits of the size]: 0, 1, 2 to 3, 4 to 7, …
};

// The state after the last event at or before each of these times, which ascend. One more pass. Of moments
// that were chosen for what was live, half B of the samples is to be asked: it had no say in the choice.
std::vector<LiveMoment> live_at(recording::Recording& recording, std::span<const Nanoseconds> times,
                                SampleHalf half = SampleHalf::both);

}  // namespace headroom::attribution
