#include "symbols/debug_info.h"

#include <dwarf.h>
#include <algorithm>
#include <filesystem>
#include <limits>

#include "symbols/demangle.h"

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

// The memory that libdw keeps for each row of a line table.
constexpr std::size_t kBytesPerLine = 48;
constexpr std::size_t kMostUnitRanges = 16'000'000;

const char* text_of(Dwarf_Die& entry, unsigned attribute) {
  Dwarf_Attribute value;
  return dwarf_formstring(dwarf_attr_integrate(&entry, attribute, &value));
}

// Follows an entry to its declaration, which is inside the namespace or type.
Dwarf_Die declaration_of(Dwarf_Die entry) {
  for (int step = 0; step < 8; ++step) {
    Dwarf_Attribute link;
    Dwarf_Die target;
    if (dwarf_attr(&entry, DW_AT_abstract_origin, &link) == nullptr &&
        dwarf_attr(&entry, DW_AT_specification, &link) == nullptr)
      break;
    if (dwarf_formref_die(&link, &target) == nullptr) break;
    entry = target;
  }
  return entry;
}

// Chooses the more useful name. A mangled linkage name contains namespaces and parameters. In C, a linkage
// name is an internal alias (glibc's setlocale is "__GI_setlocale").
void name_function(Dwarf_Die& entry, const UnitScopes& scopes, ModuleFrame& place) {
  const char* linkage_name = text_of(entry, DW_AT_linkage_name);
  if (linkage_name == nullptr) linkage_name = text_of(entry, DW_AT_MIPS_linkage_name);
  const char* source_name = text_of(entry, DW_AT_name);
  if (linkage_name != nullptr && (is_mangled(linkage_name) || source_name == nullptr)) {
    place.function = linkage_name;
    place.mangled = true;
  } else if (source_name != nullptr) {
    place.function = scopes.qualifiers_of(declaration_of(entry)) + source_name;
  }
}

Dwarf_Word number_of(Dwarf_Die& entry, unsigned attribute) {
  Dwarf_Attribute value;
  Dwarf_Word number = 0;
  return dwarf_formudata(dwarf_attr(&entry, attribute, &value), &number) == 0 ? number : 0;
}

int line_number(Dwarf_Word number) {
  return number <= static_cast<Dwarf_Word>(std::numeric_limits<int>::max()) ? static_cast<int>(number) : 0;
}

// Absolute if the unit records its folder; without "." and "..".
std::string full_path(const char* file, Dwarf_Die& unit) {
  if (file == nullptr) return {};
  std::filesystem::path path(file);
  if (path.is_relative())
    if (const char* folder = text_of(unit, DW_AT_comp_dir); folder != nullptr) path = folder / path;
  return path.lexically_normal().string();
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
  const auto found = std::ranges::lower_bound(functions_, offset, {}, &Nested::entry);
  if (found == functions_.end() || found->entry != offset) return {};
  std::string qualifiers;
  for (std::uint32_t at = found->parent; at != kNone && qualifiers.size() < kLongestQualifiers;
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
  return (scopes_.size() + containers_.size() + functions_.size()) * sizeof(Nested) + index_.bytes();
}

DebugInfo::DebugInfo(Dwarf* dwarf) : dwarf_(dwarf) {
  Dwarf_Off offset = 0, next = 0;
  std::size_t header = 0, ranges = 0;
  while (dwarf_nextcu(dwarf_, offset, &next, &header, nullptr, nullptr, nullptr) == 0 && next > offset) {
    Dwarf_Die entry;
    if (dwarf_offdie(dwarf_, offset + header, &entry) != nullptr &&
        dwarf_tag(&entry) == DW_TAG_compile_unit) {
      Dwarf_Addr base = 0, low = 0, high = 0;
      for (std::ptrdiff_t at = 0;
           ranges < kMostUnitRanges && (at = dwarf_ranges(&entry, at, &base, &low, &high)) > 0; ++ranges)
        unit_index_.add(low, high, static_cast<std::uint32_t>(units_.size()));
      units_.push_back({offset + header, std::nullopt});
    }
    offset = next;
  }
  unit_index_.build();
  bytes_ = units_.size() * sizeof(Unit) + unit_index_.bytes();
}

std::vector<ModuleFrame> DebugInfo::find(std::uint64_t address) {
  std::vector<ModuleFrame> places;
  const auto found = unit_index_.find(address);
  if (!found) return places;
  Unit& unit = units_[*found];
  Dwarf_Die unit_entry;
  if (dwarf_offdie(dwarf_, unit.entry, &unit_entry) == nullptr) return places;
  if (!unit.scopes) {
    unit.scopes.emplace(unit_entry);
    bytes_ += unit.scopes->bytes();
  }
  ModuleFrame place;
  describe_lines(unit_entry, unit, address, place);
  // The place of an inlined function in its caller is its call site.
  for (Dwarf_Die& entry : unit.scopes->around(address)) {
    name_function(entry, *unit.scopes, place);
    places.push_back(std::move(place));
    place = {};
    Dwarf_Files* files = nullptr;
    if (dwarf_tag(&entry) != DW_TAG_inlined_subroutine ||
        dwarf_getsrcfiles(&unit_entry, &files, nullptr) != 0)
      continue;
    place.file =
        full_path(dwarf_filesrc(files, number_of(entry, DW_AT_call_file), nullptr, nullptr), unit_entry);
    place.line = line_number(number_of(entry, DW_AT_call_line));
  }
  if (places.empty() && !place.file.empty()) places.push_back(std::move(place));
  return places;
}

void DebugInfo::describe_lines(Dwarf_Die& unit_entry, Unit& unit, std::uint64_t address, ModuleFrame& place) {
  Dwarf_Lines* lines = nullptr;
  std::size_t count = 0;
  if (dwarf_getsrclines(&unit_entry, &lines, &count) != 0) return;
  if (!unit.lines_counted) bytes_ += count * kBytesPerLine;
  unit.lines_counted = true;
  Dwarf_Line* line = dwarf_getsrc_die(&unit_entry, address);
  int number = 0;
  if (line == nullptr || dwarf_lineno(line, &number) != 0) return;
  place.file = full_path(dwarf_linesrc(line, nullptr, nullptr), unit_entry);
  place.line = number > 0 ? number : 0;
}

}  // namespace headroom::symbols
