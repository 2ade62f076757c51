#include "inference/tensorrt/failure.h"

#include <algorithm>
#include <array>

namespace headroom::tensorrt {

bool mentions_out_of_memory(std::string_view message) {
  constexpr std::array<std::string_view, 6> kWords{
      "out of memory", "Out of memory", "OutOfMemory", "OUT_OF_MEMORY", "cudaErrorMemoryAllocation",
      "bad_alloc"};
  return std::any_of(kWords.begin(), kWords.end(),
                     [&](std::string_view words) { return message.find(words) != std::string_view::npos; });
}

}  // namespace headroom::tensorrt
