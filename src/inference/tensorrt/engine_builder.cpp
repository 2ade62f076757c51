#include "inference/tensorrt/engine_builder.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "inference/tensorrt/engine_builder_plugin.h"

namespace headroom::tensorrt {

Result<EngineOutcome> build_engine_with(const std::filesystem::path& plugin, const EngineOrder& order,
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
  hr_engine_order wanted{};
  wanted.struct_size = sizeof wanted;
  wanted.model = order.model.c_str();
  wanted.engine = order.engine.c_str();
  wanted.device = order.device.c_str();
  wanted.creator = order.creator.c_str();
  wanted.created_at = order.created_at.c_str();
  wanted.image_size = order.image_size;
  wanted.precision = static_cast<std::int32_t>(order.precision);
  wanted.workspace_bytes = order.workspace.count;
  wanted.force = order.force ? 1 : 0;
  wanted.progress = [](void* context, const char* text) {
    (*static_cast<const std::function<void(const std::string&)>*>(context))(text);
  };
  wanted.progress_context = const_cast<std::function<void(const std::string&)>*>(&progress);
  hr_engine_outcome outcome{};
  outcome.struct_size = sizeof outcome;
  hr_error error{};
  if (build(&wanted, &outcome, &error) != 0) {
    error.message[sizeof error.message - 1] = '\0';
    const std::string what = fmt::format("no engine was built of {}", order.model.string()),
                      why = error.message;
    if (error.kind == HR_ERROR_UNAVAILABLE) return input_error(what, why);
    return failure(what, error.kind == HR_ERROR_OUT_OF_MEMORY ? "out of memory: " + why : why);
  }
  outcome.note[sizeof outcome.note - 1] = '\0';
  return EngineOutcome{outcome.was_there != 0, Bytes{outcome.device_peak_bytes}, outcome.refused,
                       outcome.note};
}

}  // namespace headroom::tensorrt
