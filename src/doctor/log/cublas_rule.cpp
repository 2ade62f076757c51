// cuBLAS, cuDNN and their like could not make their handle or workspace.
#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

constexpr std::string_view kNotInitialized = "not initialized";

std::optional<LogMessage> read(std::string_view line) {
  LogMessage message;
  for (const std::string_view library : {"CUBLAS", "CUDNN", "CUSOLVER", "CUSPARSE", "CUFFT"})
    if (has(line, library) &&
        (has(line, "STATUS_ALLOC_FAILED") || has(line, "_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED") ||
         has(line, "_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED") || has(line, "CUFFT_ALLOC_FAILED") ||
         has(line, "the resource allocation failed"))) {
      message.add("library", library);
      return message;
    }
  // What PyTorch says of a full GPU as well: "CUBLAS_STATUS_NOT_INITIALIZED when calling
  // `cublasCreate(handle)`".
  for (const std::string_view library : {"CUBLAS", "CUDNN"})
    if (has(line, std::string(library) + "_STATUS_NOT_INITIALIZED")) {
      message.add("library", library);
      message.subject = kNotInitialized;
      return message;
    }
  return std::nullopt;
}

Finding explain(const LogMessage& message) {
  Finding finding;
  finding.id = "cublas-allocation-failed";
  finding.severity = Severity::severe;
  finding.title = message.text("library") + " could not allocate its handle or workspace";
  finding.cause =
      "The GPU was full when the library was first used. The library allocates outside the framework's "
      "memory pool, and that pool held the rest.";
  finding.confidence = Confidence::likely;
  if (message.subject == kNotInitialized) {
    finding.title = message.text("library") + " could not be initialised: most often the GPU is full";
    finding.cause =
        "The GPU was full when the library was first used. Or an earlier GPU kernel failed, and this call is "
        "the first to report it: CUDA_LAUNCH_BLOCKING=1 shows which kernel.";
    finding.confidence = Confidence::possible;
  }
  finding.cures = {
      {"leave GPU memory outside PyTorch's pool", "torch.cuda.set_per_process_memory_fraction(0.9)", {}},
      {"use a smaller workspace (PyTorch)", "CUBLAS_WORKSPACE_CONFIG=:16:8", {}},
      {"use a smaller batch, or end other processes that use the GPU", "nvidia-smi", {}}};
  return finding;
}

}  // namespace

LogRule cublas_rule() {
  return {"cublas",
          {"ALLOC_FAILED", "ALLOCATION_FAILED", "resource allocation failed", "_STATUS_NOT_INITIALIZED"},
          read,
          explain};
}

}  // namespace headroom::doctor
