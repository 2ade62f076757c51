// Memory of a PyTorch model by layer, from inside the program: which module's tensors held how much, what the
// device held in all while a layer ran, and what of it were weights, activations, gradients or scratch.
//
//   headroom::MemoryTracer tracer;
//   {
//     auto trace = tracer.trace(module);           // torch::nn::Module or torch::jit::Module
//     module.forward(inputs);
//   }
//   tracer.print_summary();
//
// Events come from PyTorch's allocators themselves. Everything here may be called from any thread. Failures
// are exceptions of the standard library with one sentence. docs/memory-tracer.md defines each figure.
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
  std::size_t max_events = 100'000;  // the newest are kept; figures count all
  // "cpu", "cuda:N" or "cuda" (cuda:0): which device's figures are given where none is named. All are traced.
  std::string device = "cuda:0";
  bool enable_fragmentation_tracking = true;
  std::string record_to;  // a recording (.hrec) that survives the process; empty: none
};

struct LayerMemoryStats {
  std::string layer_name;
  std::int64_t peak_allocated = 0;       // most bytes allocated on the device in all while the layer ran
  std::int64_t peak_reserved = 0;        // the same of what the allocator had reserved
  std::int64_t total_allocations = 0;    // made in the layer itself, not in those inside it
  std::int64_t total_deallocations = 0;  // the same
  double avg_fragmentation = 0;          // 0 to 1, over the layer's own events
  double duration_ms = 0;                // of all its calls, with the layers inside it; the host's time
  // Beyond the reference's fields:
  std::int64_t calls = 0;
  std::int64_t allocated_bytes = 0;  // in all, in the layer itself
  std::int64_t live_bytes = 0;       // of these, not yet released
  std::int64_t at_peak_bytes = 0;    // of these, live when the device's total was highest
};

struct MemoryEvent {
  double timestamp = 0;    // seconds since the first trace began
  std::string event_type;  // "alloc", "free", "snapshot", "layer_enter", "layer_exit"
  std::int64_t size_bytes = 0;
  std::string layer_name;  // empty outside of any layer
  std::int64_t allocated_bytes = 0, reserved_bytes = 0;
  double fragmentation_ratio = 0;
};

// Bytes by what they are for. docs/memory-tracer.md says how each is told.
struct MemoryByUse {
  std::int64_t weights = 0, activations = 0, gradients = 0, optimizer_state = 0, workspace = 0, other = 0;
};

// A layer that keeps more with every trace().
struct MemoryGrowth {
  std::string layer_name;
  std::int64_t bytes_per_trace = 0;  // the median growth
  std::int64_t live_bytes = 0;
  std::int64_t traces = 0;  // over so many it grew without falling
};

class __attribute__((visibility("default"))) MemoryTracer {
 public:
  // Throws std::invalid_argument of a device that is none, std::runtime_error where record_to cannot be
  // written.
  explicit MemoryTracer(const MemoryTracerOptions& options = {});
  ~MemoryTracer();
  MemoryTracer(MemoryTracer&&) noexcept;
  MemoryTracer& operator=(MemoryTracer&&) noexcept;

  // What is allocated and released until the end of the block is traced. Traces may lie inside of each other
  // and be of several tracers.
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

  // A tensor that was there before: where it lies and on which device.
  struct Weight {
    const void* data;
    std::size_t bytes;
    int device;  // -1: the CPU, else the number of the CUDA device
  };
  [[nodiscard]] Trace trace(const std::vector<Weight>& weights);
  // Of a torch::nn::Module or torch::jit::Module: its parameters and buffers are weights.
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

  // The calling thread works for this layer until the end of the block, inside of that which it worked for.
  // "backbone.conv1"; the same name is the same layer.
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
  // Phases of training: what is allocated in them is gradients and state of the optimizer.
  [[nodiscard]] Layer backward() { return layer("backward"); }
  [[nodiscard]] Layer optimizer_step() { return layer("optimizer.step"); }

  // Of the tracer's device, or of another that is named as in MemoryTracerOptions. By the layer's name; those
  // that ran or allocated.
  std::map<std::string, LayerMemoryStats> get_layer_stats(std::string_view device = {}) const;
  std::map<std::string, std::int64_t> get_peak_memory_per_layer(std::string_view device = {}) const;
  // Empty without enable_fragmentation_tracking.
  std::map<std::string, double> get_fragmentation_stats(std::string_view device = {}) const;
  // The newest max_events, of all devices.
  std::vector<MemoryEvent> get_events() const;

  std::int64_t peak_allocated(std::string_view device = {}) const;
  std::int64_t allocated(std::string_view device = {}) const;
  // Who held the peak: layers, "(before the trace)" and "(outside of layers)". The sum is peak_allocated().
  std::map<std::string, std::int64_t> get_memory_at_peak(std::string_view device = {}) const;
  MemoryByUse get_memory_by_use(std::string_view device = {}) const;  // at the peak, to which it adds up
  // What was kept by each of the last traces, the largest growth first: a leak for each object, say. Empty
  // before five traces have ended.
  std::vector<MemoryGrowth> get_growth(std::string_view device = {}) const;

  // JSON for https://www.speedscope.app: bytes at the peak, bytes allocated, and layers over time.
  void export_flame_graph(const std::string& path) const;
  // {"events": […], "layer_stats": {…}, "summary": {…}}
  void export_timeline(const std::string& path) const;
  void print_summary() const;  // on standard output
  std::string summary() const;

 private:
  friend struct MemoryTracerAccess;
  std::shared_ptr<memory_tracer::Session> session_;
};

}  // namespace headroom
