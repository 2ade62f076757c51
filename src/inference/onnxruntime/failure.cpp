#include "inference/onnxruntime/failure.h"

#include <algorithm>
#include <array>

namespace headroom::onnxruntime {
namespace {

// Removes "Load model from PATH failed:".
std::string_view without_load_prefix(std::string_view text) {
  constexpr std::string_view kPrefix = "Load model from ";
  constexpr std::string_view kFailed = " failed:";
  if (!text.starts_with(kPrefix)) return text;
  const std::size_t at = text.find(kFailed);
  return at == std::string_view::npos ? text : text.substr(at + kFailed.size());
}

// An explanation for the user, to put in front of the runtime's message.
std::string_view explanation_of(std::string_view message) {
  const auto mentions = [&](std::string_view words) { return message.find(words) != std::string_view::npos; };
  if (mentions("Protobuf parsing failed") || mentions("ModelProto does not have a graph"))
    return "the file is damaged or not an ONNX model: ";
  if (mentions("is not a registered function/op"))
    return "it uses an operator that this runtime does not support: ";
  return {};
}

}  // namespace

bool mentions_out_of_memory(std::string_view message) {
  constexpr std::array<std::string_view, 11> kWords{"bad_alloc",
                                                    "bad allocation",
                                                    "Failed to allocate memory",
                                                    "out of memory",
                                                    "Out of memory",
                                                    "is smaller than requested bytes",
                                                    "Cannot allocate memory",
                                                    "OUT_OF_MEMORY",
                                                    "cudaErrorMemoryAllocation",
                                                    "CUBLAS_STATUS_ALLOC_FAILED",
                                                    "CUDNN_STATUS_ALLOC_FAILED"};
  return std::any_of(kWords.begin(), kWords.end(),
                     [&](std::string_view words) { return message.find(words) != std::string_view::npos; });
}

std::string clean_message(std::string_view message) {
  return plugin::without_source_places(without_load_prefix(message));
}

Failure classify(std::string_view message) {
  return {mentions_out_of_memory(message) ? HR_ERROR_OUT_OF_MEMORY : HR_ERROR_FAILED,
          std::string(explanation_of(message)) + clean_message(message)};
}

}  // namespace headroom::onnxruntime
