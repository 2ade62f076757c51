// The accounting of one MemoryTracer: its layers, each device's live and peak memory, and the newest events.
// It does not depend on PyTorch. The caller must hold the lock of session.h.
//
// All figures are updated as events arrive, so none depends on how many events are stored. Each allocation
// can make a new peak, and copying every layer's bytes each time would be quadratic. So a layer saves its
// figure when it first changes after a peak (like attribution/live_map.h).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "types/address_map.h"

namespace headroom::memory_tracer {

// Maps forward operators to layers by their autograd sequence number.
//
// Within a thread, operators that need gradients have increasing numbers. So a layer corresponds to a range
// of numbers, from its entry to the entry of the next layer. In inference the numbers do not change, so the
// list does not grow.
class ForwardLayers {
 public:
  // From this number on, the thread is in `layer`.
  void note(std::uint64_t thread, std::uint64_t sequence, std::uint32_t layer) {
    std::vector<Range>& ranges = threads_[thread];
    if (!ranges.empty() && ranges.back().from >= sequence) {
      ranges.back() = {sequence, layer};
      return;
    }
    if (!ranges.empty() && ranges.back().layer == layer) return;
    if (ranges.size() == kMostRanges)
      ranges.erase(ranges.begin(), ranges.begin() + static_cast<std::ptrdiff_t>(kMostRanges / 2));
    ranges.push_back({sequence, layer});
  }

  std::optional<std::uint32_t> find(std::uint64_t thread, std::uint64_t sequence) const {
    const auto ranges = threads_.find(thread);
    if (ranges == threads_.end()) return std::nullopt;
    const auto after =
        std::upper_bound(ranges->second.begin(), ranges->second.end(), sequence,
                         [](std::uint64_t number, const Range& range) { return number < range.from; });
    if (after == ranges->second.begin()) return std::nullopt;
    return std::prev(after)->layer;
  }

 private:
  // A pass of a model with a thousand modules adds about two thousand ranges, so this keeps about the last
  // thirty passes.
  static constexpr std::size_t kMostRanges = 1 << 16;
  struct Range {
    std::uint64_t from;
    std::uint32_t layer;
  };
  std::unordered_map<std::uint64_t, std::vector<Range>> threads_;
};

// A position in TorchScript's interpreter.
struct ScriptPlace {
  bool is_in_module = false;       // the calling thread runs a module's code in the interpreter
  std::string root;                // the class of the outermost module
  std::vector<std::string> names;  // the modules inside it: {"layer1", "0", "conv1"}
};
// Parses "TOP(Net)::forward", "layer1(Sequential)::forward", "SELF(Net)::helper", "::relu".
ScriptPlace parse_script_place(const std::vector<std::string>& hierarchy);

using LayerId = std::uint32_t;
using ThreadId = std::uint32_t;  // dense; reused after a thread has ended
inline constexpr LayerId kOutside = 0, kBefore = 1;

// 0 is the CPU, 1 + N is CUDA device N.
using Device = std::uint32_t;
inline constexpr Device kCpu = 0, kDevices = 17;
std::string name_of(Device device);
// "cpu", "cuda", "cuda:1"; returns kDevices for other names.
Device device_of(std::string_view name);

inline constexpr std::size_t kUses = 6;
enum class Use : std::uint8_t { weights, activations, gradients, optimizer_state, workspace, other };

struct Block {
  std::uint64_t bytes;
  std::uint64_t frame;   // the layer call that allocated it
  std::uint64_t number;  // sequence number of the allocation
  LayerId layer;
  Use use;
  bool is_before;  // a weight that existed before the trace; its allocation was not seen
};

// The kind determines the use of memory that outlives a call of the layer.
enum class LayerKind : std::uint8_t { module, backward, optimizer };

struct Layer {
  std::string name;
  LayerId parent;
  LayerKind kind;
  std::string inside;       // prefix of the names of modules inside it: "layer1.", or "" for the model itself
  std::uint32_t scope = 0;  // id in the recording
};

struct LayerFigures {
  std::int64_t peak_allocated = 0, peak_reserved = 0;  // of the device while the layer ran
  std::int64_t allocations = 0, releases = 0, allocated_bytes = 0;
  std::int64_t live = 0, saved = 0;
  std::uint64_t saved_at = 0;  // the peak to which `saved` belongs
  double fragmentation_sum = 0;
  std::int64_t fragmentation_events = 0;

  void change(std::int64_t bytes, std::uint64_t peak) {
    if (saved_at != peak) {
      saved = live;
      saved_at = peak;
    }
    live += bytes;
  }
  std::int64_t at(std::uint64_t peak) const { return saved_at == peak ? saved : live; }
};

using BytesByUse = std::array<std::int64_t, kUses>;

struct DeviceAccount {
  AddressMap<Block> blocks;
  std::vector<LayerFigures> layers;
  std::int64_t allocated = 0, reserved = 0, peak = 0, peak_reserved = 0;
  std::uint64_t latest_peak = 1;  // the number of the latest peak
  std::uint64_t allocations = 0, allocations_at_peak = 0;
  BytesByUse by_use{}, by_use_at_peak{};
  bool has_own_reserve = false;  // the allocator reports reserved bytes; otherwise reserved equals allocated
  // What each layer still held at the end of each of the last traces, oldest first.
  std::vector<std::vector<std::int64_t>> kept;

  LayerFigures& of(LayerId layer) {
    if (layer >= layers.size()) layers.resize(layer + 1);
    return layers[layer];
  }
  double fragmentation() const {
    return reserved > 0 ? static_cast<double>(reserved - allocated) / static_cast<double>(reserved) : 0;
  }
};

enum class EventType : std::uint8_t { alloc, free, snapshot, layer_enter, layer_exit };
inline constexpr const char* kEventNames[] = {"alloc", "free", "snapshot", "layer_enter", "layer_exit"};

struct Event {
  std::int64_t time_ns;
  std::uint64_t bytes;
  std::int64_t allocated, reserved;
  LayerId layer;
  ThreadId thread;
  EventType type;
  std::uint8_t device;
};

struct WeightBlock {
  std::uint64_t address, bytes;
  Device device;
};

class Account {
 public:
  Account(std::size_t max_events, Device device, bool tracks_fragmentation);

  // The same name returns the same layer and keeps its first parent.
  LayerId add_layer(std::string_view name, LayerId parent, LayerKind kind);
  // Adds a whole model; names of modules inside it begin with `inside`.
  LayerId add_root(std::string_view name, std::string_view inside);
  // The layers of the current place in TorchScript's interpreter, which runs in this thread. Outermost first.
  std::vector<LayerId> script_layers(ThreadId thread, const std::string& root,
                                     const std::vector<std::string>& names);
  // The open layers of the thread that were entered as script layers, outermost first.
  std::vector<LayerId> open_script_layers(ThreadId thread) const;
  bool is_in_script(ThreadId thread) const {
    return is_in_layer(thread) && threads_[thread].back().is_script;
  }
  // The layer of an autograd node: "backward/conv1" if its forward operator ran in conv1, otherwise
  // "backward/" and the node's name.
  LayerId backward_layer(std::string_view node, std::uint64_t forward_thread, std::uint64_t sequence);
  ForwardLayers& forward_layers() { return forward_layers_; }
  const std::vector<Layer>& layers() const { return layers_; }
  Layer& layer(LayerId id) { return layers_[id]; }

  void begin(std::int64_t time_ns);
  void end(std::int64_t time_ns);
  // Stores what each layer still holds when the outermost trace ends, for growth().
  void remember_kept();
  // Sets the traced model. Weights of the previous model whose allocations were not seen are dropped, unless
  // its trace is still open around this one.
  void set_weights(const std::vector<WeightBlock>& weights, bool keeps_others = false);
  // For an allocator that reports reserved bytes: the current reserve, and the bytes allocated so far.
  void set_reserve(Device device, std::int64_t reserved, std::int64_t allocated);
  void change_reserve(Device device, std::int64_t bytes);

  void allocated(ThreadId thread, Device device, std::uint64_t address, std::uint64_t bytes,
                 std::int64_t time_ns);
  // Returns false for a block whose allocation was not seen. If the allocator reports `reported_bytes`, they
  // are subtracted from the memory allocated before the trace. `is_active`: a trace is open; otherwise only
  // the live bytes change.
  bool released(ThreadId thread, Device device, std::uint64_t address, std::int64_t time_ns, bool is_active,
                std::uint64_t reported_bytes = 0);
  void enter(ThreadId thread, LayerId layer, std::int64_t time_ns, bool is_script = false);
  void leave(ThreadId thread, std::int64_t time_ns);
  LayerId current_layer(ThreadId thread) const;
  bool is_in_layer(ThreadId thread) const { return thread < threads_.size() && !threads_[thread].empty(); }
  void forget_thread(ThreadId thread);

  Device device() const { return device_; }
  bool tracks_fragmentation() const { return tracks_fragmentation_; }
  const DeviceAccount* find(Device device) const { return devices_[device].get(); }
  std::int64_t calls_of(LayerId layer) const { return calls_[layer].count; }
  std::int64_t time_of(LayerId layer) const { return calls_[layer].time_ns; }
  std::uint64_t events_seen() const { return events_seen_; }
  std::size_t max_events() const { return max_events_; }
  std::int64_t start_ns() const { return start_ns_; }
  double seconds_since_start(std::int64_t time_ns) const {
    return static_cast<double>(time_ns - start_ns_) / 1e9;
  }
  // Oldest first.
  template <class Visit>
  void for_each_event(Visit&& visit) const {
    for (std::size_t i = 0; i < events_.size(); ++i) visit(events_[(next_event_ + i) % events_.size()]);
  }

  struct Growth {
    LayerId layer;
    std::int64_t bytes_per_trace, live, traces;
  };
  std::vector<Growth> growth(Device device) const;

 private:
  // Peaks of unused devices stay uninitialized. Initializing them at every call would cost more than
  // everything else here.
  struct Peak {
    std::int64_t allocated, reserved;
    void rise_to(const Peak& other) {
      if (other.allocated > allocated) allocated = other.allocated;
      if (other.reserved > reserved) reserved = other.reserved;
    }
  };
  struct Frame {
    Frame(LayerId of, std::uint64_t its_number, std::int64_t now_ns, bool is_of_script)
        : layer(of), is_script(is_of_script), number(its_number), start_ns(now_ns) {}
    LayerId layer;
    bool is_script;
    std::uint64_t number;
    std::int64_t start_ns;
    std::array<Peak, kDevices> peaks;
  };
  struct Calls {
    std::int64_t count = 0, time_ns = 0;
  };

  LayerId script_layer(LayerId outer, const std::string& name);
  bool is_inside_uncalled(LayerId layer, LayerId outer) const;
  DeviceAccount& account_of(Device device);
  void note_total(DeviceAccount& account, Device device);
  static void add(DeviceAccount& account, const Block& block);
  static void remove(DeviceAccount& account, const Block& block);
  static void shrink_unknown(DeviceAccount& account, std::uint64_t bytes);
  static void move(DeviceAccount& account, Block& block, Use use);
  void store(EventType type, ThreadId thread, Device device, LayerId layer, std::uint64_t bytes,
             std::int64_t time_ns);
  std::vector<Frame>& frames_of(ThreadId thread);

  std::size_t max_events_;
  Device device_;
  bool tracks_fragmentation_;
  std::vector<Layer> layers_;
  std::unordered_map<std::string, LayerId> ids_;
  std::map<std::pair<LayerId, std::string>, LayerId> script_layers_;
  ForwardLayers forward_layers_;
  std::vector<Calls> calls_;
  std::array<std::unique_ptr<DeviceAccount>, kDevices> devices_;
  std::vector<Device> used_devices_;
  std::vector<std::vector<Frame>> threads_;
  std::vector<ThreadId> open_threads_;  // threads that are in a layer
  std::uint64_t frames_ = 0;
  std::vector<Event> events_;
  std::size_t next_event_ = 0;
  std::uint64_t events_seen_ = 0;
  std::int64_t start_ns_ = 0;
};

}  // namespace headroom::memory_tracer
