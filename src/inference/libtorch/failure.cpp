#include "inference/libtorch/failure.h"

#include <algorithm>
#include <array>

namespace headroom::libtorch {
namespace {

constexpr std::size_t kLongest = 400;

bool mentions(std::string_view message, std::string_view words) {
  return message.find(words) != std::string_view::npos;
}

std::string_view before(std::string_view text, std::string_view words) {
  return text.substr(0, std::min(text.find(words), text.size()));
}

// The text after the last occurrence of `words`; the whole text if there is none.
std::string_view after_last(std::string_view text, std::string_view words) {
  const std::size_t at = text.rfind(words);
  return at == std::string_view::npos ? text : text.substr(at + words.size());
}

// The core of a message. The interpreter prints its stack first, then the exception; the importer prints
// the error first, then its position.
std::string_view core_message(std::string_view message) {
  message = before(message, "\nException raised from ");
  for (const std::string_view thrown : {"RuntimeError: ", "torch.jit.Error: "})
    if (mentions(message, thrown)) return after_last(message, thrown);
  return before(before(message, ":\n  File \""), "Serialized   File \"");
}

// Removes the prefix of "[enforce fail at alloc_cpu.cpp:75] err == 0. DefaultCPUAllocator: …".
std::string_view without_enforce(std::string_view reason) {
  if (!reason.starts_with("[enforce fail at ")) return reason;
  const std::size_t end = reason.find(". ");
  return end == std::string_view::npos ? reason : reason.substr(end + 2);
}

std::string_view explanation_of(std::string_view message) {
  if (mentions(message, "Unknown builtin op:"))
    return "it uses an operator that this LibTorch does not support: ";
  if (mentions(message, "PytorchStreamReader failed") ||
      mentions(message, "file in archive is not in a subdirectory"))
    return "the file is damaged: ";
  if (mentions(message, "Unknown type name") && mentions(message, "__torch__.torch.classes"))
    return "it uses a class that this LibTorch does not support: ";
  return {};
}

}  // namespace

bool mentions_out_of_memory(std::string_view message) {
  constexpr std::array<std::string_view, 11> kWords{"out of memory",
                                                    "Out of memory",
                                                    "bad_alloc",
                                                    "can't allocate memory",
                                                    "not enough memory",
                                                    "Cannot allocate memory",
                                                    "CUBLAS_STATUS_ALLOC_FAILED",
                                                    "CUDNN_STATUS_ALLOC_FAILED",
                                                    "cudaErrorMemoryAllocation",
                                                    "NVML_SUCCESS == r INTERNAL ASSERT FAILED",
                                                    "!block->expandable_segment_ INTERNAL ASSERT FAILED"};
  return std::any_of(kWords.begin(), kWords.end(),
                     [&](std::string_view words) { return mentions(message, words); });
}

std::string clean_message(std::string_view message) {
  std::string_view reason = without_enforce(core_message(message));
  // After the figures of a refusal, LibTorch gives advice on environment variables.
  reason = before(reason, " If reserved ");
  reason = before(reason, "Could not find any similar ops");
  std::string clean = plugin::without_source_places(reason);
  if (clean.size() > kLongest) clean = clean.substr(0, kLongest) + "…";
  return clean;
}

Failure classify(std::string_view message) {
  return {mentions_out_of_memory(message) ? HR_ERROR_OUT_OF_MEMORY : HR_ERROR_FAILED,
          std::string(explanation_of(message)) + clean_message(message)};
}

}  // namespace headroom::libtorch
