// What the views of all comparisons share.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/units.h"
#include "comparison/gate.h"
#include "report/text_layout.h"

namespace headroom::report {

// "+1.2 MiB", "-812 B", "0 B".
inline std::string signed_bytes(std::int64_t bytes) { return (bytes > 0 ? "+" : "") + format_bytes({bytes}); }

inline std::string enumerated(const std::vector<std::string>& parts) {
  if (parts.size() < 2) return parts.empty() ? "" : parts.front();
  return fmt::format("{} and {}", fmt::join(parts.begin(), parts.end() - 1, ", "), parts.back());
}

// The keys of --fail-on, the same in each comparison.
inline void set_gate(Json& json, const std::vector<comparison::GateFinding>& gate,
                     const std::string& not_judged) {
  json["breaches"] = Json::array();
  json["within_noise"] = Json::array();
  for (const comparison::GateFinding& finding : gate)
    json[finding.is_breach ? "breaches" : "within_noise"].push_back(finding.sentence);
  if (!not_judged.empty()) json["not_judged"] = not_judged;
}

// A Markdown list with a title; nothing without sentences.
inline void add_list(std::string& text, std::string_view title, const std::vector<std::string>& sentences) {
  if (sentences.empty()) return;
  text += fmt::format("**{}**\n\n", title);
  for (const std::string& sentence : sentences) text += fmt::format("- {}\n", escaped(sentence));
  text += "\n";
}

inline void add_gate(std::string& text, const std::vector<comparison::GateFinding>& gate,
                     const std::string& not_judged) {
  std::vector<std::string> sentences;
  for (const comparison::GateFinding& finding : gate) sentences.push_back(finding.sentence);
  if (!not_judged.empty()) sentences.push_back(not_judged);
  add_list(text, "Gate", sentences);
}

}  // namespace headroom::report
