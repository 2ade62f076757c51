#include "inference/tensorrt/engine_builder.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "inference/tensorrt/engine_builder_plugin.h"

namespace headroom::tensorrt {

Result<EngineOutcome> build_engine_with(const std::filesystem::path& plugin, const EngineRequest& request,
                                        const std::function<void(const std::string&)>& progress) {
  void* library = ::dlopen(plugin.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = ::dlerror();
    return input_error(fmt::format("cannot use the plug-in {}", plugin.string()),
                       reason == nullptr ? "it cannot be loaded" : reason);
  }
  const auto build =
      reinterpret_cast<hr_build_engine_function>(::dlsym(library, HEADROOM_ENGINE_BUILDER_SYMBOL));
  if (build == nullptr)
    return input_error(fmt::format("cannot build an engine with {}", plugin.string()),
                       fmt::format("it does not export {}()", HEADROOM_ENGINE_BUILDER_SYMBOL),
                       "use the plug-in of this Headroom");
  hr_engine_request wanted{};
  wanted.struct_size = sizeof wanted;
  wanted.model = request.model.c_str();
  wanted.engine = request.engine.c_str();
  wanted.device = request.device.c_str();
  wanted.creator = request.creator.c_str();
  wanted.created_at = request.created_at.c_str();
  wanted.image_size = request.image_size;
  wanted.precision = static_cast<std::int32_t>(request.precision);
  wanted.workspace_bytes = request.workspace.count;
  wanted.force = request.force ? 1 : 0;
  wanted.progress = [](void* context, const char* text) {
    (*static_cast<const std::function<void(const std::string&)>*>(context))(text);
  };
  wanted.progress_context = const_cast<std::function<void(const std::string&)>*>(&progress);
  hr_engine_outcome outcome{};
  outcome.struct_size = sizeof outcome;
  hr_error error{};
  if (build(&wanted, &outcome, &error) != 0) {
    error.message[sizeof error.message - 1] = '\0';
    const std::string what = fmt::format("cannot build an engine from {}", request.model.string()),
                      why = error.message;
    if (error.kind == HR_ERROR_UNAVAILABLE) return input_error(what, why);
    return failure(what, error.kind == HR_ERROR_OUT_OF_MEMORY ? "out of memory: " + why : why);
  }
  outcome.note[sizeof outcome.note - 1] = '\0';
  return EngineOutcome{outcome.already_built != 0, Bytes{outcome.device_peak_bytes}, outcome.refused,
                       outcome.note};
}

}  // namespace headroom::tensorrt
