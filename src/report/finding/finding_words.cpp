#include <fmt/format.h>

#include <algorithm>

#include "report/finding/finding_views.h"

namespace headroom::report {

std::string title_of_figure(const headroom::Figure& figure) {
  std::string_view name = figure.name;
  for (const std::string_view unit : {"_bytes", "_ms", "_percent", "_seconds"})
    if (name.ends_with(unit)) name.remove_suffix(unit.size());
  std::string title(name);
  std::replace(title.begin(), title.end(), '_', ' ');
  return title;
}

std::string value_of_figure(const headroom::Figure& figure) {
  if (const auto* text = std::get_if<std::string>(&figure.value)) return *text;
  std::string_view unit;
  if (figure.name.ends_with("_ms")) unit = " ms";
  if (figure.name.ends_with("_percent")) unit = " %";
  if (figure.name.ends_with("_seconds")) unit = " s";
  if (const auto* real = std::get_if<double>(&figure.value)) return fmt::format("{:.3g}{}", *real, unit);
  const std::int64_t number = std::get<std::int64_t>(figure.value);
  return figure.name.find("_bytes") != figure.name.npos ? format_bytes({number})
                                                        : fmt::format("{}{}", number, unit);
}

std::string count_in_words(const std::vector<Finding>& findings) {
  std::string words;
  const auto add = [&](Severity severity, std::string_view one, std::string_view several) {
    const auto count = std::count_if(findings.begin(), findings.end(), [severity](const Finding& finding) {
      return finding.severity == severity;
    });
    if (count == 0) return;
    words += fmt::format("{}{} {}", words.empty() ? "" : ", ", count, count == 1 ? one : several);
  };
  add(Severity::severe, "severe finding", "severe findings");
  add(Severity::warning, "warning", "warnings");
  add(Severity::note, "note", "notes");
  add(Severity::benign, "benign finding", "benign findings");
  return words.empty() ? "nothing found" : words;
}

}  // namespace headroom::report
