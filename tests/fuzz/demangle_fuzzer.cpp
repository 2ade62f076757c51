// Symbol names from a hostile symbol table, for example short names that expand to gigabytes.
#include "fuzz.h"
#include "symbols/demangle.h"

void fuzz(std::string_view symbol) {
  if (headroom::symbols::demangle(symbol).size() > symbol.size() + 16 * 1024 + 8) __builtin_trap();
}
