// Reads DWARF for an address: functions, inlined functions, files and lines.
#pragma once

#include <elfutils/libdw.h>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "symbols/interval_index.h"

namespace headroom::symbols {

// The functions and inlined functions of one compilation unit, by address. One walk over the unit builds the
// index when the first address is looked up. (libdw's dwarf_getscopes walks the unit for every address.)
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
  struct Nested {
    Dwarf_Off entry;
    std::uint32_t parent;
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
  std::vector<Nested> scopes_;
  std::vector<Nested> containers_;  // namespaces, types, and functions that contain types
  std::vector<Nested> functions_;   // those in a container, in file order (by offset)
  IntervalIndex index_;
};

// A frame of a module.
struct ModuleFrame {
  std::string function;  // as in the file; empty if unknown
  bool mangled =
      false;         // `function` is a linkage name and may need demangling; otherwise it is the source name
  std::string file;  // empty if unknown
  int line = 0;
};

class DebugInfo {
 public:
  // Does not take ownership of `dwarf`, which must outlive this object.
  explicit DebugInfo(Dwarf* dwarf);

  // Innermost inlined function first; last the function that contains them all. Empty if nothing is known.
  std::vector<ModuleFrame> find(std::uint64_t address);
  // An estimate of the memory for this object's indexes and libdw's line tables.
  std::size_t bytes() const { return bytes_; }

 private:
  struct Unit {
    Dwarf_Off entry;
    std::optional<UnitScopes> scopes;
    bool lines_counted = false;
  };
  void describe_lines(Dwarf_Die& unit_entry, Unit& unit, std::uint64_t address, ModuleFrame& place);

  Dwarf* dwarf_;
  std::vector<Unit> units_;
  IntervalIndex unit_index_;
  std::size_t bytes_ = 0;
};

}  // namespace headroom::symbols
