// Traces the memory of a PyTorch model by layer, from inside the program. It reports the memory of each
// module's tensors and the device's peak while a layer ran. It divides the total peak into weights,
// activations, gradients, optimizer state and scratch memory.
//
//   headroom::MemoryTracer tracer;
//   {
//     auto trace = tracer.trace(module);           // torch::nn::Module or torch::jit::Module
//     module.forward(inputs);
//   }
//   tracer.print_summary();
//
// The events come from PyTorch's own allocators. All functions may be called from any thread. Failures are
// exceptions of the standard library with a one-sentence message. docs/memory-tracer.md defines each
// figure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace headroom {

namespace memory_tracer {
class Session;
}

struct MemoryTracerOptions {
  std::size_t max_events = 100'000;  // only the newest events are kept; the figures count all
  // The device whose figures are returned if a call names none: "cpu", "cuda:N" or "cuda" (cuda:0). All
  // devices are traced.
  std::string device = "cuda:0";
  bool enable_fragmentation_tracking = true;
  std::string record_to;  // path of a recording (.hrec), which survives a crash; empty: none
};

struct LayerMemoryStats {
  std::string layer_name;
  std::int64_t peak_allocated = 0;       // bytes: largest total allocated on the device while the layer ran
  std::int64_t peak_reserved = 0;        // bytes: largest total reserved by the allocator meanwhile
  std::int64_t total_allocations = 0;    // in the layer itself, without its inner layers
  std::int64_t total_deallocations = 0;  // in the layer itself, without its inner layers
  double avg_fragmentation = 0;          // 0 to 1; mean over the layer's own events
  double duration_ms = 0;                // host time of all calls, including inner layers
  // Further fields, which older memory tracers do not have:
  std::int64_t calls = 0;
  std::int64_t allocated_bytes = 0;  // sum of all allocations in the layer itself
  std::int64_t live_bytes = 0;       // the part that is still allocated
  std::int64_t at_peak_bytes = 0;    // the part that was live at the device's peak
};

struct MemoryEvent {
  double timestamp = 0;    // seconds since the first trace began
  std::string event_type;  // "alloc", "free", "snapshot", "layer_enter", "layer_exit"
  std::int64_t size_bytes = 0;
  std::string layer_name;  // empty outside of all layers
  std::int64_t allocated_bytes = 0, reserved_bytes = 0;
  double fragmentation_ratio = 0;
};

// Bytes by use. docs/memory-tracer.md explains how a use is recognised.
struct MemoryByUse {
  std::int64_t weights = 0, activations = 0, gradients = 0, optimizer_state = 0, workspace = 0, other = 0;
};

// A layer whose live memory grows with every trace().
struct MemoryGrowth {
  std::string layer_name;
  std::int64_t bytes_per_trace = 0;  // median growth
  std::int64_t live_bytes = 0;
  std::int64_t traces = 0;  // number of traces over which it grew without falling
};

class __attribute__((visibility("default"))) MemoryTracer {
 public:
  // Throws std::invalid_argument for an invalid device, and std::runtime_error if record_to cannot be
  // written.
  explicit MemoryTracer(const MemoryTracerOptions& options = {});
  ~MemoryTracer();
  MemoryTracer(MemoryTracer&&) noexcept;
  MemoryTracer& operator=(MemoryTracer&&) noexcept;

  // Traces all allocations and frees until the object is destroyed. Traces may nest, and may belong to
  // several tracers.
  class Trace {
   public:
    explicit Trace(std::shared_ptr<memory_tracer::Session> session);
    ~Trace();
    Trace(Trace&& other) noexcept = default;
    Trace& operator=(Trace&&) = delete;

   private:
    std::shared_ptr<memory_tracer::Session> session_;
  };
  [[nodiscard]] Trace trace();

  // A tensor that existed before the trace: its address, size and device.
  struct Weight {
    const void* data;
    std::size_t bytes;
    int device;  // -1: the CPU, else the CUDA device's number
  };
  [[nodiscard]] Trace trace(const std::vector<Weight>& weights);
  // Traces a torch::nn::Module or torch::jit::Module. Its parameters and buffers count as weights.
  template <class Module>
  [[nodiscard]] Trace trace(const Module& module) {
    std::vector<Weight> weights;
    const auto add = [&weights](const auto& tensors) {
      for (const auto& tensor : tensors)
        if (tensor.defined() && tensor.has_storage())
          weights.push_back({tensor.storage().data(), tensor.storage().nbytes(),
                             tensor.is_cuda() ? static_cast<int>(tensor.device().index()) : -1});
    };
    add(module.parameters());
    add(module.buffers());
    return trace(weights);
  }

  // Attributes the calling thread's allocations to this layer until the object is destroyed. Layers nest.
  // The same name ("backbone.conv1") means the same layer.
  class Layer {
   public:
    Layer(std::shared_ptr<memory_tracer::Session> session, std::string_view name);
    ~Layer();
    Layer(const Layer&) = delete;
    Layer& operator=(const Layer&) = delete;

   private:
    std::shared_ptr<memory_tracer::Session> session_;
  };
  [[nodiscard]] Layer layer(std::string_view name) { return {session_, name}; }
  // Phases of training. Allocations in them count as gradients and optimizer state.
  [[nodiscard]] Layer backward() { return layer("backward"); }
  [[nodiscard]] Layer optimizer_step() { return layer("optimizer.step"); }

  // Figures by layer name, of all layers that ran or allocated. `device` is a name as in
  // MemoryTracerOptions; empty: the tracer's device.
  std::map<std::string, LayerMemoryStats> get_layer_stats(std::string_view device = {}) const;
  std::map<std::string, std::int64_t> get_peak_memory_per_layer(std::string_view device = {}) const;
  // Empty without enable_fragmentation_tracking.
  std::map<std::string, double> get_fragmentation_stats(std::string_view device = {}) const;
  // The newest max_events events, of all devices.
  std::vector<MemoryEvent> get_events() const;

  std::int64_t peak_allocated(std::string_view device = {}) const;
  std::int64_t allocated(std::string_view device = {}) const;
  // Bytes live at the peak, by layer, with "(before the trace)" and "(outside of layers)". The sum is
  // peak_allocated().
  std::map<std::string, std::int64_t> get_memory_at_peak(std::string_view device = {}) const;
  MemoryByUse get_memory_by_use(std::string_view device = {}) const;  // at the peak; the sum is the peak
  // Layers that kept memory in each of the last traces, largest growth first; for example a leak per
  // processed object. Empty until five traces have ended.
  std::vector<MemoryGrowth> get_growth(std::string_view device = {}) const;

  // JSON for https://www.speedscope.app: bytes at the peak, bytes allocated, and layers over time.
  void export_flame_graph(const std::string& path) const;
  // {"events": […], "layer_stats": {…}, "summary": {…}}
  void export_timeline(const std::string& path) const;
  void print_summary() const;  // to standard output
  std::string summary() const;

 private:
  friend struct MemoryTracerAccess;
  std::shared_ptr<memory_tracer::Session> session_;
};

}  // namespace headroom
