// ONNX Runtime with planted faults, for benchmarks/diff_power.py: this library returns the real library's
// API, except for the run calls. HEADROOM_ONNXRUNTIME names this library. Environment variables select the
// faults:
//
//   HEADROOM_PLANTED_LIBRARY   the real libonnxruntime.so.1
//   HEADROOM_PLANTED_SLOWDOWN  each run takes this share longer (0.03): it spins for that share of its time
//   HEADROOM_PLANTED_BYTES     bytes that the first run allocates, touches and keeps
//
// So the program that headroom diff has to detect really is slower and larger; no figure is edited.
#include <dlfcn.h>
#include <onnxruntime_c_api.h>
#include <stdlib.h>

#include <atomic>
#include <chrono>
#include <cstring>

namespace {

using Clock = std::chrono::steady_clock;

const OrtApi* real_api = nullptr;
OrtApi planted_api;
double slowdown = 0;
std::atomic<long long> bytes_to_take{0};
void* volatile kept = nullptr;  // volatile, so that the compiler does not remove it

void take_memory() {
  const long long bytes = bytes_to_take.exchange(0);
  if (bytes <= 0) return;
  kept = ::malloc(static_cast<std::size_t>(bytes));
  if (kept != nullptr) std::memset(kept, 1, static_cast<std::size_t>(bytes));
}

// Calls `run`, then adds the planted faults.
template <class Run>
OrtStatus* with_faults(Run run) {
  take_memory();
  const auto started = Clock::now();
  OrtStatus* status = run();
  const auto ended = Clock::now();
  const auto until = ended + std::chrono::duration_cast<Clock::duration>((ended - started) * slowdown);
  while (Clock::now() < until) {
  }
  return status;
}

OrtStatus* ORT_API_CALL planted_run(OrtSession* session, const OrtRunOptions* options,
                                    const char* const* input_names, const OrtValue* const* inputs,
                                    size_t input_count, const char* const* output_names, size_t output_count,
                                    OrtValue** outputs) noexcept {
  return with_faults([&] {
    return real_api->Run(session, options, input_names, inputs, input_count, output_names, output_count,
                         outputs);
  });
}

OrtStatus* ORT_API_CALL planted_run_with_binding(OrtSession* session, const OrtRunOptions* options,
                                                 const OrtIoBinding* binding) noexcept {
  return with_faults([&] { return real_api->RunWithBinding(session, options, binding); });
}

const OrtApiBase* real_base() {
  static const OrtApiBase* const kBase = [] {
    const char* name = ::getenv("HEADROOM_PLANTED_LIBRARY");
    void* library = name == nullptr ? nullptr : ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return static_cast<const OrtApiBase*>(nullptr);
    const auto get = reinterpret_cast<const OrtApiBase* (*)()>(::dlsym(library, "OrtGetApiBase"));
    return get == nullptr ? nullptr : get();
  }();
  return kBase;
}

const OrtApi* ORT_API_CALL get_planted_api(uint32_t version) noexcept {
  const OrtApi* api = real_base()->GetApi(version);
  if (api == nullptr) return nullptr;
  real_api = api;
  planted_api = *api;
  planted_api.Run = planted_run;
  planted_api.RunWithBinding = planted_run_with_binding;
  if (const char* share = ::getenv("HEADROOM_PLANTED_SLOWDOWN")) slowdown = ::atof(share);
  if (const char* bytes = ::getenv("HEADROOM_PLANTED_BYTES")) bytes_to_take = ::atoll(bytes);
  return &planted_api;
}

const char* ORT_API_CALL get_version() noexcept { return real_base()->GetVersionString(); }

}  // namespace

extern "C" __attribute__((visibility("default"))) const OrtApiBase* ORT_API_CALL OrtGetApiBase() noexcept {
  static const OrtApiBase kPlanted{get_planted_api, get_version};
  return real_base() == nullptr ? nullptr : &kPlanted;
}
