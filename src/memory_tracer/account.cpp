#include "memory_tracer/account.h"

#include <algorithm>
#include <charconv>

namespace headroom::memory_tracer {
namespace {

constexpr std::uint64_t kUnknownBlocks = 1;  // never a tensor's address
constexpr std::size_t kMostKept = 64;        // number of traces considered for growth
constexpr std::size_t kLeastForGrowth = 5;   // caches grow for three or four traces and then stop

// The use of memory that outlives a call of a layer of this kind.
Use use_after(LayerKind kind) {
  return kind == LayerKind::module     ? Use::activations
         : kind == LayerKind::backward ? Use::gradients
                                       : Use::optimizer_state;
}

std::size_t index_of(Use use) { return static_cast<std::size_t>(use); }

}  // namespace

ScriptPlace parse_script_place(const std::vector<std::string>& hierarchy) {
  ScriptPlace place;
  for (const std::string_view entry : hierarchy) {
    const std::size_t open = entry.find('('), close = entry.find(')');
    if (open == std::string_view::npos || close == std::string_view::npos || close < open) continue;
    const std::string_view name = entry.substr(0, open);
    if (name == "TOP") {
      place.is_in_module = true;
      place.root = entry.substr(open + 1, close - open - 1);
      place.names.clear();
    } else if (place.is_in_module && !name.empty() && name != "SELF" && name != "INSTANCE_NAME_UNKNOWN") {
      place.names.emplace_back(name);
    }
  }
  return place;
}

std::string name_of(Device device) { return device == kCpu ? "cpu" : "cuda:" + std::to_string(device - 1); }

Device device_of(std::string_view name) {
  if (name == "cpu") return kCpu;
  if (name == "cuda") return 1;
  constexpr std::string_view kPrefix = "cuda:";
  if (!name.starts_with(kPrefix)) return kDevices;
  const std::string_view digits = name.substr(kPrefix.size());
  unsigned number = kDevices;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const bool is_number = error == std::errc() && end == digits.data() + digits.size();
  return is_number && number + 1 < kDevices ? number + 1 : kDevices;
}

Account::Account(std::size_t max_events, Device device, bool tracks_fragmentation)
    : max_events_(max_events), device_(device), tracks_fragmentation_(tracks_fragmentation) {
  layers_ = {{"(outside of layers)", kOutside, LayerKind::module, ""},
             {"(before the trace)", kOutside, LayerKind::module, ""}};
  calls_.resize(layers_.size());
}

LayerId Account::add_layer(std::string_view name, LayerId parent, LayerKind kind) {
  const auto [found, is_new] = ids_.try_emplace(std::string(name), static_cast<LayerId>(layers_.size()));
  if (is_new) {
    layers_.push_back({std::string(name), parent, kind, std::string(name) + "."});
    calls_.emplace_back();
  }
  return found->second;
}

LayerId Account::add_root(std::string_view name, std::string_view inside) {
  const LayerId root = add_layer(name, kOutside, LayerKind::module);
  layers_[root].inside = inside;
  script_layers_.clear();  // the model's modules will be named next
  return root;
}

std::vector<LayerId> Account::script_layers(ThreadId thread, const std::string& root,
                                            const std::vector<std::string>& names) {
  std::vector<LayerId> path;
  const std::vector<Frame>& frames = frames_of(thread);
  const auto own =
      std::find_if(frames.rbegin(), frames.rend(), [](const Frame& frame) { return !frame.is_script; });
  // The enclosing call is the module's own and already a layer. If C++ called the module, there may be none.
  LayerId outer = own == frames.rend() ? kOutside : own->layer;
  if (outer == kOutside) {
    outer = add_layer(root, kOutside, LayerKind::module);
    layers_[outer].inside.clear();
    path.push_back(outer);
  }
  for (const std::string& name : names) path.push_back(outer = script_layer(outer, name));
  return path;
}

// Containers that are never called (a ModuleList) are missing from the interpreter's path: "0" in the model
// may be its "blocks.0". That is assumed if the model has only one such module.
LayerId Account::script_layer(LayerId outer, const std::string& name) {
  const auto [found, is_new] = script_layers_.try_emplace({outer, name}, kOutside);
  if (!is_new) return found->second;
  const std::string whole = layers_[outer].inside + name, end = "." + name;
  std::vector<LayerId> candidates;
  if (!ids_.contains(whole))
    for (LayerId layer = kBefore + 1; layer < layers_.size(); ++layer)
      if (layers_[layer].name.starts_with(layers_[outer].inside) && layers_[layer].name.ends_with(end) &&
          layers_[layer].kind == LayerKind::module && is_inside_uncalled(layer, outer))
        candidates.push_back(layer);
  return found->second =
             candidates.size() == 1 ? candidates.front() : add_layer(whole, outer, LayerKind::module);
}

// Whether only uncalled containers lie between them.
bool Account::is_inside_uncalled(LayerId layer, LayerId outer) const {
  for (LayerId at = layers_[layer].parent; at != kOutside; at = layers_[at].parent) {
    if (at == outer) return true;
    if (calls_[at].count > 0) return false;
  }
  return false;
}

std::vector<LayerId> Account::open_script_layers(ThreadId thread) const {
  std::vector<LayerId> open;
  if (thread >= threads_.size()) return open;
  for (const Frame& frame : threads_[thread])
    if (frame.is_script) open.push_back(frame.layer);
  return open;
}

LayerId Account::backward_layer(std::string_view node, std::uint64_t forward_thread, std::uint64_t sequence) {
  const LayerId outer = add_layer("backward", kOutside, LayerKind::backward);
  const std::optional<LayerId> forward = forward_layers_.find(forward_thread, sequence);
  const bool is_known = forward && *forward > kBefore && layers_[*forward].kind == LayerKind::module;
  const std::string name = "backward/" + (is_known ? layers_[*forward].name : std::string(node));
  return add_layer(name, outer, LayerKind::backward);
}

DeviceAccount& Account::account_of(Device device) {
  if (devices_[device]) return *devices_[device];
  devices_[device] = std::make_unique<DeviceAccount>();
  used_devices_.push_back(device);
  for (const ThreadId thread : open_threads_)
    for (Frame& frame : threads_[thread]) frame.peaks[device] = {0, 0};
  return *devices_[device];
}

std::vector<Account::Frame>& Account::frames_of(ThreadId thread) {
  if (thread >= threads_.size()) threads_.resize(thread + 1);
  return threads_[thread];
}

void Account::begin(std::int64_t time_ns) {
  if (start_ns_ == 0) start_ns_ = time_ns;
}

void Account::end(std::int64_t time_ns) {
  for (Device device = 0; device < kDevices; ++device)
    if (devices_[device]) store(EventType::snapshot, 0, device, kOutside, 0, time_ns);
}

void Account::remember_kept() {
  for (const auto& account : devices_) {
    if (!account) continue;
    std::vector<std::int64_t> live(account->layers.size());
    for (std::size_t i = 0; i < live.size(); ++i) live[i] = account->layers[i].live;
    if (account->kept.size() == kMostKept) account->kept.erase(account->kept.begin());
    account->kept.push_back(std::move(live));
  }
}

// Subtracts bytes from the block that stands for memory allocated before the trace.
void Account::shrink_unknown(DeviceAccount& account, std::uint64_t bytes) {
  Block* const known = account.blocks.find(kUnknownBlocks);
  if (known == nullptr) return;
  remove(account, *known);
  if (bytes >= known->bytes) {
    account.blocks.erase(kUnknownBlocks);
    return;
  }
  known->bytes -= bytes;
  add(account, *known);
}

void Account::set_reserve(Device device, std::int64_t reserved, std::int64_t allocated) {
  DeviceAccount& account = account_of(device);
  account.has_own_reserve = true;
  account.reserved = reserved;
  const std::int64_t unknown = allocated - account.allocated;
  if (unknown < 0) shrink_unknown(account, static_cast<std::uint64_t>(-unknown));
  if (unknown > 0) {
    // One block stands for all memory allocated before the trace, except weights.
    std::uint64_t bytes = static_cast<std::uint64_t>(unknown);
    if (const Block* const known = account.blocks.find(kUnknownBlocks)) {
      bytes += known->bytes;
      remove(account, *known);
      account.blocks.erase(kUnknownBlocks);
    }
    const Block block{bytes, 0, ++account.allocations, kBefore, Use::other, false};
    account.blocks.set(kUnknownBlocks, block);
    add(account, block);
  }
  note_total(account, device);
}

void Account::change_reserve(Device device, std::int64_t bytes) {
  DeviceAccount& account = account_of(device);
  account.has_own_reserve = true;
  account.reserved += bytes;
  note_total(account, device);
}

void Account::set_weights(const std::vector<WeightBlock>& weights, bool keeps_others) {
  for (auto& account : devices_) {
    if (!account || keeps_others) continue;
    std::vector<std::uint64_t> dropped;
    account->blocks.for_each([&](std::uint64_t address, const Block& block) {
      if (block.is_before) dropped.push_back(address);
    });
    for (const std::uint64_t address : dropped) {
      remove(*account, *account->blocks.find(address));
      account->blocks.erase(address);
    }
  }
  for (const WeightBlock& weight : weights) {
    if (weight.address == 0 || weight.device >= kDevices) continue;
    DeviceAccount& account = account_of(weight.device);
    if (Block* const known = account.blocks.find(weight.address)) {
      move(account, *known, Use::weights);
      continue;
    }
    const Block block{weight.bytes, 0, ++account.allocations, kBefore, Use::weights, true};
    account.blocks.set(weight.address, block);
    add(account, block);
    note_total(account, weight.device);
  }
}

// Call it after a total grew.
void Account::note_total(DeviceAccount& account, Device device) {
  if (!account.has_own_reserve) account.reserved = account.allocated;
  account.peak_reserved = std::max(account.peak_reserved, account.reserved);
  if (account.allocated > account.peak) {
    account.peak = account.allocated;
    ++account.latest_peak;
    account.allocations_at_peak = account.allocations;
    account.by_use_at_peak = account.by_use;
  }
  for (const ThreadId thread : open_threads_)
    threads_[thread].back().peaks[device].rise_to({account.allocated, account.reserved});
}

void Account::move(DeviceAccount& account, Block& block, Use use) {
  const auto bytes = static_cast<std::int64_t>(block.bytes);
  account.by_use[index_of(block.use)] -= bytes;
  account.by_use[index_of(use)] += bytes;
  if (block.number <= account.allocations_at_peak) {  // it is still live, so it was live at the peak
    account.by_use_at_peak[index_of(block.use)] -= bytes;
    account.by_use_at_peak[index_of(use)] += bytes;
  }
  block.use = use;
}

void Account::add(DeviceAccount& account, const Block& block) {
  const auto bytes = static_cast<std::int64_t>(block.bytes);
  account.of(block.layer).change(bytes, account.latest_peak);
  account.allocated += bytes;
  account.by_use[index_of(block.use)] += bytes;
}

void Account::remove(DeviceAccount& account, const Block& block) {
  const auto bytes = static_cast<std::int64_t>(block.bytes);
  account.of(block.layer).change(-bytes, account.latest_peak);
  account.allocated -= bytes;
  account.by_use[index_of(block.use)] -= bytes;
  if (!account.has_own_reserve) account.reserved = account.allocated;
}

void Account::allocated(ThreadId thread, Device device, std::uint64_t address, std::uint64_t bytes,
                        std::int64_t time_ns) {
  DeviceAccount& account = account_of(device);
  const std::vector<Frame>& frames = frames_of(thread);
  const LayerId layer = frames.empty() ? kOutside : frames.back().layer;
  const Use use = frames.empty() ? Use::other : use_after(layers_[layer].kind);
  const Block block{bytes, frames.empty() ? 0 : frames.back().number, ++account.allocations, layer, use,
                    false};
  // A weight from before the trace, whose release was not seen.
  if (const Block* const known = account.blocks.find(address)) remove(account, *known);
  account.blocks.set(address, block);
  add(account, block);
  LayerFigures& figures = account.of(layer);
  ++figures.allocations;
  figures.allocated_bytes += static_cast<std::int64_t>(bytes);
  note_total(account, device);
  store(EventType::alloc, thread, device, layer, bytes, time_ns);
}

bool Account::released(ThreadId thread, Device device, std::uint64_t address, std::int64_t time_ns,
                       bool is_active, std::uint64_t reported_bytes) {
  if (!devices_[device]) return false;
  DeviceAccount& account = *devices_[device];
  Block* const found = account.blocks.find(address);
  if (found == nullptr) {
    if (account.has_own_reserve) shrink_unknown(account, reported_bytes);
    return false;
  }
  const std::vector<Frame>& frames = frames_of(thread);
  // Allocated and released in the same call of a layer, not in an inner one: workspace.
  if (!frames.empty() && frames.back().number == found->frame) move(account, *found, Use::workspace);
  remove(account, *found);
  const std::uint64_t bytes = found->bytes;
  account.blocks.erase(address);
  if (!is_active) return true;
  const LayerId layer = frames.empty() ? kOutside : frames.back().layer;
  ++account.of(layer).releases;
  store(EventType::free, thread, device, layer, bytes, time_ns);
  return true;
}

void Account::enter(ThreadId thread, LayerId layer, std::int64_t time_ns, bool is_script) {
  std::vector<Frame>& frames = frames_of(thread);
  if (frames.empty()) open_threads_.push_back(thread);
  Frame& frame = frames.emplace_back(layer, ++frames_, time_ns, is_script);
  for (const Device device : used_devices_)
    frame.peaks[device] = {devices_[device]->allocated, devices_[device]->reserved};
  ++calls_[layer].count;
  store(EventType::layer_enter, thread, device_, layer, 0, time_ns);
}

void Account::leave(ThreadId thread, std::int64_t time_ns) {
  std::vector<Frame>& frames = frames_of(thread);
  if (frames.empty()) return;
  const Frame& frame = frames.back();
  const LayerId layer = frame.layer;
  for (const Device device : used_devices_) {
    LayerFigures& figures = devices_[device]->of(layer);
    figures.peak_allocated = std::max(figures.peak_allocated, frame.peaks[device].allocated);
    figures.peak_reserved = std::max(figures.peak_reserved, frame.peaks[device].reserved);
    if (frames.size() > 1) frames[frames.size() - 2].peaks[device].rise_to(frame.peaks[device]);
  }
  // In a recursive call, only the outermost call's time counts.
  const bool is_inside_itself =
      std::any_of(frames.begin(), frames.end() - 1, [&](const Frame& outer) { return outer.layer == layer; });
  if (!is_inside_itself) calls_[layer].time_ns += time_ns - frame.start_ns;
  frames.pop_back();
  if (frames.empty()) std::erase(open_threads_, thread);
  store(EventType::layer_exit, thread, device_, layer, 0, time_ns);
}

LayerId Account::current_layer(ThreadId thread) const {
  return is_in_layer(thread) ? threads_[thread].back().layer : kOutside;
}

void Account::forget_thread(ThreadId thread) {
  if (thread >= threads_.size()) return;
  threads_[thread].clear();
  std::erase(open_threads_, thread);
}

void Account::store(EventType type, ThreadId thread, Device device, LayerId layer, std::uint64_t bytes,
                    std::int64_t time_ns) {
  ++events_seen_;
  DeviceAccount* const account = devices_[device].get();
  if (account != nullptr && tracks_fragmentation_ && layer != kOutside) {
    LayerFigures& figures = account->of(layer);
    // The division would take as long as everything else here, and on a CPU the result is always 0.
    if (account->reserved != account->allocated) figures.fragmentation_sum += account->fragmentation();
    ++figures.fragmentation_events;
  }
  if (max_events_ == 0) return;
  const Event event{time_ns,
                    bytes,
                    account == nullptr ? 0 : account->allocated,
                    account == nullptr ? 0 : account->reserved,
                    layer,
                    thread,
                    type,
                    static_cast<std::uint8_t>(device)};
  if (events_.size() < max_events_) {
    events_.push_back(event);
    return;
  }
  events_[next_event_] = event;
  if (++next_event_ == max_events_) next_event_ = 0;
}

std::vector<Account::Growth> Account::growth(Device device) const {
  std::vector<Growth> growths;
  const DeviceAccount* account = devices_[device].get();
  if (account == nullptr || account->kept.size() < kLeastForGrowth) return growths;
  for (LayerId layer = 0; layer < account->layers.size(); ++layer) {
    if (layer == kBefore) continue;
    std::vector<std::int64_t> steps;
    for (std::size_t i = account->kept.size() - 1; i > 0; --i) {
      const auto bytes_at = [&](std::size_t trace) {
        const auto& kept = account->kept[trace];
        return layer < kept.size() ? kept[layer] : 0;
      };
      const std::int64_t step = bytes_at(i) - bytes_at(i - 1);
      if (step <= 0) break;
      steps.push_back(step);
    }
    if (steps.size() + 1 < kLeastForGrowth) continue;
    const auto middle = steps.begin() + static_cast<std::ptrdiff_t>(steps.size() / 2);
    std::nth_element(steps.begin(), middle, steps.end());
    growths.push_back(
        {layer, *middle, account->layers[layer].live, static_cast<std::int64_t>(steps.size()) + 1});
  }
  std::sort(growths.begin(), growths.end(),
            [](const Growth& a, const Growth& b) { return a.bytes_per_trace > b.bytes_per_trace; });
  return growths;
}

}  // namespace headroom::memory_tracer
