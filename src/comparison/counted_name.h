// ONNX Runtime names the nodes that it adds itself by a counter (ReorderOutput_token_123), which goes to
// other nodes in each process: by their names alone two runs of one model would differ by all of them.
#pragma once

#include <optional>
#include <string_view>

namespace headroom::comparison {

// "ReorderOutput" of "ReorderOutput_token_123"; nothing of a name that the model's author gave. Of a path the
// stem has the folders before it.
inline std::optional<std::string_view> stem_of_counted_name(std::string_view name) {
  constexpr std::string_view kCounted = "_token_";
  const std::size_t at = name.rfind(kCounted);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view number = name.substr(at + kCounted.size());
  if (number.empty() || number.find_first_not_of("0123456789") != std::string_view::npos) return std::nullopt;
  return name.substr(0, at);
}

}  // namespace headroom::comparison
