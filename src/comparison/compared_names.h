// The names of stacks and nodes that comparisons of recordings and runs pair.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace headroom::comparison {

struct NamedFrame {
  std::string function;  // demangled; where none is known the place, as "libfoo.so+0x1a2b"
  std::string module;    // file name without folders; empty outside of every module
  bool named = true;     // false where `function` is only a place
};

// Replaces an unknown function behind its module's name.
inline constexpr std::string_view kFunctionUnknown = " (function unknown)";

// The functions at a return address, inlined ones first. Never empty.
using FrameLookup = std::function<std::vector<NamedFrame>(std::uint64_t return_address)>;

// "resize" of "resize.constprop.0", "resize()" of "resize() [clone .isra.2]".
std::string_view without_clone_suffix(std::string_view function);

// "libfoo.so" of "libfoo.so.1.29.0".
std::string_view without_version(std::string_view module);

// "ReorderOutput" of "ReorderOutput_token_123", with the folders of a path; nothing for other names. ONNX
// Runtime numbers the nodes that it adds, with different numbers in each process.
inline std::optional<std::string_view> stem_of_counted_name(std::string_view name) {
  constexpr std::string_view kCounted = "_token_";
  const std::size_t at = name.rfind(kCounted);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view number = name.substr(at + kCounted.size());
  if (number.empty() || number.find_first_not_of("0123456789") != std::string_view::npos) return std::nullopt;
  return name.substr(0, at);
}

}  // namespace headroom::comparison
