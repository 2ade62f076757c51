// GPU memory in a recording. For each device: live memory by kind, layer and stack, its peak, and requests
// that a limit refused, with the holders of the memory at that time.
//
// All allocations of the driver are recorded, so nothing is estimated. A device's total is what uses its
// memory. Virtual addresses, imported memory (which belongs to its exporter) and, on a discrete GPU, pinned
// host memory are separate and never added to it. The total also excludes figures: unused memory of pools,
// and memory that was measured as a difference (contexts, modules).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attribution/layer_tree.h"
#include "attribution/live_map.h"
#include "base/units.h"
#include "recording/format.h"
#include "recording/recording.h"
#include "types/memory_event.h"

namespace headroom::attribution {

// Memory of a device over time. The number of points is limited. A point keeps its lowest and highest moment,
// so no peak is lost, however long the recording is. A period without events has no point.
struct DeviceCurvePoint {
  Nanoseconds start;
  std::int64_t lowest = 0, highest = 0, last = 0;  // bytes
};

struct DeviceCurve {
  Nanoseconds width;                     // duration of a point
  std::vector<DeviceCurvePoint> points;  // ascending
};

class DeviceCurveBuilder {
 public:
  // If the recording is longer than expected, pairs of points are joined.
  DeviceCurveBuilder(std::size_t most_points, Nanoseconds expected_duration);

  // The bytes before and after this moment.
  void changed(std::int64_t time, std::int64_t before, std::int64_t now);
  const DeviceCurve& curve() const { return curve_; }

 private:
  void halve();

  std::int64_t most_points_;
  DeviceCurve curve_;  // a point starts at a multiple of the width
};

struct DeviceKindFigures {
  DeviceMemoryKind kind = DeviceMemoryKind::device;
  bool in_total = false;           // uses the device's memory
  std::int64_t at_peak_bytes = 0;  // at the peak of the device's total
  std::int64_t peak_bytes = 0;     // the peak of this kind
  std::int64_t end_bytes = 0, end_blocks = 0;
  std::int64_t allocations = 0, releases = 0, allocated_bytes = 0;
};

struct DeviceShare {
  std::uint32_t index = 0;  // a StackId, or an index of RecordingAnalysis::layers
  std::int64_t at_peak_bytes = 0, end_bytes = 0;
  std::int64_t allocations = 0, allocated_bytes = 0;
};

struct DeviceHolder {
  StackId stack;
  std::int64_t bytes = 0;
};

// The part of the limit that a process was charged: its memory in whole granules, and what its pools and
// graphs keep.
struct DeviceProcess {
  std::int64_t pid = 0;  // 0: the process of the recording itself
  std::int64_t bytes = 0;
  bool is_elsewhere = false;  // the number belongs to another PID namespace, such as a container's
  std::string name = {};      // from the kernel; empty if unknown
};

struct DeviceRefusal {
  Nanoseconds time;
  DeviceMemoryKind kind = DeviceMemoryKind::device;
  std::int64_t bytes = 0;    // requested
  std::int64_t charged = 0;  // charged to all processes that share the limit
  std::int64_t limit = 0;
  std::int64_t own_bytes = 0;       // memory of this process,
  std::int64_t rounding_bytes = 0;  // and the driver's rounding of it (rounding_of())
  StackId stack;
  LayerIndex layer = 0;
  std::vector<DeviceHolder> holders;  // the largest stacks of this process, at most kMostHolders
  // This process and the largest others. They were read a moment later, so they need not add up to `charged`.
  // Empty in a recording of an earlier version.
  std::vector<DeviceProcess> processes;
};
inline constexpr std::size_t kMostHolders = 5, kMostRefusalsKept = recording::kMostRefusalsWithHolders;

// The rest of a limit that refused a request: without the allocations of the requesting process and their
// rounding.
struct DeviceRest {
  std::int64_t kept = 0;              // by the process's pools and graphs, and in shared granules
  std::vector<DeviceProcess> others;  // other processes, the largest first
  // Without a known holder: everything if no process is recorded; further processes if the recording has the
  // maximum; otherwise memory that was freed before the processes were read.
  std::int64_t unknown = 0;
  bool names_none = false, has_more_processes = false;
};
DeviceRest rest_of(const DeviceRefusal& refusal);

struct DeviceFigures {
  std::uint32_t ordinal = 0;
  std::int64_t peak_bytes = 0, end_bytes = 0;
  Nanoseconds peak_time;
  std::int64_t unknown_releases = 0;
  std::optional<std::int64_t> pool_reserved_peak_bytes, pool_reserved_end_bytes;  // from the driver
  std::optional<std::int64_t> graph_reserved_peak_bytes;
  std::optional<std::int64_t> overhead_bytes;       // of modules, as a difference; the maximum
  std::optional<std::int64_t> context_bytes;        // as a difference; the maximum
  std::optional<std::int64_t> driver_growth_bytes;  // as a difference; the maximum
  std::int64_t rounding_at_peak_bytes = 0;          // by rounding_of()
  std::vector<DeviceKindFigures> kinds;             // kinds that occur
  std::vector<DeviceShare> layers, stacks;          // of the total; largest at the peak first
  std::int64_t refused_count = 0, refused_bytes = 0;
  std::vector<DeviceRefusal> refusals;  // the first
  DeviceCurve curve;                    // of the total
};

// The time of the largest peak; 0 without devices.
Nanoseconds peak_time_of(const std::vector<DeviceFigures>& devices);

// "device", "array", …: the names in JSON.
std::string_view name_of(DeviceMemoryKind kind);

class DeviceLedgers {
 public:
  // `curve_points` 0: without a curve.
  explicit DeviceLedgers(const recording::RecordingInfo& info, std::size_t curve_points = 0);

  void visit(const MemoryEvent& event, LayerIndex layer, std::int64_t time);
  // Now: the device's total, and the live bytes at an address (0: unknown).
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
  struct Kind : DeviceKindFigures {
    LiveCounter live;
  };
  struct Memory {
    bool is_integrated = false;
    std::uint64_t granule_bytes = kUsualGranule;
    bool charges_granules = true;  // a limit counts granules: the driver reported their size
  };
  struct Device {
    Memory memory;
    Mark peak_mark = 1;
    DeviceFigures figures;
    std::int64_t total = 0;
    LiveCounter rounding;
    std::optional<DeviceCurveBuilder> curve;
    Kind kinds[kDeviceMemoryKinds];
    std::map<std::pair<DeviceMemoryKind, std::uint64_t>, Block> blocks;
    std::map<std::uint32_t, Account> layers, stacks;
    std::map<ThreadIndex, std::size_t> last_refusals;  // index in figures.refusals, if it was kept
  };
  Device& device(std::uint32_t ordinal);
  void allocate(Device& device, const MemoryEvent& event, LayerIndex layer, std::int64_t time);
  void remove(Device& device, DeviceMemoryKind kind, const Block& block, std::int64_t time);
  static void change_rounding(Device& device, DeviceMemoryKind kind, std::int64_t block_bytes, int by);
  static void change_total(Device& device, std::int64_t by, std::int64_t time);
  void refuse(Device& device, const MemoryEvent& event, LayerIndex layer, std::int64_t time);
  static void add_process(Device& device, const MemoryEvent& event);
  static void set_figure(Device& device, const MemoryEvent& event);

  std::size_t curve_points_;
  Nanoseconds expected_duration_;
  std::map<std::uint32_t, Memory> described_;
  std::map<std::uint32_t, Device> devices_;
};

}  // namespace headroom::attribution
