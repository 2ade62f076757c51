// The C interface of the ONNX Runtime plug-in. No exception leaves it.
#include <array>

#include "inference/backend_plugin.h"
#include "inference/onnxruntime/runtime.h"
#include "inference/onnxruntime/session.h"
#include "inference/onnxruntime/session_options.h"
#include "inference/plugin/cuda_device.h"
#include "inference/plugin/plugin_calls.h"

#if defined(HEADROOM_PROVIDER_TENSORRT)
#define HEADROOM_BACKEND_NAME "onnxruntime_tensorrt"
#else
#define HEADROOM_BACKEND_NAME "onnxruntime"
#endif

namespace {

namespace plugin = headroom::plugin;
using headroom::onnxruntime::Runtime;

plugin::StartedRuntime<Runtime>& runtime() {
  static plugin::StartedRuntime<Runtime> instance("ONNX Runtime");
  return instance;
}

int start(hr_error* error) { return runtime().start(error); }
void stop() { runtime().stop(); }
const char* version() { return runtime().version(); }

int load(const char* path, const hr_settings* settings, hr_session** session, hr_error* error) {
  return runtime().load(path, settings, session, error);
}

int prepare_device(const char* device, hr_device_facts* facts, hr_error* error) {
  return plugin::guarded(error, [&] { plugin::prepare_device(device, "cpu and cuda:N", *facts); });
}

int make_arena(int64_t bytes, hr_error* error) {
  return plugin::guarded(error, [&] { runtime().get()->fill_shared_arena(bytes); });
}

constexpr std::array<const char*, 3> kExtensions{".onnx", ".ort", nullptr};

const hr_backend kBackend{HEADROOM_BACKEND_ABI,
                          sizeof(hr_backend),
                          HEADROOM_BACKEND_NAME,
                          kExtensions.data(),
                          start,
                          stop,
                          version,
                          load,
                          plugin::unload<hr_session>,
                          plugin::describe<hr_session>,
                          plugin::bind_input<hr_session>,
                          plugin::run<hr_session>,
                          plugin::output<hr_session>,
                          plugin::memory_stats<hr_session>,
                          plugin::trim<hr_session>,
                          prepare_device,
                          plugin::placement<hr_session>,
                          plugin::run_facts<hr_session>,
                          plugin::share<hr_session>,
                          make_arena};

}  // namespace

extern "C" __attribute__((visibility("default"))) const hr_backend* headroom_backend(void) {
#if defined(HEADROOM_PROVIDER_TENSORRT)
  headroom::onnxruntime::device_provider = headroom::onnxruntime::DeviceProvider::tensorrt;
#endif
  return &kBackend;
}
