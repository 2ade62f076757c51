#include "memory_tracer/session.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <mutex>
#include <stdexcept>

#include "preload/recorder.h"
#include "preload/recording_start.h"
#include "preload/scopes.h"
#include "preload/threads.h"

namespace headroom::memory_tracer {

namespace {

// Never destroyed: tensors are released until the very end of the process.
struct Watch {
  std::mutex lock;
  // Sessions that have had a trace and still exist.
  std::vector<Session*> sessions;
  std::vector<Session*> open_sessions;  // with open traces; at most 32: bits of an int
  std::vector<ThreadId> free_threads;
  ThreadId threads_so_far = 0;
};
Watch& the_watch = *new Watch;
std::mutex& lock = the_watch.lock;
std::vector<Session*>& sessions = the_watch.sessions;
std::vector<Session*>& open_sessions = the_watch.open_sessions;

std::atomic<std::uint32_t> open_count{0};  // sessions with open traces
std::atomic<bool> is_forked_child{false};

// A thread has a number from its first event until it ends. It takes two variables, because reading a
// variable with a destructor is a function call.
constexpr ThreadId kNoThread = ~ThreadId{0};
constinit thread_local ThreadId number_of_this_thread __attribute__((tls_model("initial-exec"))) = kNoThread;
struct EndOfThread {
  bool is_awaited = false;
  ~EndOfThread() {
    ThreadId& id = number_of_this_thread;
    if (id == kNoThread || is_forked_child) return;
    const std::lock_guard held(lock);
    for (Session* session : sessions) session->account.forget_thread(id);
    the_watch.free_threads.push_back(id);
    id = kNoThread;
  }
};
thread_local EndOfThread end_of_this_thread;

ThreadId number_this_thread() {
  end_of_this_thread.is_awaited = true;
  ThreadId& id = number_of_this_thread;
  if (the_watch.free_threads.empty()) return id = the_watch.threads_so_far++;
  id = the_watch.free_threads.back();
  the_watch.free_threads.pop_back();
  return id;
}
// Requires the lock.
ThreadId thread_id() {
  const ThreadId id = number_of_this_thread;
  return id != kNoThread ? id : number_this_thread();
}

// Requires the lock.
template <class Act>
void for_each_open_session(const Act& act) {
  for (Session* session : open_sessions) act(*session, session->bit);
}

std::mutex watch_lock;
int watchers = 0;  // open traces

void watch() {
  const std::lock_guard held(watch_lock);
  watch_cuda_allocator();  // it may be initialized only now
  if (++watchers > 1) return;
  watch_cpu_allocator();
  watch_backward();
}
void unwatch() {
  const std::lock_guard held(watch_lock);
  if (--watchers > 0) return;
  unwatch_backward();
  unwatch_cpu_allocator();
}

void on_fork_in_child() {
  is_forked_child = true;
  open_count = 0;
}

void note_forward(Session& session, LayerId layer) {
  ForwardPlace place;
  if (!forward_place(place)) return;
  session.account.forward_layers().note(place.thread, place.sequence, layer);
}

// Requires the lock.
void enter_one(Session& session, LayerId layer, ThreadId thread, std::int64_t time, bool is_script) {
  session.account.enter(thread, layer, time, is_script);
  note_forward(session, layer);
  if (session.is_recorded) stream_enter(session.account, layer);
}
void leave_one(Session& session, ThreadId thread, std::int64_t time) {
  session.account.leave(thread, time);
  note_forward(session, session.account.current_layer(thread));
  if (session.is_recorded) stream_leave();
}

// The interpreter does not report when it leaves a module. At the thread's next allocation, modules that it
// is no longer in are left. When something else is entered or left, all are.
void leave_script(Session& session, ThreadId thread, std::int64_t time) {
  while (session.account.is_in_script(thread)) leave_one(session, thread, time);
}
void enter(Session& session, LayerId layer, ThreadId thread, std::int64_t time) {
  leave_script(session, thread, time);
  enter_one(session, layer, thread, time, false);
}
void leave(Session& session, ThreadId thread, std::int64_t time) {
  leave_script(session, thread, time);
  leave_one(session, thread, time);
}

void follow_script(Session& session, const ScriptPlace& place, ThreadId thread, std::int64_t time) {
  if (!place.is_in_module) return leave_script(session, thread, time);
  const std::vector<LayerId> open = session.account.open_script_layers(thread);
  const std::vector<LayerId> wanted = session.account.script_layers(thread, place.root, place.names);
  const auto common = std::mismatch(open.begin(), open.end(), wanted.begin(), wanted.end());
  for (auto left = common.first; left != open.end(); ++left) leave_one(session, thread, time);
  for (auto entered = common.second; entered != wanted.end(); ++entered)
    enter_one(session, *entered, thread, time, true);
}

// The trace ends while layers are open.
void leave_all(Session& session) {
  const ThreadId thread = thread_id();
  const std::int64_t time = now_ns();
  while (session.account.is_in_layer(thread)) leave_one(session, thread, time);
  for (ThreadId other = 0; other < the_watch.threads_so_far; ++other) session.account.forget_thread(other);
}

// In each session with an open trace, enters the layer that `layer_in(session, thread)` returns; kOutside:
// none.
template <class LayerIn>
std::uint32_t enter_each(const LayerIn& layer_in) {
  if (!any_trace_is_open()) return 0;
  const std::lock_guard held(lock);
  const ThreadId thread = thread_id();
  const std::int64_t time = now_ns();
  std::uint32_t entered = 0;
  for_each_open_session([&](Session& session, std::uint32_t bit) {
    const LayerId layer = layer_in(session, thread);
    if (layer == kOutside) return;
    enter(session, layer, thread, time);
    entered |= bit;
  });
  return entered;
}

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

// Runs when the library is unloaded, at the end of the process.
[[gnu::destructor]] void end_stream() {
  if (is_started) seal_stream();
}

}  // namespace

SessionLock::SessionLock() { lock.lock(); }
SessionLock::~SessionLock() { lock.unlock(); }

Session::~Session() {
  if (is_forked_child) return;
  {
    const std::lock_guard held(lock);
    std::erase(sessions, this);
  }
  if (is_recorded) seal_stream();
}

bool any_trace_is_open() { return open_count.load(std::memory_order_relaxed) != 0; }

void open_trace(Session& session, const std::vector<WeightBlock>& weights) {
  if (is_forked_child)
    throw std::runtime_error("cannot trace in a forked child: start a new process instead (spawn)");
  calibrate_clock();
  watch();
  const std::vector<DeviceTotals> totals = device_totals();
  const std::lock_guard held(lock);
  static const bool hears_of_forks = pthread_atfork(nullptr, nullptr, on_fork_in_child) == 0;
  (void)hears_of_forks;
  if (session.open_traces == 0) {
    std::uint32_t taken = 0;
    for_each_open_session([&](Session&, std::uint32_t bit) { taken |= bit; });
    session.bit = ~taken & (taken + 1);  // the lowest free one
    if (session.bit == 0) {
      unwatch();
      throw std::runtime_error(
          "cannot open another trace: 32 tracers already have open traces; end one of them");
    }
    open_sessions.push_back(&session);
    open_count.fetch_add(1);
  }
  ++session.open_traces;
  if (std::find(sessions.begin(), sessions.end(), &session) == sessions.end()) sessions.push_back(&session);
  session.account.begin(now_ns());
  session.account.set_weights(weights, session.open_traces > 1);
  for (const DeviceTotals& device : totals)
    session.account.set_reserve(device.device, device.reserved, device.allocated);
}

void close_trace(Session& session) {
  if (is_forked_child) return;
  {
    const std::lock_guard held(lock);
    session.account.end(now_ns());
    if (--session.open_traces == 0) {
      leave_all(session);
      session.account.remember_kept();
      std::erase(open_sessions, &session);
      open_count.fetch_sub(1);
      session.modules = {};
    }
  }
  unwatch();
}

void on_allocated(Device device, const void* address, std::uint64_t bytes) {
  if (address == nullptr || device >= kDevices || !any_trace_is_open()) return;
  bool is_recorded = false;
  const ScriptPlace place = script_place();
  {
    const std::lock_guard held(lock);
    const ThreadId thread = thread_id();
    const std::int64_t time = now_ns();
    for_each_open_session([&](Session& session, std::uint32_t) {
      follow_script(session, place, thread, time);
      session.account.allocated(thread, device, reinterpret_cast<std::uint64_t>(address), bytes, time);
      is_recorded |= session.is_recorded;
    });
  }
  // Without the lock: walking the stack may wait for the loader's lock, whose owner may be waiting for this
  // lock in another thread.
  if (is_recorded) stream_allocation(device, address, bytes);
}

void on_released(Device device, const void* address, std::uint64_t bytes) {
  if (address == nullptr || device >= kDevices || is_forked_child) return;
  bool is_recorded = false;
  {
    const std::lock_guard held(lock);
    if (sessions.empty()) return;
    const ThreadId thread = thread_id();
    const std::int64_t time = now_ns();
    for (Session* session : sessions) {
      const bool is_known = session->account.released(
          thread, device, reinterpret_cast<std::uint64_t>(address), time, session->open_traces > 0, bytes);
      is_recorded |= is_known && session->is_recorded;
    }
  }
  if (is_recorded) stream_release(device, address);
}

void on_reserve_changed(Device device, std::int64_t bytes) {
  if (device >= kDevices || is_forked_child) return;
  const std::lock_guard held(lock);
  for (Session* session : sessions) session->account.change_reserve(device, bytes);
}

void enter_layer(Session& session, std::string_view name) {
  if (is_forked_child) return;
  const std::lock_guard held(lock);
  const ThreadId thread = thread_id();
  const LayerKind kind = name == "backward"         ? LayerKind::backward
                         : name == "optimizer.step" ? LayerKind::optimizer
                                                    : LayerKind::module;
  enter(session, session.account.add_layer(name, session.account.current_layer(thread), kind), thread,
        now_ns());
}

void leave_layer(Session& session) {
  if (is_forked_child) return;
  const std::lock_guard held(lock);
  leave(session, thread_id(), now_ns());
}

std::uint32_t enter_module(const void* module) {
  return enter_each([&](Session& session, ThreadId) {
    const LayerId* const known = session.modules.find(reinterpret_cast<std::uint64_t>(module));
    return known != nullptr ? *known : kOutside;
  });
}

std::uint32_t enter_phase(const char* name, LayerKind kind) {
  return enter_each([&](Session& session, ThreadId thread) {
    return session.account.add_layer(name, session.account.current_layer(thread), kind);
  });
}

std::uint32_t enter_backward_node(const char* name, const ForwardPlace& place) {
  return enter_each([&](Session& session, ThreadId) {
    return session.account.backward_layer(name, place.thread, place.sequence);
  });
}

void leave_entered(std::uint32_t entered) {
  if (entered == 0 || is_forked_child) return;
  const std::lock_guard held(lock);
  const ThreadId thread = thread_id();
  const std::int64_t time = now_ns();
  for_each_open_session([&](Session& session, std::uint32_t bit) {
    if ((entered & bit) != 0) leave(session, thread, time);
  });
}

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

}  // namespace headroom::memory_tracer
