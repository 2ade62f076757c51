#include "symbols/demangle.h"

#include <libiberty/demangle.h>

#include <csetjmp>

namespace headroom::symbols {
namespace {

constexpr std::size_t kLongestSymbol = 64 * 1024;
constexpr std::string_view kStubSuffix = "@plt";
constexpr std::size_t kLongestName = 16 * 1024;

// A mangled name can refer back to its own parts, so a hostile name of some hundred bytes can expand to
// gigabytes. The demangler cannot be asked to stop. It owns nothing but its stack while printing, so longjmp
// out of it is safe.
struct BoundedOutput {
  std::string text;
  std::jmp_buf too_long;
};

void append(const char* text, std::size_t length, void* output_pointer) {
  auto* output = static_cast<BoundedOutput*>(output_pointer);
  if (output->text.size() + length > kLongestName) std::longjmp(output->too_long, 1);
  output->text.append(text, length);
}

using Demangler = int (*)(const char*, int, demangle_callbackref, void*);

// Empty if the symbol is not in this demangler's format. `output` outlives the longjmp, which skips no C++
// object with a destructor.
bool run(Demangler demangler, const std::string& symbol, BoundedOutput& output) {
  output.text.clear();
  if (setjmp(output.too_long) != 0) return false;
  return demangler(symbol.c_str(), DMGL_PARAMS | DMGL_ANSI, append, &output) != 0 && !output.text.empty();
}

}  // namespace

bool is_mangled(std::string_view symbol) { return symbol.starts_with("_Z") || symbol.starts_with("_R"); }

std::string demangle(std::string_view symbol) {
  if (symbol.ends_with(kStubSuffix))
    return demangle(symbol.substr(0, symbol.size() - kStubSuffix.size())).append(kStubSuffix);
  if (const std::size_t version = symbol.find('@'); version != std::string_view::npos && version > 0)
    symbol = symbol.substr(0, version);
  std::string name(symbol);
  if (!is_mangled(symbol) || symbol.size() > kLongestSymbol) return name;
  BoundedOutput output;
  // Try Rust first: its legacy names are also valid C++ names, with a hash at the end.
  if (run(rust_demangle_callback, name, output) || run(cplus_demangle_v3_callback, name, output))
    return output.text;
  return name;
}

}  // namespace headroom::symbols
