#include "doctor/log/systemd_unit.h"

#include <fmt/format.h>

namespace headroom::doctor {
namespace {

constexpr std::string_view kService = ".service", kSlice = ".slice", kScope = ".scope";

}  // namespace

std::string_view unit_of(std::string_view line) {
  for (const std::string_view kind : {".service", ".scope", ".slice"}) {
    const std::size_t end = line.find(std::string(kind) + ": ");
    if (end == line.npos) continue;
    const std::string_view before = line.substr(0, end + (kind == ".service" ? 0 : kind.size()));
    return before.substr(before.rfind(' ') + 1);
  }
  return {};
}

std::string_view without_service(std::string_view unit) {
  return unit.substr(0, unit.size() - (unit.ends_with(kService) ? kService.size() : 0));
}

std::string words_for_unit(std::string_view unit) {
  if (unit.empty()) return "A process";
  const bool is_service = !unit.ends_with(kScope) && !unit.ends_with(kSlice);
  return is_service ? fmt::format("The service {}", without_service(unit)) : std::string(unit);
}

bool is_in_slice(std::string_view slice, std::string_view unit) {
  if (!slice.ends_with(kSlice) || slice == unit) return false;
  const std::string_view name = slice.substr(0, slice.size() - kSlice.size());
  if (unit.ends_with(kSlice)) return unit.starts_with(fmt::format("{}-", name)) || name == "-";
  const bool is_of_user = unit.starts_with("user@") || unit.ends_with(kScope);
  if (name == "system") return !is_of_user;
  if (name == "user") return is_of_user;
  constexpr std::string_view kUser = "user-";
  if (!name.starts_with(kUser)) return name == "-" || unit.starts_with(fmt::format("{}-", name));
  return unit.ends_with(kScope) || without_service(unit) == fmt::format("user@{}", name.substr(kUser.size()));
}

}  // namespace headroom::doctor
