// Function names of an ELF file by address. Sources: .symtab or .dynsym, .gnu_debugdata (Fedora's compressed
// symbol table), and the stubs of the procedure linkage table.
#pragma once

#include <elfutils/libdwfl.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "symbols/interval_index.h"

namespace headroom::symbols {

struct SymbolHit {
  const char* name;  // as in the file; valid while the module is open
  std::uint64_t start;
  bool is_stub;  // a stub that calls `name` in another file
};

class SymbolTable {
 public:
  // Reads all names at once, because most modules are asked for many addresses.
  explicit SymbolTable(Dwfl_Module* module);

  // The function that contains the address. Nothing between functions: in a stripped file with only exported
  // names, the nearest lower name would be a misleading guess.
  std::optional<SymbolHit> find(std::uint64_t address) const;
  std::size_t bytes() const { return hits_.size() * sizeof(SymbolHit) + index_.bytes(); }

 private:
  std::vector<SymbolHit> hits_;
  IntervalIndex index_;
};

}  // namespace headroom::symbols
