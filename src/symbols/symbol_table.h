// The function names of an ELF file by address: .symtab or .dynsym, what .gnu_debugdata adds (the compressed
// symbol table of Fedora and its kin), and the stubs of the procedure linkage table.
#pragma once

#include <elfutils/libdwfl.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "symbols/interval_index.h"

namespace headroom::symbols {

struct SymbolHit {
  const char* name;  // as in the file; lives as long as the module is open
  std::uint64_t start;
  bool is_stub;  // the stub through which `name`, of another file, is called
};

class SymbolTable {
 public:
  // Reads all names at once: most modules of which one address is asked are asked many.
  explicit SymbolTable(Dwfl_Module* module);

  // The function that holds the address. Between functions there is none: where a stripped file keeps only
  // its exported names, the nearest one below is a guess that misleads.
  std::optional<SymbolHit> find(std::uint64_t address) const;
  std::size_t bytes() const { return hits_.size() * sizeof(SymbolHit) + index_.bytes(); }

 private:
  std::vector<SymbolHit> hits_;
  IntervalIndex index_;
};

}  // namespace headroom::symbols
