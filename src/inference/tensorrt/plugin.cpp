// The C interface of the TensorRT plug-in. No exception leaves it.
#include <array>
#include <memory>

#include "inference/backend_plugin.h"
#include "inference/plugin/cuda_device.h"
#include "inference/plugin/plugin_calls.h"
#include "inference/tensorrt/builder.h"
#include "inference/tensorrt/session.h"

namespace {

namespace plugin = headroom::plugin;
using headroom::tensorrt::Library;

plugin::StartedRuntime<Library>& library() {
  static plugin::StartedRuntime<Library> instance("TensorRT");
  return instance;
}

int start(hr_error* error) { return library().start(error); }
void stop() { library().stop(); }
const char* version() { return library().version(); }

int load(const char* path, const hr_settings* settings, hr_session** session, hr_error* error) {
  return library().load(path, settings, session, error);
}

// There is nothing to trim: each run uses all memory of its session.
int trim(hr_session*, hr_error*) { return 0; }

int prepare_device(const char* device, hr_device_facts* facts, hr_error* error) {
  return plugin::guarded(error, [&] { plugin::prepare_device(device, "cuda:N", *facts); });
}

// .onnx stands for the engine that was built from it and lies next to it.
constexpr std::array<const char*, 4> kExtensions{".engine", ".plan", ".onnx", nullptr};

const hr_backend kBackend{HEADROOM_BACKEND_ABI,
                          sizeof(hr_backend),
                          "tensorrt",
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
                          trim,
                          prepare_device,
                          plugin::placement<hr_session>,
                          plugin::run_facts<hr_session>,
                          nullptr,
                          nullptr};

}  // namespace

extern "C" __attribute__((visibility("default"))) const hr_backend* headroom_backend(void) {
  return &kBackend;
}

extern "C" __attribute__((visibility("default"))) int headroom_build_engine(const hr_engine_request* request,
                                                                            hr_engine_outcome* outcome,
                                                                            hr_error* error) {
  return plugin::guarded(error, [&] {
    if (request->struct_size < sizeof(hr_engine_request) || outcome->struct_size < sizeof(hr_engine_outcome))
      throw plugin::Failure{
          HR_ERROR_UNAVAILABLE,
          "the request comes from an older Headroom than this plug-in; install both from the same version"};
    const auto opened = std::make_shared<Library>();
    headroom::tensorrt::build_engine(*opened, *request, *outcome);
  });
}
