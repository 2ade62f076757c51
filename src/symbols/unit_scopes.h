// The functions and inlined functions of one compilation unit, by address. Built by one walk over the unit
// when the first of its addresses is asked; libdw's own dwarf_getscopes walks it for every address.
#pragma once

#include <elfutils/libdw.h>

#include <cstdint>
#include <string>
#include <vector>

#include "symbols/interval_index.h"

namespace headroom::symbols {

class UnitScopes {
 public:
  explicit UnitScopes(Dwarf_Die unit);

  // The entries (DW_TAG_inlined_subroutine, at last DW_TAG_subprogram) around the address, innermost first;
  // empty where the unit describes no function.
  std::vector<Dwarf_Die> around(std::uint64_t address) const;
  // The namespaces, types and functions around the declaration of a function, as "detail::Pool::". Compilers
  // give functions that are seen in one unit only no linkage name, and "operator()" alone says nothing.
  std::string qualifiers_of(Dwarf_Die function) const;
  std::size_t bytes() const;

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  struct Scope {
    Dwarf_Off entry;
    std::uint32_t parent;
  };
  // A namespace, a type, or a function that holds types.
  struct Container {
    Dwarf_Off entry;
    std::uint32_t parent;
  };
  struct Function {
    Dwarf_Off entry;
    std::uint32_t container;
  };
  struct Visit {
    Dwarf_Die entry;
    std::uint32_t scope;
    std::uint32_t container;
    std::uint32_t depth;
  };

  void walk(Dwarf_Die& unit);
  Visit inside_of(Visit visit, int tag);
  std::uint32_t add_scope(Dwarf_Die& entry, std::uint32_t parent, bool inlined);

  Dwarf* dwarf_;
  std::vector<Scope> scopes_;
  std::vector<Container> containers_;
  std::vector<Function> functions_;  // those with a container, in the order of the file: by offset
  IntervalIndex index_;
};

}  // namespace headroom::symbols
