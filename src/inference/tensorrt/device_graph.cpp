#include "inference/tensorrt/device_graph.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <utility>

#include "inference/tensorrt/failure.h"

namespace headroom::tensorrt {
namespace {

using cuda::Code;
using cuda::Opaque;

// Functions of the CUDA driver, which is already loaded with global symbols.
struct Calls {
  Code (*begin)(Opaque, int);
  Code (*end)(Opaque, Opaque*);
  Code (*instantiate)(Opaque*, Opaque, unsigned long long);
  Code (*launch)(Opaque, Opaque);
  Code (*destroy_exec)(Opaque);
  Code (*destroy)(Opaque);
};

template <class Function>
Function find(const char* name) {
  const auto function = reinterpret_cast<Function>(::dlsym(RTLD_DEFAULT, name));
  if (function == nullptr)
    throw Failure{HR_ERROR_UNAVAILABLE, fmt::format("the CUDA driver has no {}; omit --capture-graph", name)};
  return function;
}

const Calls& calls() {
  static const Calls kCalls{find<decltype(Calls::begin)>("cuStreamBeginCapture_v2"),
                            find<decltype(Calls::end)>("cuStreamEndCapture"),
                            find<decltype(Calls::instantiate)>("cuGraphInstantiateWithFlags"),
                            find<decltype(Calls::launch)>("cuGraphLaunch"),
                            find<decltype(Calls::destroy_exec)>("cuGraphExecDestroy"),
                            find<decltype(Calls::destroy)>("cuGraphDestroy")};
  return kCalls;
}

}  // namespace

void DeviceGraph::capture(const std::function<void()>& work) {
  const Calls& call = calls();
  forget();
  const auto check = [&](Code code, const char* name) {
    if (code == cuda::kSuccess) return;
    throw Failure{
        code == cuda::kOutOfMemory ? HR_ERROR_OUT_OF_MEMORY : HR_ERROR_FAILED,
        fmt::format("cannot capture a run as a CUDA graph ({} failed with {}); omit --capture-graph", name,
                    device_.driver().name_of(code))};
  };
  check(call.begin(device_.stream(), cuda::kCaptureThreadLocal), "cuStreamBeginCapture");
  Opaque graph = nullptr;
  try {
    work();
  } catch (...) {
    if (call.end(device_.stream(), &graph) == cuda::kSuccess && graph != nullptr) call.destroy(graph);
    throw;
  }
  check(call.end(device_.stream(), &graph), "cuStreamEndCapture");
  const Code code = call.instantiate(&exec_, graph, 0);
  call.destroy(graph);
  check(code, "cuGraphInstantiate");
}

void DeviceGraph::launch() const {
  const Code code = calls().launch(exec_, device_.stream());
  if (code != cuda::kSuccess)
    throw Failure{HR_ERROR_FAILED,
                  fmt::format("cuGraphLaunch failed with {}", device_.driver().name_of(code))};
}

void DeviceGraph::forget() {
  if (exec_ != nullptr) calls().destroy_exec(std::exchange(exec_, nullptr));
}

}  // namespace headroom::tensorrt
