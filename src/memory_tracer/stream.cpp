#include "memory_tracer/stream.h"

#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include "preload/process.h"
#include "preload/recorder.h"
#include "preload/scopes.h"
#include "preload/thread_state.h"

namespace headroom::memory_tracer {
namespace {

using preload::CallFrame;
using preload::thread_local_state;
using preload::ThreadLocal;
using recording::ScopeSource;

std::string path_of_stream;
bool is_started = false;  // still read after strings are destroyed
std::array<std::atomic<bool>, kDevices> is_described{};
// Layers of this thread beyond the recording's depth limit.
thread_local std::uint32_t entered_too_deep = 0;

std::uint32_t scope_of(Account& account, LayerId id) {
  Layer& layer = account.layer(id);
  if (layer.scope != 0 || id == kOutside) return layer.scope;
  const std::uint32_t outer = scope_of(account, layer.parent);
  const std::string& around = account.layer(layer.parent).name;
  std::string_view name = layer.name;
  // "layer1.0" in "layer1" is "0".
  if (layer.parent != kOutside && name.starts_with(around) && name.size() > around.size() + 1)
    name.remove_prefix(around.size() + 1);
  const ScopeSource source = layer.kind == LayerKind::module ? ScopeSource::module : ScopeSource::phase;
  return layer.scope = preload::intern_scope(outer, source, name.data(), name.size());
}

void describe(Device device) {
  if (is_described[device].exchange(true)) return;
  const recording::DeviceRecord record{};
  const std::string name = "CUDA device " + std::to_string(device - 1) + ", PyTorch's allocator";
  const preload::RecordingFile::Piece pieces[] = {{&record, sizeof record}, {name.data(), name.size()}};
  preload::process.file.write_metadata(recording::MetadataKind::device, device - 1, pieces, 2);
}

}  // namespace

void start_stream(const std::string& path) {
  const std::string whole = std::filesystem::absolute(path).string();
  if (!path_of_stream.empty()) {
    if (path_of_stream == whole) return;
    throw std::runtime_error("this process already records to " + path_of_stream +
                             ": a process can have only one recording; use that file, or none");
  }
  preload::Options options;
  options.full = true;
  if (std::filesystem::exists(whole))
    throw std::runtime_error("cannot record to " + whole + ": it already exists; choose another file");
  if (!preload::start_recording_to(thread_local_state, whole.c_str(), options))
    throw std::runtime_error(
        "cannot record to " + whole +
        ": the folder is missing or not writable, or the disk is full; choose another path");
  path_of_stream = whole;
  is_started = true;
}

void stream_allocation(Device device, const void* address, std::uint64_t bytes) {
  ThreadLocal& thread = thread_local_state;
  const CallFrame caller = preload::caller_of_this_function();
  const preload::Guard guard(thread);
  if (device == kCpu) return preload::on_allocation(thread, address, bytes, caller);
  describe(device);
  preload::record_device_allocation(thread, device - 1, DeviceMemoryKind::device,
                                    reinterpret_cast<std::uint64_t>(address), bytes, caller);
}

void stream_release(Device device, const void* address) {
  ThreadLocal& thread = thread_local_state;
  const preload::Guard guard(thread);
  if (device == kCpu) return preload::finish_release(thread, preload::begin_release(address));
  preload::record_device_release(thread, device - 1, DeviceMemoryKind::device,
                                 reinterpret_cast<std::uint64_t>(address), preload::time_now());
}

void stream_enter(Account& account, LayerId layer) {
  if (!preload::enter_scope(scope_of(account, layer), preload::kModuleDomain)) ++entered_too_deep;
}
void stream_leave() {
  if (entered_too_deep == 0) return preload::leave_scope(preload::kModuleDomain);
  --entered_too_deep;
}

void seal_stream() { preload::try_finish_recording(); }

namespace {
// Runs when the library is unloaded, at the end of the process.
[[gnu::destructor]] void end_stream() {
  if (is_started) seal_stream();
}
}  // namespace

}  // namespace headroom::memory_tracer
