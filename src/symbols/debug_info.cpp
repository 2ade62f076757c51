#include "symbols/debug_info.h"

#include <dwarf.h>

#include <filesystem>
#include <limits>

#include "symbols/demangle.h"

namespace headroom::symbols {
namespace {

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
void name_function(Dwarf_Die& entry, const UnitScopes& scopes, SourcePlace& place) {
  const char* linkage_name = text_of(entry, DW_AT_linkage_name);
  if (linkage_name == nullptr) linkage_name = text_of(entry, DW_AT_MIPS_linkage_name);
  const char* source_name = text_of(entry, DW_AT_name);
  if (linkage_name != nullptr && (is_mangled(linkage_name) || source_name == nullptr)) {
    place.function = linkage_name;
    place.has_linkage_name = true;
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

std::vector<SourcePlace> DebugInfo::find(std::uint64_t address) {
  std::vector<SourcePlace> places;
  const auto found = unit_index_.find(address);
  if (!found) return places;
  Unit& unit = units_[*found];
  Dwarf_Die unit_entry;
  if (dwarf_offdie(dwarf_, unit.entry, &unit_entry) == nullptr) return places;
  if (!unit.scopes) {
    unit.scopes.emplace(unit_entry);
    bytes_ += unit.scopes->bytes();
  }
  SourcePlace place;
  describe_lines(unit_entry, unit, address, place);
  // The place of an inlined function in its caller is its call site.
  for (Dwarf_Die& entry : unit.scopes->around(address)) {
    name_function(entry, *unit.scopes, place);
    place.inlined = dwarf_tag(&entry) == DW_TAG_inlined_subroutine;
    places.push_back(std::move(place));
    place = {};
    Dwarf_Files* files = nullptr;
    if (!places.back().inlined || dwarf_getsrcfiles(&unit_entry, &files, nullptr) != 0) continue;
    place.file =
        full_path(dwarf_filesrc(files, number_of(entry, DW_AT_call_file), nullptr, nullptr), unit_entry);
    place.line = line_number(number_of(entry, DW_AT_call_line));
  }
  if (places.empty() && !place.file.empty()) places.push_back(std::move(place));
  return places;
}

void DebugInfo::describe_lines(Dwarf_Die& unit_entry, Unit& unit, std::uint64_t address, SourcePlace& place) {
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
