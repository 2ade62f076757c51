#include "preload/onnxruntime_hooks.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "preload/onnxruntime_table.h"
#include "preload/scopes.h"
#include "types/lock.h"

namespace headroom::preload {
namespace {

using recording::ScopeSource;

Lock hooking;

// --- the wrappers, one set per copy of the library

std::uint32_t scope_of(std::uint32_t parent, ScopeSource source, const char* name) {
  return intern_scope(parent, source, name, std::strlen(name));
}

// "/models/yolox_nano.onnx" → "yolox_nano".
void name_of_model(const char* path, char* name, std::size_t size) {
  const char* slash = path != nullptr ? std::strrchr(path, '/') : nullptr;
  std::snprintf(name, size, "%s", slash != nullptr ? slash + 1 : path != nullptr ? path : "session");
  char* dot = std::strrchr(name, '.');
  if (dot != nullptr && dot != name) *dot = '\0';
}

// Loads a session by `create(options)` in its own scope, with profiling enabled.
template <class Create>
ort::Status* load_session(int index, const char* name, const ort::SessionOptions* options,
                          ort::Session** session, const Create& create) {
  const Runtime& runtime = runtimes[index];
  const InRuntime in_runtime;
  const std::uint32_t before = current_scope();
  OpenSession* slot = reserve_session(name);
  const std::uint32_t scope = scope_of(before, ScopeSource::session, slot != nullptr ? slot->name : name);
  ort::SessionOptions* profiling = options_with_profile(runtime, options);
  set_scope(scope_of(scope, ScopeSource::load, "load"));
  ort::Status* status = create(profiling != nullptr ? profiling : options);
  set_scope(before);
  // Registered only now, because exit handlers run in reverse order: ours must run before the runtime
  // destroys its state.
  static std::atomic<bool> at_exit_is_set{false};
  if (!at_exit_is_set.exchange(true)) std::atexit(end_profiles_at_exit);
  if (profiling != nullptr)
    original<ort::ReleaseSessionOptions>(runtime, ort::kReleaseSessionOptions)(profiling);
  if (slot == nullptr) return status;
  if (status == nullptr && session != nullptr)
    begin_profile(*slot, *session, index, scope, profiling != nullptr);
  else
    remove_session(slot);
  return status;
}

// Models that are loaded from memory have no name; they are numbered.
void name_of_bytes(char* name, std::size_t size) {
  static std::atomic<unsigned> number{0};
  std::snprintf(name, size, "model %u", ++number);
}

// Runs a session by `run()` in the scope of its runs.
template <class RunIt>
ort::Status* run_session(const void* session, const RunIt& run) {
  OpenSession* slot = find_session(session);
  if (slot == nullptr) return run();
  const ProfiledRun profiled(*slot);
  const std::uint32_t before = current_scope();
  const std::uint32_t parent = before == 0 ? slot->scope : scope_of(before, ScopeSource::session, slot->name);
  set_scope(scope_of(parent, ScopeSource::run, "run"));
  ort::Status* status = run();
  set_scope(before);
  return status;
}

// A run in a thread of the runtime's pool, until the runtime calls back.
struct AsyncRun {
  std::atomic<bool> is_taken{false};
  OpenSession* session = nullptr;
  std::uint64_t start_ns = 0;
  ort::RunAsyncCallback callback = nullptr;
  void* user_data = nullptr;
};
constinit AsyncRun async_runs[256];

AsyncRun* take_async_run() {
  for (AsyncRun& run : async_runs)
    if (!run.is_taken.load(std::memory_order_relaxed) && !run.is_taken.exchange(true)) return &run;
  return nullptr;
}

// Ends the run before the program is notified: its callback may start the next run, or release the session.
void end_async_run(void* context, ort::Value** outputs, std::size_t output_count, ort::Status* status) {
  auto& run = *static_cast<AsyncRun*>(context);
  const ort::RunAsyncCallback callback = run.callback;
  void* const user_data = run.user_data;
  end_run(*run.session, run.start_ns);
  run.is_taken.store(false, std::memory_order_release);
  callback(user_data, outputs, output_count, status);
}

// `run(callback, user_data)` submits the run to the pool. Only profiled runs need to be followed.
template <class RunIt>
ort::Status* run_session_async(const void* session, ort::RunAsyncCallback callback, void* user_data,
                               const RunIt& run) {
  OpenSession* slot = find_session(session);
  if (slot == nullptr || callback == nullptr || !slot->gate.is_profiled()) return run(callback, user_data);
  const InRuntime in_runtime;
  AsyncRun* const async = take_async_run();
  if (async == nullptr) {
    // More asynchronous runs than slots: the end of this one stays unknown. Counting it as in flight keeps
    // the profile open until the session is released.
    std::uint64_t ignored = 0;
    begin_run(*slot, ignored);
    return run(callback, user_data);
  }
  async->session = slot;
  async->callback = callback;
  async->user_data = user_data;
  if (!begin_run(*slot, async->start_ns)) {
    async->is_taken.store(false, std::memory_order_release);
    return run(callback, user_data);
  }
  ort::Status* status = run(end_async_run, async);
  if (status == nullptr) return status;
  // The run was not submitted, so the runtime will not call back.
  end_run(*slot, async->start_ns);
  async->is_taken.store(false, std::memory_order_release);
  return status;
}

// The wrappers. Each gets the number of its copy of the library, the original function and the arguments.

// `Weights`: prepacked weights, or nothing.
template <class... Weights>
ort::Status* create_session(int index,
                            ort::Status* (*call)(const ort::Env*, const char*, const ort::SessionOptions*,
                                                 Weights*..., ort::Session**),
                            const ort::Env* env, const char* path, const ort::SessionOptions* options,
                            Weights*... weights, ort::Session** session) {
  char name[128];
  name_of_model(path, name, sizeof name);
  return load_session(index, name, options, session, [&](const ort::SessionOptions* used) {
    return call(env, path, used, weights..., session);
  });
}
template <class... Weights>
ort::Status* create_session_from_array(int index,
                                       ort::Status* (*call)(const ort::Env*, const void*, std::size_t,
                                                            const ort::SessionOptions*, Weights*...,
                                                            ort::Session**),
                                       const ort::Env* env, const void* bytes, std::size_t size,
                                       const ort::SessionOptions* options, Weights*... weights,
                                       ort::Session** session) {
  char name[128];
  name_of_bytes(name, sizeof name);
  return load_session(index, name, options, session, [&](const ort::SessionOptions* used) {
    return call(env, bytes, size, used, weights..., session);
  });
}
ort::Status* run(int, ort::Run call, ort::Session* session, const ort::RunOptions* options,
                 const char* const* input_names, const ort::Value* const* inputs, std::size_t input_count,
                 const char* const* output_names, std::size_t output_count, ort::Value** outputs) {
  return run_session(session, [&] {
    return call(session, options, input_names, inputs, input_count, output_names, output_count, outputs);
  });
}
ort::Status* run_async(int, ort::RunAsync call, ort::Session* session, const ort::RunOptions* options,
                       const char* const* input_names, const ort::Value* const* inputs,
                       std::size_t input_count, const char* const* output_names, std::size_t output_count,
                       ort::Value** outputs, ort::RunAsyncCallback callback, void* user_data) {
  return run_session_async(session, callback, user_data, [&](ort::RunAsyncCallback used, void* context) {
    return call(session, options, input_names, inputs, input_count, output_names, output_count, outputs, used,
                context);
  });
}
ort::Status* run_with_binding(int, ort::RunWithBinding call, ort::Session* session,
                              const ort::RunOptions* options, const ort::IoBinding* binding) {
  return run_session(session, [&] { return call(session, options, binding); });
}
ort::Status* enable_profiling(int, ort::EnableProfiling call, ort::SessionOptions* options,
                              const char* prefix) {
  ort::Status* status = call(options, prefix);
  if (status == nullptr) set_profiled_by_program(options, true);
  return status;
}
ort::Status* disable_profiling(int, ort::DisableProfiling call, ort::SessionOptions* options) {
  set_profiled_by_program(options, false);
  return call(options);
}
ort::Status* clone_session_options(int, ort::CloneSessionOptions call, const ort::SessionOptions* options,
                                   ort::SessionOptions** clone) {
  ort::Status* status = call(options, clone);
  if (status == nullptr && is_profiled_by_program(options)) set_profiled_by_program(*clone, true);
  return status;
}
void release_session_options(int, ort::ReleaseSessionOptions call, ort::SessionOptions* options) {
  set_profiled_by_program(options, false);
  call(options);
}
void release_session(int, ort::ReleaseSession call, ort::Session* session) {
  OpenSession* slot = session != nullptr ? find_session(session) : nullptr;
  if (slot != nullptr) {
    end_profile_for_release(*slot);
    remove_session(slot);
  }
  call(session);
}

// --- replacing the table's entries

template <int Index, ort::Position position, auto wrapper, class Result, class... Arguments>
void replace(void** table, Result (*)(int, Result (*)(Arguments...), Arguments...)) {
  Result (*const function)(Arguments...) = [](Arguments... arguments) -> Result {
    return wrapper(Index, original<Result (*)(Arguments...)>(runtimes[Index], position), arguments...);
  };
  __atomic_store_n(&table[position], reinterpret_cast<void*>(function), __ATOMIC_RELEASE);
}

template <int Index>
void replace_functions(void** table, bool has_run_async) {
  using ort::PrepackedWeights;
  replace<Index, ort::kCreateSession, create_session<>>(table, create_session<>);
  replace<Index, ort::kCreateSessionFromArray, create_session_from_array<>>(table,
                                                                            create_session_from_array<>);
  replace<Index, ort::kCreateSessionWithPrepacked, create_session<PrepackedWeights>>(
      table, create_session<PrepackedWeights>);
  replace<Index, ort::kCreateSessionFromArrayWithPrepacked, create_session_from_array<PrepackedWeights>>(
      table, create_session_from_array<PrepackedWeights>);
  replace<Index, ort::kRun, run>(table, run);
  replace<Index, ort::kRunWithBinding, run_with_binding>(table, run_with_binding);
  replace<Index, ort::kReleaseSession, release_session>(table, release_session);
  replace<Index, ort::kEnableProfiling, enable_profiling>(table, enable_profiling);
  replace<Index, ort::kDisableProfiling, disable_profiling>(table, disable_profiling);
  replace<Index, ort::kCloneSessionOptions, clone_session_options>(table, clone_session_options);
  replace<Index, ort::kReleaseSessionOptions, release_session_options>(table, release_session_options);
  if (has_run_async) replace<Index, ort::kRunAsync, run_async>(table, run_async);
}

// The loader made the table's memory read-only after relocation.
bool make_writable(void** table, std::size_t functions, bool writable) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(table) & ~(page - 1);
  const auto end = reinterpret_cast<std::uintptr_t>(table + functions);
  return ::mprotect(reinterpret_cast<void*>(begin), end - begin,
                    writable ? PROT_READ | PROT_WRITE : PROT_READ) == 0;
}

bool is_at_least(const ort::ApiBase& base, int oldest_minor) {
  int major = 0, minor = 0;
  return std::sscanf(base.get_version(), "%d.%d", &major, &minor) == 2 &&
         (major > 1 || (major == 1 && minor >= oldest_minor));
}

void wrap_table(void** table, bool has_run_async) {
  int index = 0;
  for (; index < kMostRuntimes; ++index) {
    const void* known = runtimes[index].table.load();
    if (known == table) return;
    if (known == nullptr) break;
  }
  const std::size_t functions = has_run_async ? std::size_t{ort::kRunAsync} + 1 : kTableEnd;
  if (index == kMostRuntimes || !make_writable(table, functions, true)) return;
  std::memcpy(runtimes[index].original, table, sizeof runtimes[index].original);
  if (has_run_async) runtimes[index].run_async = table[ort::kRunAsync];
  runtimes[index].table.store(table);
  constexpr decltype(&replace_functions<0>) kReplace[kMostRuntimes] = {
      replace_functions<0>, replace_functions<1>, replace_functions<2>, replace_functions<3>};
  kReplace[index](table, has_run_async);
  make_writable(table, functions, false);
}

}  // namespace

bool hook_onnxruntime(std::uint64_t get_api_base) {
  const auto get_base = reinterpret_cast<const ort::ApiBase* (*)()>(get_api_base);
  const ort::ApiBase* base = get_base();
  if (base == nullptr || !is_at_least(*base, ort::kOldestMinorVersion)) return true;
  // Any supported version number returns the same table.
  auto** table = static_cast<void**>(const_cast<void*>(base->get_api(ort::kOldestMinorVersion)));
  if (table == nullptr) return true;
  if (!hooking.try_lock()) return false;
  wrap_table(table, is_at_least(*base, ort::kOldestWithRunAsync));
  hooking.unlock();
  return true;
}

}  // namespace headroom::preload
