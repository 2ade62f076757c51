#include "inference/tensorrt/machine.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "base/files.h"
#include "base/text.h"
#include "inference/tensorrt/failure.h"

namespace headroom::tensorrt {
namespace {

std::string compute_capability(const cuda::Driver& driver, unsigned ordinal) {
  int device = 0, major = 0, minor = 0;
  const cuda::Functions& call = driver.call();
  if (call.cuDeviceGet(&device, static_cast<int>(ordinal)) != cuda::kSuccess ||
      call.cuDeviceGetAttribute(&major, cuda::kAttributeMajor, device) != cuda::kSuccess ||
      call.cuDeviceGetAttribute(&minor, cuda::kAttributeMinor, device) != cuda::kSuccess)
    return {};
  return fmt::format("{}.{}", major, minor);
}

// 13000 → "13.0".
std::string cuda_version() {
  const auto get = reinterpret_cast<cuda::Code (*)(int*)>(::dlsym(RTLD_DEFAULT, "cuDriverGetVersion"));
  int version = 0;
  if (get == nullptr || get(&version) != cuda::kSuccess) return {};
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string driver_version() {
  const auto text = read_small_file("/sys/module/nvidia/version");
  return text ? std::string(trim(*text)) : std::string();
}

}  // namespace

EngineMachine machine_here(const cuda::Driver& driver, unsigned ordinal,
                           const std::string& tensorrt_version) {
  const cuda::DeviceFacts facts = driver.facts(ordinal);
  return {facts.name,      compute_capability(driver, ordinal), facts.uuid, driver_version(), cuda_version(),
          tensorrt_version};
}

void require_compatible_engine(const std::filesystem::path& engine, const EngineMachine& here) {
  const auto record = value_or_throw(read_record(engine));
  if (!record) return;
  auto why = why_incompatible(*record, here);
  if (!why) why = value_or_throw(why_stale(*record, engine));
  if (!why) return;
  const std::string model = record->model_path.empty() ? "MODEL.onnx" : shell_word(record->model_path);
  // The fix repeats the engine's settings, so that the new engine gives comparable figures.
  std::string same_settings = fmt::format("--imgsz {}", record->settings.image_size);
  if (record->settings.precision != name_of(Precision::fp32))
    same_settings += " --" + record->settings.precision;
  if (record->settings.workspace > Bytes{})
    same_settings += fmt::format(" --workspace {}", exact_size(record->settings.workspace));
  throw Failure{HR_ERROR_FAILED,
                fmt::format("{}; rebuild it with: headroom build-engine {} {} --out {} --force", *why, model,
                            same_settings, shell_word(engine.string()))};
}

}  // namespace headroom::tensorrt
