// What a recording says of GPUs: for each device what was live, by kind of memory, layer and stack, when it
// was most, and which requests a limit refused, with who held the rest then.
//
// The driver's allocations are recorded each, so nothing here is estimated. A device's total is what takes up
// its memory: virtual addresses, imported memory (its exporter's) and, on a GPU of its own, pinned memory of
// the machine have lines of their own and are never added to it. Neither are figures: what pools keep beyond
// what is in use, and what was found by difference (contexts, modules).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attribution/device_curve.h"
#include "attribution/layer_tree.h"
#include "attribution/live_counter.h"
#include "base/units.h"
#include "recording/format.h"
#include "types/device_memory.h"
#include "types/memory_event.h"

namespace headroom::attribution {

struct DeviceKindFigures {
  DeviceMemoryKind kind = DeviceMemoryKind::device;
  bool in_total = false;           // it takes up the device's memory
  std::int64_t at_peak_bytes = 0;  // when the device's total was most
  std::int64_t peak_bytes = 0;     // the most of this kind, whenever that was
  std::int64_t end_bytes = 0, end_blocks = 0;
  std::int64_t allocations = 0, releases = 0, allocated_bytes = 0;
};

struct DeviceShare {
  std::uint32_t index = 0;  // of StackId, or of RecordingAnalysis::layers
  std::int64_t at_peak_bytes = 0, end_bytes = 0;
  std::int64_t allocations = 0, allocated_bytes = 0;
};

struct DeviceHolder {
  StackId stack;
  std::int64_t bytes = 0;
};

// What a process was charged of the limit: what it holds in whole granules, and what its pools and graphs
// keep.
struct DeviceProcess {
  std::int64_t pid = 0;  // 0: the process of the recording itself
  std::int64_t bytes = 0;
  bool is_elsewhere = false;  // the number is of another PID namespace: a container's
  std::string name = {};      // the kernel's; empty: not known
};

struct DeviceRefusal {
  Nanoseconds time;
  DeviceMemoryKind kind = DeviceMemoryKind::device;
  std::int64_t bytes = 0;    // that were asked for
  std::int64_t charged = 0;  // of the limit, by all processes that share it
  std::int64_t limit = 0;
  std::int64_t own_bytes = 0;       // what this process had then,
  std::int64_t rounding_bytes = 0;  // and that the driver gave beyond that, by rounding_of()
  StackId stack;
  LayerIndex layer = 0;
  std::vector<DeviceHolder> holders;  // the largest of this process, at most kMostHolders
  // This one, and the largest others a moment later, so that they need not sum up to `charged`. Empty: a
  // recording of an earlier version.
  std::vector<DeviceProcess> processes;
};
inline constexpr std::size_t kMostHolders = 5, kMostRefusalsKept = recording::kMostRefusalsWithHolders;

// What held the rest of a limit that refused: not the allocations of the process that asked, nor their
// rounding.
struct DeviceRest {
  std::int64_t kept = 0;  // by the process' pools and graphs, and in granules that small ones share
  std::vector<DeviceProcess> others;  // other processes, the largest first
  // Of which the recording tells nothing: all of it where it names no process; more processes, where it names
  // as many as it can; else what was given back before they were asked for.
  std::int64_t unknown = 0;
  bool names_none = false, has_more_processes = false;
};
DeviceRest rest_of(const DeviceRefusal& refusal);

struct DeviceFigures {
  std::uint32_t ordinal = 0;
  std::int64_t peak_bytes = 0, end_bytes = 0;
  Nanoseconds peak_time;
  std::int64_t unknown_releases = 0;
  std::optional<std::int64_t> pool_reserved_peak_bytes, pool_reserved_end_bytes;  // as drivers tell
  std::optional<std::int64_t> graph_reserved_peak_bytes;
  std::optional<std::int64_t> overhead_bytes;       // of modules, by difference, the most
  std::optional<std::int64_t> context_bytes;        // by difference, the most
  std::optional<std::int64_t> driver_growth_bytes;  // by difference, the most
  std::int64_t rounding_at_peak_bytes = 0;          // that the driver gave beyond the total, by rounding_of()
  std::vector<DeviceKindFigures> kinds;             // those that occur
  std::vector<DeviceShare> layers, stacks;          // of the total; most at the peak first
  std::int64_t refused_count = 0, refused_bytes = 0;
  std::vector<DeviceRefusal> refusals;  // the first
  DeviceCurve curve;                    // of the total
};

// When the device that held most held it; the start where there is none.
Nanoseconds peak_time_of(const std::vector<DeviceFigures>& devices);

// "device", "array", …: as in JSON.
std::string_view name_of(DeviceMemoryKind kind);

class DeviceLedgers {
 public:
  // Without a curve over time.
  DeviceLedgers() = default;
  DeviceLedgers(std::size_t curve_points, Nanoseconds expected_duration)
      : curve_points_(curve_points), expected_duration_(expected_duration) {}

  // Before the device's first event. `granule_bytes` of 0: the usual ones.
  void describe(std::uint32_t ordinal, bool is_integrated, std::uint64_t granule_bytes);
  void visit(const MemoryEvent& event, LayerIndex layer, std::int64_t time);
  // As of now: what takes up the device's memory, and what is live at an address (0: unknown).
  std::int64_t total_of(std::uint32_t ordinal) const;
  std::int64_t live_at(std::uint32_t ordinal, DeviceMemoryKind kind, std::uint64_t address) const;
  std::vector<DeviceFigures> finish() const;

 private:
  struct Block {
    std::int64_t size = 0;
    StackId stack;
    LayerIndex layer = 0;
  };
  struct Account {
    LiveCounter live;
    std::int64_t allocations = 0, allocated_bytes = 0;
  };
  struct Memory {
    bool is_integrated = false;
    std::uint64_t granule_bytes = kUsualGranule;
    bool charges_granules = true;  // a limit: the driver told them
  };
  struct Device {
    Memory memory;
    Mark peak_mark = 1;
    DeviceFigures figures;
    std::int64_t total = 0;
    LiveCounter rounding;
    std::optional<DeviceCurveBuilder> curve;
    DeviceKindFigures kinds[kDeviceMemoryKinds];
    LiveCounter kind_live[kDeviceMemoryKinds];
    std::map<std::pair<DeviceMemoryKind, std::uint64_t>, Block> blocks;
    std::map<std::uint32_t, Account> layers, stacks;
    std::map<ThreadIndex, std::size_t>
        last_refusals;  // the place in figures.refusals; of those not kept none
  };
  Device& device(std::uint32_t ordinal);
  void allocate(Device& device, const MemoryEvent& event, LayerIndex layer, std::int64_t time);
  void remove(Device& device, DeviceMemoryKind kind, const Block& block, std::int64_t time);
  static void change_rounding(Device& device, DeviceMemoryKind kind, std::int64_t block_bytes, int by);
  static void change_total(Device& device, std::int64_t by, std::int64_t time);
  void refuse(Device& device, const MemoryEvent& event, LayerIndex layer, std::int64_t time);
  static void add_process(Device& device, const MemoryEvent& event);
  static void set_figure(Device& device, const MemoryEvent& event);

  std::size_t curve_points_ = 0;
  Nanoseconds expected_duration_;
  std::map<std::uint32_t, Memory> described_;
  std::map<std::uint32_t, Device> devices_;
};

}  // namespace headroom::attribution
