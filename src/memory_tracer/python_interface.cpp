// The functions that the Python module (python/headroom_memory/memory_tracer.py) calls through ctypes.
// Functions that return int return 0 for success; otherwise headroom_memory_tracer_error() returns the
// reason. The caller frees returned texts.
//
// While a trace is open, Python functions are replaced: nn.Module.__call__, and the functions that are phases
// of training. The replacements are C stand-ins around the originals (preload/python_api.h); module hooks
// would force PyTorch onto its slow path. All of this requires the GIL.
#include <cstring>
#include <exception>

#include "headroom/memory_tracer.h"
#include "memory_tracer/session.h"
#include "memory_tracer/torch_sources.h"
#include "memory_tracer/views.h"
#include "preload/python_api.h"
#include "preload/torch_module_call.h"

namespace headroom::memory_tracer {

namespace {

using namespace preload::python;

// However the call ends, by a value or an exception, it returns here.
Object* around_module(const PendingCall& call) {
  const std::uint32_t entered = enter_module(call.argument(0));
  Object* const result = preload::call_module(call);
  leave_entered(entered);
  return result;
}

// Nested calls are one layer: step() of a subclass calls that of its base.
Object* call_in_layer(const char* name, LayerKind kind, bool& is_open, const PendingCall& call) {
  if (is_open) return call.call_original();
  is_open = true;
  const std::uint32_t entered = enter_phase(name, kind);
  Object* const result = call.call_original();
  leave_entered(entered);
  is_open = false;
  return result;
}
thread_local bool is_in_backward = false, is_in_step = false;

Object* around_backward(const PendingCall& call) {
  return call_in_layer("backward", LayerKind::backward, is_in_backward, call);
}
Object* around_step(const PendingCall& call) {
  return call_in_layer("optimizer.step", LayerKind::optimizer, is_in_step, call);
}

void forget_python() {
  preload::forget_module_call();
  forget_function_type();
}

// Returns the reason if Python is not supported, otherwise null.
const char* prepare_python() {
  const Interpreter found = find_interpreter(nullptr);
  if (found == Interpreter::unsupported)
    return "unsupported Python: it must be CPython 3.8 to 3.13 with a GIL";
  if (found == Interpreter::secondary) return "sub-interpreters of Python are not supported";
  if (found == Interpreter::not_found) return "cannot find the running Python";
  static bool will_forget = false;
  if (!will_forget) will_forget = api.Py_AtExit(forget_python) == 0;
  return make_function_type() ? nullptr : "cannot create the Python type that replaces functions";
}

// By the numbers that memory_tracer.py uses.
constexpr Around kStandIns[] = {around_module, around_backward, around_step};
constexpr int kModuleCall = 0;

}  // namespace
}  // namespace headroom::memory_tracer

#define HEADROOM_EXPORT extern "C" __attribute__((visibility("default")))

using headroom::MemoryTracer;
using headroom::MemoryTracerAccess;
using namespace headroom::memory_tracer;

namespace {

thread_local std::string last_error;

template <class Act>
int attempt(const Act& act) {
  try {
    act();
    return 0;
  } catch (const std::exception& error) {
    last_error = error.what();
    return 1;
  }
}

Session& session_of(void* tracer) { return MemoryTracerAccess::session(*static_cast<MemoryTracer*>(tracer)); }

}  // namespace

HEADROOM_EXPORT const char* headroom_memory_tracer_error() { return last_error.c_str(); }
HEADROOM_EXPORT int headroom_memory_tracer_has_cuda() { return has_cuda() ? 1 : 0; }
HEADROOM_EXPORT void headroom_memory_tracer_free(char* text) { delete[] text; }

HEADROOM_EXPORT void* headroom_memory_tracer_new(std::uint64_t max_events, const char* device,
                                                 int tracks_fragmentation, const char* record_to) {
  MemoryTracer* tracer = nullptr;
  attempt([&] {
    if (const char* const problem = prepare_python())
      throw std::runtime_error(std::string("cannot trace PyTorch layers: ") + problem);
    tracer = new MemoryTracer({max_events, device, tracks_fragmentation != 0, record_to});
  });
  return tracer;
}
HEADROOM_EXPORT void headroom_memory_tracer_delete(void* tracer) {
  delete static_cast<MemoryTracer*>(tracer);
}

// Returns the model's layer number; names of modules inside it begin with `inside`.
HEADROOM_EXPORT std::uint32_t headroom_memory_tracer_root(void* tracer, const char* name,
                                                          const char* inside) {
  const SessionLock held;
  return session_of(tracer).account.add_root(name, inside);
}
// Returns the layer's number.
HEADROOM_EXPORT std::uint32_t headroom_memory_tracer_layer(void* tracer, const char* name,
                                                           std::uint32_t parent) {
  const SessionLock held;
  return session_of(tracer).account.add_layer(name, parent, LayerKind::module);
}
// Returns the module's previous layer, 0 if it had none. `layer` 0 removes the module.
HEADROOM_EXPORT std::uint32_t headroom_memory_tracer_module(void* tracer, const void* module,
                                                            std::uint32_t layer) {
  const SessionLock held;
  auto& modules = session_of(tracer).modules;
  const auto address = reinterpret_cast<std::uint64_t>(module);
  const LayerId* const known = modules.find(address);
  const LayerId before = known == nullptr ? kOutside : *known;
  modules.erase(address);
  if (layer != kOutside) modules.set(address, layer);
  return before;
}

// Each weight is three numbers: address, bytes, and the CUDA device or -1 for the CPU.
HEADROOM_EXPORT int headroom_memory_tracer_begin(void* tracer, const std::int64_t* weights,
                                                 std::uint64_t count) {
  return attempt([&] {
    std::vector<WeightBlock> blocks;
    for (std::uint64_t i = 0; i < count; ++i)
      blocks.push_back({static_cast<std::uint64_t>(weights[3 * i]),
                        static_cast<std::uint64_t>(weights[3 * i + 1]),
                        static_cast<Device>(weights[3 * i + 2] + 1)});
    open_trace(session_of(tracer), blocks);
  });
}
HEADROOM_EXPORT void headroom_memory_tracer_end(void* tracer) { close_trace(session_of(tracer)); }

// Returns 1 if the attribute is missing or already replaced.
HEADROOM_EXPORT int headroom_memory_tracer_hook(void* owner, const char* name, int stand_in) {
  auto* const object = static_cast<Object*>(owner);
  if (stand_in == kModuleCall) headroom::preload::learn_module_call(object);
  return replace_attribute(object, name, kStandIns[stand_in]) ? 0 : 1;
}
HEADROOM_EXPORT void headroom_memory_tracer_unhook(void* owner, const char* name) {
  restore_attribute(static_cast<Object*>(owner), name);
}

namespace {

char* text_for_python(const std::string& text) {
  char* const copy = new char[text.size() + 1];
  std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

}  // namespace

// Null device: the tracer's own.
HEADROOM_EXPORT char* headroom_memory_tracer_stats(void* tracer, const char* device) {
  char* text = nullptr;
  attempt([&] {
    text = text_for_python(stats_json(*static_cast<MemoryTracer*>(tracer), device == nullptr ? "" : device));
  });
  return text;
}
HEADROOM_EXPORT char* headroom_memory_tracer_events(void* tracer) {
  return text_for_python(events_json(*static_cast<MemoryTracer*>(tracer)));
}
HEADROOM_EXPORT char* headroom_memory_tracer_summary(void* tracer) {
  return text_for_python(static_cast<MemoryTracer*>(tracer)->summary());
}
HEADROOM_EXPORT int headroom_memory_tracer_export_flame_graph(void* tracer, const char* path) {
  return attempt([&] { static_cast<MemoryTracer*>(tracer)->export_flame_graph(path); });
}
HEADROOM_EXPORT int headroom_memory_tracer_export_timeline(void* tracer, const char* path) {
  return attempt([&] { static_cast<MemoryTracer*>(tracer)->export_timeline(path); });
}
