// PyTorch tells some failures for want of GPU memory as failed assertions. On a Jetson it asks NVML for the
// free memory to put it into its message, and NVML has no such figure there. With expandable_segments it
// tried to give a block of such a segment back as if it were one of its own.
#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

constexpr const char* kSegment = "!block->expandable_segment_";

std::optional<LogMessage> read(std::string_view line) {
  // The file, CUDACachingAllocator.cpp, may stand on the next line.
  if (!has(line, "INTERNAL ASSERT FAILED")) return std::nullopt;
  LogMessage message;
  // "NVML_SUCCESS == r", "NVML_SUCCESS == DriverAPI::get()->nvmlInit_v2_()" of 2.1 to 2.4.
  if (const std::size_t nvml = line.find("NVML_SUCCESS == "); nvml != line.npos) {
    message.add("assertion", line.substr(nvml, line.find(" INTERNAL ASSERT", nvml) - nvml));
    return message;
  }
  if (!has(line, kSegment)) return std::nullopt;
  message.subject = kSegment;
  message.add("assertion", kSegment);
  return message;
}

Finding explain_segment(Finding finding) {
  finding.title =
      "PyTorch ran out of GPU memory, and a check of its expandable segments failed (reported as an internal "
      "assertion)";
  finding.cause =
      "When memory ran out, PyTorch tried to release an idle block of an expandable segment. This is a bug "
      "up to 2.4 when expandable_segments:True is used with max_split_size_mb or "
      "garbage_collection_threshold.";
  finding.confidence = Confidence::likely;
  finding.cures = {
      {"disable expandable segments", "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False", {}},
      {"or remove max_split_size_mb and garbage_collection_threshold, and use PyTorch 2.5 or later",
       "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
       {}},
      {"release the objects of one call before the next call",
       "del predictor; gc.collect(); torch.cuda.empty_cache()",
       {}},
      {"use a smaller input", "imgsz = imgsz // 2 // 32 * 32", {}},
      {"see which layer holds the memory", "headroom trace -- python3 app.py", {}}};
  finding.first_cure_meets_cause = true;
  return finding;
}

Finding explain(const LogMessage& message) {
  Finding finding;
  finding.id = "pytorch-tegra-out-of-memory";
  finding.severity = Severity::severe;
  if (message.subject == kSegment) return explain_segment(finding);
  finding.title = "PyTorch ran out of GPU memory on a Jetson (reported as an internal assertion)";
  finding.cause =
      "cudaMalloc failed. PyTorch then asked NVML for the free memory, but NVML on a Jetson does not report "
      "it, and that check failed. Often, objects of one call were still alive in the next call.";
  finding.confidence = Confidence::likely;
  finding.cures = {{"release the objects of one call before the next call",
                    "del predictor; gc.collect(); torch.cuda.empty_cache()",
                    {}},
                   {"drop the page cache before models are loaded: NvMap uses free pages only",
                    "sync; echo 1 | sudo tee /proc/sys/vm/drop_caches",
                    {}},
                   {"use a smaller input", "imgsz = imgsz // 2 // 32 * 32", {}},
                   {"see which layer holds the memory", "headroom trace -- python3 app.py", {}}};
  return finding;
}

}  // namespace

LogRule tegra_assert_rule() { return {"tegra-assert", {"INTERNAL ASSERT FAILED"}, read, explain}; }

}  // namespace headroom::doctor
