// The components that shall run on a device, and the memory that each needs: BUDGET.toml (docs/plan.md).
// Plain data.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "types/runtime_settings.h"

namespace headroom {

// Buffers of decoded or raw frames: width × height × channels × bytes per channel × count.
struct FrameBuffers {
  std::int64_t width = 0, height = 0;
  std::int64_t channels = 3;
  std::int64_t channel_bytes = 1;
  std::int64_t count = 1;
  Bytes bytes() const { return {width * height * channels * channel_bytes * count}; }
  friend bool operator==(const FrameBuffers&, const FrameBuffers&) = default;
};

// The origin of a figure. A measured figure was read from a run of headroom bench.
struct FigureOrigin {
  enum class Kind { stated, estimate, measured };
  Kind kind = Kind::stated;
  std::string source;  // "budget.toml:12", "RUN/footprints/yolo.json, measured 2026-11-22 on orin"
  friend bool operator==(const FigureOrigin&, const FigureOrigin&) = default;
};

// The memory that a component needs. Absent until known: `model` or `footprint` names a measurement.
struct MemoryNeed {
  std::optional<Bytes> load_peak, run_mean, run_peak;
  Bytes transient;  // additional memory while a frame is processed
  std::vector<FrameBuffers> frames;
  Bytes measured_frames;  // frames that the bench held; counted if `frames` is empty
  // File pages (the runtime's code) that all processes with the same runtime share. Of all components with
  // the same key, the largest value is counted, once.
  std::string shared_key;
  Bytes shared;
  // Charged to the bench's control group beyond the process's pages: page tables and other kernel memory.
  // Included in load_peak, run_mean and run_peak.
  Bytes kernel;
  // Measured GPU memory that the figures above do not contain. They are host memory, or the GPU is integrated
  // and they contain only a part of it.
  Bytes gpu_apart;
  std::string model, footprint;
  FigureOrigin origin;
  std::int64_t line = 0;  // in the budget file

  Bytes frame_bytes() const {
    if (frames.empty()) return measured_frames;
    Bytes sum;
    for (const FrameBuffers& buffers : frames) sum += buffers.bytes();
    return sum;
  }
  // Sizes including buffers are at most 1 PiB, so that sums of hundreds of components fit the type.
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

// An alternative configuration of the component, {"precision": "int8"}, with its memory need.
struct BudgetVariant {
  std::map<std::string, std::string> settings;
  MemoryNeed need;
  std::string notes;
  friend bool operator==(const BudgetVariant&, const BudgetVariant&) = default;
};

struct BudgetComponent {
  std::string name, notes;
  std::map<std::string, std::string> settings;  // current settings: precision, backend, input, batch
  MemoryNeed need;
  std::vector<BudgetVariant> variants;
  bool is_system = false;  // part of the operating system: replaces the device's default figures
  bool is_required = false;
  bool is_lazy = false;            // loaded on demand and freed; those without a group never run together
  double value = 1;                // importance when not all components fit
  std::string group;               // members never run at the same time
  std::string pipeline;            // its components run one after another: one transient at a time
  std::vector<std::string> after;  // these start first
  std::vector<std::string> needs;  // these start first, and this component is useless without them
  std::int64_t line = 0;
  friend bool operator==(const BudgetComponent&, const BudgetComponent&) = default;
};

// A board or a GPU, and how much of its memory can be planned.
struct DeviceProfile {
  std::string id{}, name{};   // "orin-nx-16gb", "Jetson Orin NX 16 GB"
  Bytes total{};              // as the kernel or the driver reports it
  Bytes system{}, desktop{};  // used before any component starts
  bool is_gpu = false;        // a GPU with dedicated memory
  std::string source{};       // source of the figure `total`
  // The limit belongs to a control group. The kernel charges it for a process's own pages, and for file pages
  // only if they were not in the page cache before. It reclaims those file pages when memory is short.
  bool is_control_group = false;
  friend bool operator==(const DeviceProfile&, const DeviceProfile&) = default;
};

struct BudgetRules {
  double most_used = 0.85;      // the largest share of the total that may be used, 0 to 1
  Bytes buffer{2'000'000'000};  // must stay free
  double healthy_used = 0.75;   // below this share there is space for growth
  friend bool operator==(const BudgetRules&, const BudgetRules&) = default;
};

// together: all components load at once, and none runs before all are loaded. without_waiting: each runs as
// soon as it is loaded.
enum class StartMode { in_order, together, without_waiting };

struct Budget {
  std::string name;  // of the file
  std::string title;
  bool is_decimal = false;  // show sizes in MB and GB (powers of 1000)
  DeviceProfile device;     // empty id and total: no device was named
  bool has_desktop = true;
  BudgetRules rules;
  StartMode start = StartMode::in_order;
  std::vector<BudgetComponent> components;  // in start order
  friend bool operator==(const Budget&, const Budget&) = default;
};

// The memory that one model needs, for planning: footprints/NAME.json.
// GPU memory of the model: by the ledger, and by the driver for the whole process (context, modules) if NVML
// reports it.
struct FootprintGpu {
  std::string device, name;  // "cuda:0", "NVIDIA H200"
  Bytes load_peak, run_peak;
  bool is_integrated = false;  // its memory is host memory
  friend bool operator==(const FootprintGpu&, const FootprintGpu&) = default;
};

// Bytes beyond the bare runtime (resident after the runtime is loaded, before the model), without the decoded
// frames that the bench holds. The runtime is counted once per process, so it has its own field.
struct Footprint {
  std::string name, path, model_fingerprint, backend, backend_version, input, host;
  Bytes runtime;    // the bare runtime, once per process
  Bytes loaded;     // loaded − runtime
  Bytes load_peak;  // load_peak − runtime
  Bytes run_mean;   // run_mean − runtime − frames
  Bytes run_peak;   // run_peak − runtime − frames
  Bytes frames;     // decoded frames that the bench held
  // File pages while the model ran, included in the figures above and in the runtime's. Mostly code of the
  // runtime, which processes with the same runtime share.
  std::optional<Bytes> file_backed;
  // Peak that the kernel charged to the worker's control group. Includes page tables; includes file pages
  // only if they were not in the page cache before.
  std::optional<Bytes> charged_peak;
  std::optional<FootprintGpu> gpu;  // the first GPU if there are several; absent on the CPU
  RuntimeSettings settings;
  std::string measured_at;
  friend bool operator==(const Footprint&, const Footprint&) = default;
};

}  // namespace headroom
