// The C interface of the LibTorch plug-in. No exception leaves it.
#include <array>

#include "inference/backend_plugin.h"
#include "inference/libtorch/session.h"
#include "inference/plugin/plugin_calls.h"

namespace {

namespace plugin = headroom::plugin;
using headroom::libtorch::Library;

plugin::StartedRuntime<Library>& library() {
  static plugin::StartedRuntime<Library> instance("LibTorch");
  return instance;
}

int start(hr_error* error) { return library().start(error); }
void stop() { library().stop(); }
const char* version() { return library().version(); }

int load(const char* path, const hr_settings* settings, hr_session** session, hr_error* error) {
  return library().load(path, settings, session, error);
}

int prepare_device(const char* device, hr_device_facts* facts, hr_error* error) {
  return plugin::guarded(error, [&] { headroom::libtorch::prepare_device(device, *facts); });
}

constexpr std::array<const char*, 5> kExtensions{".torchscript", ".pt", ".pth", ".ts", nullptr};

const hr_backend kBackend{HEADROOM_BACKEND_ABI,
                          sizeof(hr_backend),
                          "libtorch",
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
                          nullptr,
                          nullptr};

}  // namespace

extern "C" __attribute__((visibility("default"))) const hr_backend* headroom_backend(void) {
  return &kBackend;
}
