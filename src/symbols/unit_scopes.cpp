#include "symbols/unit_scopes.h"

#include <dwarf.h>

#include <algorithm>

namespace headroom::symbols {
namespace {

// Far above what compilers produce; a damaged file may contain anything.
constexpr std::uint32_t kDeepestNesting = 1000;
constexpr std::size_t kLongestQualifiers = 4096;
constexpr std::size_t kMostRanges = 8'000'000;

// Tags of entries that may contain functions. Rust and D put functions into the types that they belong to.
bool may_hold_functions(int tag) {
  switch (tag) {
    case DW_TAG_subprogram:
    case DW_TAG_inlined_subroutine:
    case DW_TAG_lexical_block:
    case DW_TAG_namespace:
    case DW_TAG_module:
    case DW_TAG_structure_type:
    case DW_TAG_class_type:
    case DW_TAG_union_type:
    case DW_TAG_enumeration_type:
    case DW_TAG_interface_type:
    case DW_TAG_try_block:
    case DW_TAG_catch_block:
    case DW_TAG_with_stmt:
    case DW_TAG_common_block:
      return true;
    default:
      return false;
  }
}

// Bytes of the unit. A valid entry has at least one byte, so a walk with more entries runs in circles.
std::size_t most_entries(Dwarf_Die& unit) {
  Dwarf_Off offset = 0, next = 0;
  std::size_t header = 0;
  const Dwarf_Off start = dwarf_dieoffset(&unit) - dwarf_cuoffset(&unit);
  offset = start;
  if (dwarf_nextcu(dwarf_cu_getdwarf(unit.cu), offset, &next, &header, nullptr, nullptr, nullptr) != 0)
    return 0;
  return next - start;
}

}  // namespace

UnitScopes::UnitScopes(Dwarf_Die unit) : dwarf_(dwarf_cu_getdwarf(unit.cu)) {
  walk(unit);
  index_.build();
}

// Walks in file order: an inlined function comes after the function that contains it, and wins over it.
void UnitScopes::walk(Dwarf_Die& unit) {
  std::size_t entries_left = most_entries(unit);
  std::vector<Visit> pending;
  Visit first{unit, kNone, kNone, 0};
  if (dwarf_child(&unit, &first.entry) == 0) pending.push_back(first);
  while (!pending.empty() && entries_left > 0) {
    --entries_left;
    Visit visit = pending.back();
    const int tag = dwarf_tag(&visit.entry);
    if (dwarf_siblingof(&visit.entry, &pending.back().entry) != 0) pending.pop_back();
    if (!may_hold_functions(tag) || visit.depth >= kDeepestNesting) continue;
    Visit child = inside_of(visit, tag);
    if (dwarf_child(&visit.entry, &child.entry) == 0) pending.push_back(child);
  }
}

// Records the entry, and returns the context of its children.
UnitScopes::Visit UnitScopes::inside_of(Visit visit, int tag) {
  const Dwarf_Off entry = dwarf_dieoffset(&visit.entry);
  if (tag == DW_TAG_subprogram && visit.container != kNone) functions_.push_back({entry, visit.container});
  if (tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine)
    visit.scope = add_scope(visit.entry, visit.scope, tag == DW_TAG_inlined_subroutine);
  if (tag != DW_TAG_inlined_subroutine && tag != DW_TAG_lexical_block &&
      dwarf_haschildren(&visit.entry) > 0) {
    containers_.push_back({entry, visit.container});
    visit.container = static_cast<std::uint32_t>(containers_.size() - 1);
  }
  ++visit.depth;
  return visit;
}

// The id of the new scope, or `parent` for an entry without code: a declaration, or the abstract description
// of an inlined function.
std::uint32_t UnitScopes::add_scope(Dwarf_Die& entry, std::uint32_t parent, bool inlined) {
  const auto scope = static_cast<std::uint32_t>(scopes_.size());
  Dwarf_Addr base = 0, low = 0, high = 0;
  bool has_code = false;
  for (std::ptrdiff_t at = 0;
       scopes_.size() < kMostRanges && (at = dwarf_ranges(&entry, at, &base, &low, &high)) > 0;) {
    index_.add(low, high, scope);
    has_code = true;
  }
  if (!has_code) return parent;
  scopes_.push_back({dwarf_dieoffset(&entry), inlined ? parent : kNone});
  return scope;
}

std::vector<Dwarf_Die> UnitScopes::around(std::uint64_t address) const {
  std::vector<Dwarf_Die> entries;
  const auto found = index_.find(address);
  for (std::uint32_t scope = found.value_or(kNone); scope != kNone; scope = scopes_[scope].parent) {
    Dwarf_Die entry;
    if (dwarf_offdie(dwarf_, scopes_[scope].entry, &entry) == nullptr) break;
    entries.push_back(entry);
  }
  return entries;
}

std::string UnitScopes::qualifiers_of(Dwarf_Die function) const {
  const Dwarf_Off offset = dwarf_dieoffset(&function);
  const auto found =
      std::lower_bound(functions_.begin(), functions_.end(), offset,
                       [](const Function& candidate, Dwarf_Off value) { return candidate.entry < value; });
  if (found == functions_.end() || found->entry != offset) return {};
  std::string qualifiers;
  for (std::uint32_t at = found->container; at != kNone && qualifiers.size() < kLongestQualifiers;
       at = containers_[at].parent) {
    Dwarf_Die container;
    if (dwarf_offdie(dwarf_, containers_[at].entry, &container) == nullptr) break;
    const char* name = dwarf_diename(&container);
    const int tag = dwarf_tag(&container);
    if (name == nullptr && tag != DW_TAG_namespace) continue;
    qualifiers.insert(0, std::string(name == nullptr ? "(anonymous namespace)" : name) + "::");
  }
  return qualifiers;
}

std::size_t UnitScopes::bytes() const {
  return scopes_.size() * sizeof(Scope) + containers_.size() * sizeof(Container) +
         functions_.size() * sizeof(Function) + index_.bytes();
}

}  // namespace headroom::symbols
