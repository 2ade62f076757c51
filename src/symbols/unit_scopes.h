// The functions and inlined functions of one compilation unit, by address. One walk over the unit builds the
// index when the first address is looked up. (libdw's dwarf_getscopes walks the unit for every address.)
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

  // The entries around the address, innermost first: DW_TAG_inlined_subroutine, finally DW_TAG_subprogram.
  // Empty if the unit describes no function there.
  std::vector<Dwarf_Die> around(std::uint64_t address) const;
  // The namespaces, types and functions around a function's declaration, as "detail::Pool::". Compilers give
  // no linkage name to functions that are used in one unit only, and "operator()" alone is meaningless.
  std::string qualifiers_of(Dwarf_Die function) const;
  std::size_t bytes() const;

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  struct Scope {
    Dwarf_Off entry;
    std::uint32_t parent;
  };
  // A namespace, a type, or a function that contains types.
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
  std::vector<Function> functions_;  // those with a container, in file order (by offset)
  IntervalIndex index_;
};

}  // namespace headroom::symbols
