// PyTorch on a Jetson tells an out-of-memory as a failed assertion: it asks NVML for the free memory to put
// it into its message, and NVML has no such figure there.
#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

std::optional<LogMessage> read(std::string_view line) {
  // The file, CUDACachingAllocator.cpp, may stand on the next line.
  if (!has(line, "INTERNAL ASSERT FAILED")) return std::nullopt;
  // "NVML_SUCCESS == r", "NVML_SUCCESS == DriverAPI::get()->nvmlInit_v2_()" of 2.1 to 2.4.
  const std::size_t nvml = line.find("NVML_SUCCESS == ");
  if (nvml == line.npos && !has(line, "expandable_segment_")) return std::nullopt;
  LogMessage message;
  const std::string_view assertion = nvml == line.npos
                                         ? "!block->expandable_segment_"
                                         : line.substr(nvml, line.find(" INTERNAL ASSERT", nvml) - nvml);
  message.add("assertion", assertion);
  return message;
}

Finding explain(const LogMessage&) {
  Finding finding;
  finding.id = "pytorch-tegra-out-of-memory";
  finding.severity = Severity::severe;
  finding.title = "PyTorch ran out of GPU memory on a Jetson (told as an internal assertion)";
  finding.cause =
      "cudaMalloc failed; PyTorch then asked NVML for the free memory, which Tegra's has not, and that check "
      "is what "
      "failed. Often objects of one call still lived in the next.";
  finding.confidence = Confidence::likely;
  finding.cures = {{"release what a call has made before the next one",
                    "del predictor; gc.collect(); torch.cuda.empty_cache()",
                    {}},
                   {"give the page cache back before models are loaded: NvMap takes free pages only",
                    "sync; echo 1 | sudo tee /proc/sys/vm/drop_caches",
                    {}},
                   {"use a smaller input", "imgsz = imgsz // 2 // 32 * 32", {}},
                   {"see which layer holds the memory", "headroom trace -- python3 app.py", {}}};
  return finding;
}

}  // namespace

LogRule tegra_assert_rule() { return {"tegra-assert", {"INTERNAL ASSERT FAILED"}, read, explain}; }

}  // namespace headroom::doctor
