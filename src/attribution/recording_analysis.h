// Analyzes a recording: which stacks, layers and threads allocate, what is live at the peak and at the end,
// leaks and fragmentation.
//
//   auto recording = Recording::open(path);
//   const RecordingAnalysis analysis = analyze_recording(*recording, {});
//
// The analysis makes one pass over the events, ordered by time. Its memory grows with the live allocations at
// the peak (live_map.h), the distinct stacks and the layers, not with the number of events.
// docs/trace-report.md defines all figures.
//
// A recording in default mode has each large allocation, and small ones as exact counters and samples. Counts
// are exact. Live small memory is estimated from the samples, with a standard error. Figures at the peak come
// from half of the samples (sampled_peak.h), figures at a given moment, such as the end, from all of them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "attribution/cycle_leaks.h"
#include "attribution/device_memory.h"
#include "attribution/heap_fragmentation.h"
#include "attribution/live_map.h"
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
  // An upper limit, if all small allocations together are less than one sample represents.
  std::optional<std::int64_t> at_most = {};
  bool at_least = false;  // memory from before the first event of an overwritten ring is missing
};

// Live memory of one stack, layer, size class or thread. In a recording of samples it is estimated.
struct LiveFigures {
  std::int64_t peak_bytes = 0, peak_blocks = 0;  // at the peak of the whole heap
  std::int64_t end_bytes = 0, end_blocks = 0;
  // Variances of the estimated bytes. They add up as the bytes do.
  double peak_variance = 0, end_variance = 0;

  void add(const LiveFigures& other) {
    add_wrapping(peak_bytes, other.peak_bytes);
    add_wrapping(peak_blocks, other.peak_blocks);
    add_wrapping(end_bytes, other.end_bytes);
    add_wrapping(end_blocks, other.end_blocks);
    peak_variance += other.peak_variance;
    end_variance += other.end_variance;
  }
  // Absent if the bytes are exact.
  std::optional<double> peak_standard_error() const { return standard_error_of(peak_variance); }
  std::optional<double> end_standard_error() const { return standard_error_of(end_variance); }
};

struct StackFigures {
  StackId stack;
  std::int64_t allocations = 0, allocated_bytes = 0;  // estimated for samples
  std::int64_t temporary = 0;                         // full recordings only
  LiveFigures live;
  std::int64_t outside_peak_bytes = 0;           // the part of live.peak_bytes that belongs to no layer
  double outside_peak_variance = 0;              // as in `live`
  std::int64_t most_blocks = 0, most_bytes = 0;  // at the stack's own peaks
  std::optional<std::int64_t> block_bytes;       // the size of its allocations, if all are equal
  bool sampled = false;                          // some figures are estimates
};

// A layer, identified by its path. Figures include the inner layers, except for `self`.
struct LayerFigures {
  std::string path;  // "session/Run/conv1"; empty: outside all layers
  std::string key;   // identifies the layer in other recordings (layer_tree.h)
  std::optional<std::size_t> parent;
  recording::ScopeSource source = recording::ScopeSource::program;
  std::int64_t entries = 0;
  Nanoseconds duration;                        // from enter to leave, over all entries and threads
  std::int64_t peak_allocated = 0;             // most live bytes
  std::int64_t peak_reserved = 0;              // the same with the allocator's headers and rounding
  double average_fragmentation = 0;            // (reserved − allocated) / reserved, over its allocations
  std::int64_t process_peak = 0;               // most live bytes of the process while the layer ran
  std::int64_t allocations = 0, releases = 0;  // made in the layer; exact
  std::int64_t allocated_bytes = 0;            // exact
  // False for a graph's node in a recording of samples: counters exist only for its whole run, so the three
  // figures above cover only individually recorded allocations.
  bool counts_known = true;
  LiveFigures live;  // with the inner layers
  LiveFigures self;  // without them: these add up to the heap
  // The part of self.peak_bytes that existed only because of tracing: a runtime's profile, which the tracer
  // switched on and ended.
  std::int64_t tracing_peak_bytes = 0;
  bool of_session = false;  // a session of `sessions` is loaded or runs in it
};

// Live bytes, at the heap's peak, of a session whose runtime wrote a profile.
struct SessionAtPeak {
  Bytes loaded;   // allocated while it was loaded
  Bytes run;      // allocated in its runs (arena and others), without the profile
  Bytes tracing;  // the profile, which only tracing switches on
  Bytes later;    // part of `run`: allocated in runs after the profiled ones
  // Chunks that the runtime's arena allocated from the system: during the load (part of `loaded`), and in
  // profiled and later runs (parts of `run`). Absent if they are not known (find_arena_stacks()).
  struct ArenaChunks {
    Bytes loaded, run, later;
  };
  std::optional<ArenaChunks> arena;
};

struct SizeClassFigures {
  std::uint64_t smallest = 0, largest = 0;  // sizes in the class
  std::int64_t allocations = 0, allocated_bytes = 0;
  LiveFigures live;
};

struct ThreadFigures {
  ThreadIndex thread;
  std::int64_t allocations = 0, releases = 0, allocated_bytes = 0;  // exact
  LiveFigures live;                                                 // of the thread's allocations
};

// Memory that the program mapped itself; never added to the heap. Exact, in whole pages, touched or not.
struct MappedFigures {
  std::int64_t maps = 0, unmaps = 0;
  std::int64_t mapped_bytes = 0;               // total, as requested
  std::int64_t peak_bytes = 0, end_bytes = 0;  // most mapped at once, and at the end
  Nanoseconds peak_time;                       // the first moment of peak_bytes
  std::int64_t bytes_at_heap_peak = 0;
  // Addresses reserved without access: not included above until the program makes them accessible.
  std::int64_t reserved_peak_bytes = 0, reserved_end_bytes = 0;
  // Each list adds up to peak_bytes and end_bytes; the largest first. Layers are without inner layers.
  std::vector<MappingShare> stacks, layers;
};

// Allocations that lived at least half of `below`, and less than `below`.
struct LifetimeClass {
  Nanoseconds below;
  std::int64_t blocks = 0, bytes = 0;
};

// A stack that allocates again and again, where a pool or a kept buffer would save the allocations.
struct ReuseCandidate {
  StackId stack;
  std::int64_t calls_saved = 0;        // allocations beyond those live at once
  std::int64_t bytes_not_churned = 0;  // all allocated bytes minus the pool
  // Blocks and bytes that the pool needs. Absent for samples: a place with one live block of 400 bytes seems
  // to have a whole period (256 KiB) of them whenever the block is a sample.
  std::optional<std::int64_t> most_blocks, pool_bytes;
  double calls_saved_per_second = 0;
};

struct RecordingAnalysis {
  // False: GPU memory only. Then figures of the heap, mappings and leaks are empty, which means unknown, not
  // zero. Layers have entries and times, and devices have all figures.
  bool host_recorded = true;
  bool full = false;      // every allocation was recorded
  bool complete = false;  // the program ended itself; no gaps, no damage, nothing overwritten
  std::vector<std::string> problems;
  Nanoseconds duration;

  std::int64_t events = 0;  // records read
  std::int64_t allocations = 0, deallocations = 0,
               total_allocated_bytes = 0;                         // exact for a complete recording
  std::int64_t sampled_allocations = 0, counted_allocations = 0;  // of those
  std::int64_t unknown_releases = 0;  // of blocks from before the recording or from a gap
  // At least this many released blocks lack an allocation record for no known reason (no fork, no lost
  // events). In a recording of samples: the releases beyond the number of allocations.
  std::int64_t unseen_blocks = 0;
  std::int64_t missed_releases = 0;  // an address was reused without a recorded release
  std::int64_t gaps = 0, dropped_events = 0;

  Figure peak_bytes;
  Nanoseconds peak_time;
  Figure peak_blocks;
  // Live at the end. The number of blocks is exact if the process released only blocks of this recording; a
  // forked child also releases its parent's blocks.
  Figure leaked_bytes, leaked_blocks;
  std::optional<std::int64_t> temporary;  // released by the thread's next event
  MappedFigures mapped;

  std::vector<StackFigures> stacks;            // [i] is StackId{i}; 0 is "no stack"
  std::vector<LayerFigures> layers;            // [0] is outside all layers; parents come first
  std::vector<SessionAtPeak> sessions;         // [i] is of RecordingInfo::profiles[i]
  std::vector<SizeClassFigures> size_classes;  // those that occur, ascending
  std::vector<ThreadFigures> threads;          // [i] is ThreadIndex{i}
  MemoryTimeline timeline;
  LeakVerdict leaks;
  std::vector<LifetimeClass> lifetimes;  // those that occur, ascending
  // Full recordings only, and only if all live blocks are known.
  std::optional<HeapFragmentation> fragmentation;
  std::vector<ReuseCandidate> reuse;   // largest saving first
  std::vector<DeviceFigures> devices;  // GPUs, by ordinal; never added to the heap
};

struct AnalysisOptions {
  std::size_t timeline_points = 2000;
  std::size_t timeline_layers = 12;  // separate layers in the timeline; the others are joined
  std::size_t reuse_candidates = 20;
  unsigned cores = 0;  // for the pass over the events; 0: those that the process may use
};

RecordingAnalysis analyze_recording(recording::Recording& recording, const AnalysisOptions& options);

// Sets unseen_blocks and `complete`, and adds a problem for them. Everything else that these depend on is
// set.
void add_unseen_blocks(const recording::RecordingInfo& info, RecordingAnalysis& analysis);

// Live memory at a moment.
struct LiveMoment {
  Nanoseconds time;
  std::optional<Nanoseconds> until;  // if known: nothing changes up to and including this time
  std::int64_t bytes = 0, blocks = 0;
  std::vector<std::int64_t> bytes_by_stack;   // [StackId]
  std::vector<std::int64_t> bytes_by_layer;   // [index of RecordingAnalysis::layers], without inner layers
  std::vector<std::int64_t> bytes_by_thread;  // [ThreadIndex]
  std::vector<std::int64_t> bytes_by_class;   // [bits of the size]: 0, 1, 2 to 3, 4 to 7, …
};

// The state after the last event at or before each of these times, which ascend. One pass. For moments that
// were chosen by what was live, use half B of the samples, which is independent of the choice. Defined in
// live_rows.cpp.
std::vector<LiveMoment> live_at(recording::Recording& recording, std::span<const Nanoseconds> times,
                                SampleHalf half = SampleHalf::both);

}  // namespace headroom::attribution
