// What is meant to run on a device, and what each part of it takes: BUDGET.toml (docs/plan.md). Plain data.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"

namespace headroom {

// Buffers of decoded or raw frames: width × height × channels × bytes of a channel × count.
struct FrameBuffers {
  std::int64_t width = 0, height = 0;
  std::int64_t channels = 3;
  std::int64_t channel_bytes = 1;
  std::int64_t count = 1;
  Bytes bytes() const { return {width * height * channels * channel_bytes * count}; }
  friend bool operator==(const FrameBuffers&, const FrameBuffers&) = default;
};

// Where a figure comes from. A measured one was read from a run of headroom bench.
struct FigureOrigin {
  enum class Kind { stated, estimate, measured };
  Kind kind = Kind::stated;
  std::string source;  // "budget.toml:12", "RUN/footprints/yolo.json, measured 2026-11-22 on orin"
  friend bool operator==(const FigureOrigin&, const FigureOrigin&) = default;
};

// What a component takes for itself. Absent until it is known: `model` or `footprint` names a measurement.
struct MemoryNeed {
  std::optional<Bytes> load_peak, run_mean, run_peak;
  Bytes transient;  // on top of the run while a frame is worked on
  std::vector<FrameBuffers> frames;
  Bytes measured_frames;  // that the bench held; counted where `frames` is empty
  // Pages of files (the runtime's code) that all processes with the same runtime have in common: of all
  // components with this key the largest is counted, once.
  std::string shared_key;
  Bytes shared;
  // A bench's group was charged so much more than the pages of its process: page tables and other things of
  // the kernel. Inside load_peak, run_mean and run_peak.
  Bytes kernel;
  // That a bench of it took of a GPU's memory, and that is not in the figures above: those are of the host,
  // or the GPU is the machine's and they have it only in part.
  Bytes gpu_apart;
  std::string model, footprint;
  FigureOrigin origin;
  std::int64_t line = 0;  // of the budget

  Bytes frame_bytes() const {
    if (frames.empty()) return measured_frames;
    Bytes sum;
    for (const FrameBuffers& buffers : frames) sum += buffers.bytes();
    return sum;
  }
  // No more than any memory has (1 PiB), buffers and all, so that sums of hundreds stay within the type.
  bool is_plausible() const {
    constexpr double kMost = 1125899906842624.0;
    double sum = static_cast<double>(transient.count) + static_cast<double>(measured_frames.count) +
                 static_cast<double>(shared.count);
    for (const auto& size : {load_peak, run_mean, run_peak})
      sum += static_cast<double>(size.value_or(Bytes{}).count);
    for (const FrameBuffers& each : frames)
      sum += static_cast<double>(each.width) * static_cast<double>(each.height) *
             static_cast<double>(each.channels) * static_cast<double>(each.channel_bytes) *
             static_cast<double>(each.count);
    return sum <= kMost;
  }
  friend bool operator==(const MemoryNeed&, const MemoryNeed&) = default;
};

// The same component otherwise: {"precision": "int8"} with what it takes then.
struct BudgetVariant {
  std::map<std::string, std::string> settings;
  MemoryNeed need;
  std::string notes;
  friend bool operator==(const BudgetVariant&, const BudgetVariant&) = default;
};

struct BudgetComponent {
  std::string name, notes;
  std::map<std::string, std::string> settings;  // precision, backend, input, batch: as it is now
  MemoryNeed need;
  std::vector<BudgetVariant> variants;
  bool is_system = false;  // of the system itself: takes the place of the device's own figures
  bool is_required = false;
  bool is_lazy = false;            // loaded on demand and freed; lazy components take turns
  double value = 1;                // of having it, where not all fit
  std::string group;               // members never run together
  std::string pipeline;            // its components work one after another: one transient at a time
  std::vector<std::string> after;  // started before it
  std::vector<std::string> needs;  // started before it, and it is nothing without them
  std::int64_t line = 0;
  friend bool operator==(const BudgetComponent&, const BudgetComponent&) = default;
};

// A board or a GPU, and what of its memory there is to plan with.
struct DeviceProfile {
  std::string id, name;   // "orin-nx-16gb", "Jetson Orin NX 16 GB"
  Bytes total;            // as the kernel or the driver counts it
  Bytes system, desktop;  // taken before anything is started
  bool is_gpu = false;    // a GPU with memory of its own
  std::string source;     // where `total` is told
  // The limit is a control group's. It is charged for a process' own pages, and for pages of files only where
  // they were not in the page cache before; those it gives back when it is short.
  bool is_control_group = false;
  friend bool operator==(const DeviceProfile&, const DeviceProfile&) = default;
};

struct BudgetRules {
  double most_used = 0.85;      // of the total
  Bytes buffer{2'000'000'000};  // that stays free
  double healthy_used = 0.75;   // up to here there is room for growth
  friend bool operator==(const BudgetRules&, const BudgetRules&) = default;
};

// together: all load at once, and wait for each other; without_waiting: each runs as soon as it is loaded.
enum class StartMode { in_order, together, without_waiting };

struct Budget {
  std::string name;  // of the file
  std::string title;
  bool is_decimal = false;  // sizes are shown in MB and GB of 1000
  DeviceProfile device;     // empty id and total: none was named
  bool has_desktop = true;
  BudgetRules rules;
  StartMode start = StartMode::in_order;
  std::vector<BudgetComponent> components;  // in the order in which they are started
  friend bool operator==(const Budget&, const Budget&) = default;
};

}  // namespace headroom
