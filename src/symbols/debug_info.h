// Reads DWARF for an address: functions, inlined functions, files and lines.
#pragma once

#include <elfutils/libdw.h>

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "symbols/interval_index.h"
#include "symbols/unit_scopes.h"

namespace headroom::symbols {

struct SourcePlace {
  std::string function;  // empty if unknown
  // `function` is a linkage name and must be demangled; otherwise it is the source name.
  bool has_linkage_name = false;
  std::string file;  // empty if unknown
  int line = 0;
  bool inlined = false;
};

class DebugInfo {
 public:
  // Does not take ownership of `dwarf`, which must outlive this object.
  explicit DebugInfo(Dwarf* dwarf);

  // Innermost inlined function first; last the function that contains them all. Empty if nothing is known.
  std::vector<SourcePlace> find(std::uint64_t address);
  // An estimate of the memory for this object's indexes and libdw's line tables.
  std::size_t bytes() const { return bytes_; }

 private:
  struct Unit {
    Dwarf_Off entry;
    std::optional<UnitScopes> scopes;
    bool lines_counted = false;
  };
  void describe_lines(Dwarf_Die& unit_entry, Unit& unit, std::uint64_t address, SourcePlace& place);

  Dwarf* dwarf_;
  std::vector<Unit> units_;
  IntervalIndex unit_index_;
  std::size_t bytes_ = 0;
};

}  // namespace headroom::symbols
