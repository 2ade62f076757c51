// A call stack as names: what the views and comparisons of recordings see of the symbols, wherever they come
// from.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace headroom::comparison {

struct NamedFrame {
  std::string function;  // demangled; where none is known the place, as "libfoo.so+0x1a2b"
  std::string module;    // file name without folders; empty outside of every module
  bool named = true;     // false where `function` is only a place
};

// Behind the module's name, where a place is compared that has no function.
inline constexpr std::string_view kFunctionUnknown = " (function unknown)";

// The functions at a return address, inlined ones first. Never empty.
using FrameLookup = std::function<std::vector<NamedFrame>(std::uint64_t return_address)>;

// The function without what compilers add to the copies that they make of it: "resize.constprop.0" and
// "resize() [clone .isra.2]" are "resize" and "resize()".
std::string_view without_clone_suffix(std::string_view function);

// "libfoo.so.1.29.0" is "libfoo.so": the next version of a library has the same name.
std::string_view without_version(std::string_view module);

}  // namespace headroom::comparison
