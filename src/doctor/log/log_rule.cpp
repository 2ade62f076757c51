#include "doctor/log/log_rule.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "doctor/log/finding_text.h"
#include "doctor/log/line_pattern.h"

namespace headroom::doctor {
namespace {

auto* find(auto& figures, std::string_view name) {
  const auto found = std::ranges::find(figures, name, &Figure::name);
  return found == figures.end() ? nullptr : &*found;
}

bool has_pattern(std::string_view line, const std::vector<std::string>& patterns) {
  LogMessage ignored;
  return std::ranges::any_of(
      patterns, [&](const std::string& pattern) { return match_pattern(pattern, line, ignored); });
}

std::optional<LogMessage> match_all(const std::vector<std::string>& patterns, std::string_view line) {
  LogMessage message;
  for (const std::string& pattern : patterns)
    if (!match_pattern(pattern, line, message)) return std::nullopt;
  return message;
}

void add_fact(const Fact& fact, std::string_view line, LogMessage& message, LogMessage& templates) {
  constexpr std::string_view kIf = "if ";
  const bool is_told = fact.pattern.starts_with(kIf) ? holds(fact.pattern.substr(kIf.size()), message)
                                                     : match_pattern(fact.pattern, line, message);
  if (!is_told) return;
  if (fact.trait != nullptr) message.*fact.trait = true;
  if (fact.name.empty()) return;
  for (const auto& [name, text] : {std::pair("subject", &templates.subject),
                                   std::pair("event", &templates.event), std::pair("part", &templates.part)})
    if (fact.name == name) {
      if (text->empty()) *text = fact.value;
      return;
    }
  Figure fixed{fact.name, fact.value};
  if (const auto number = parse_number<std::int64_t>(fact.value)) fixed.value = *number;
  message.add_absent(fixed);
}

std::optional<LogMessage> read_wording(const LogRule& rule, const Wording& wording, std::string_view line) {
  std::optional<LogMessage> message;
  for (const auto& patterns : wording.alternatives)
    if (!message) message = match_all(patterns, line);
  if (!message || has_pattern(line, wording.none)) return std::nullopt;
  if (!wording.any.empty() && !has_pattern(line, wording.any)) return std::nullopt;
  LogMessage templates;
  for (const Fact& fact : wording.facts) add_fact(fact, line, *message, templates);
  if (wording.call != nullptr) wording.call(line, *message);
  for (const Fact& fact : rule.facts) add_fact(fact, line, *message, templates);
  if (rule.call != nullptr) rule.call(line, *message);
  if (message->is_none) return std::nullopt;
  for (std::string LogMessage::*field : {&LogMessage::subject, &LogMessage::event, &LogMessage::part})
    if (const std::string& text = templates.*field; !text.empty())
      (*message).*field = fill_in(text, *message).value_or("");
  return message;
}

}  // namespace

void LogMessage::add(std::string_view name, const std::optional<Bytes>& bytes) {
  if (bytes) figures.push_back({std::string(name), bytes->count});
}
void LogMessage::add(std::string_view name, const std::optional<std::int64_t>& number) {
  if (number) figures.push_back({std::string(name), *number});
}
void LogMessage::add(std::string_view name, std::string_view text) {
  if (!text.empty()) figures.push_back({std::string(name), std::string(text)});
}
std::optional<Bytes> LogMessage::bytes(std::string_view name) const {
  const Figure* figure = find(figures, name);
  if (!figure || !std::holds_alternative<std::int64_t>(figure->value)) return std::nullopt;
  return Bytes{std::get<std::int64_t>(figure->value)};
}
std::optional<std::int64_t> LogMessage::number(std::string_view name) const {
  const auto value = bytes(name);
  return value ? std::optional(value->count) : std::nullopt;
}
std::string LogMessage::text(std::string_view name) const {
  const Figure* figure = find(figures, name);
  if (!figure || !std::holds_alternative<std::string>(figure->value)) return {};
  return std::get<std::string>(figure->value);
}

void LogMessage::set(Figure figure) {
  if (Figure* const own = find(figures, figure.name))
    *own = std::move(figure);
  else
    figures.push_back(std::move(figure));
}
void LogMessage::add_absent(const Figure& figure) {
  if (find(figures, figure.name) == nullptr) figures.push_back(figure);
}
void LogMessage::add_absent(const LogMessage& other) {
  for (const Figure& figure : other.figures) add_absent(figure);
  if (!unaccounted_with_zram) unaccounted_with_zram = other.unaccounted_with_zram;
}

std::optional<LogMessage> LogRule::read(std::string_view line) const {
  for (const Wording& wording : wordings)
    if (auto message = read_wording(*this, wording, line)) {
      const bool says_nothing = !context_of.empty() && message->figures.empty() && !message->answers;
      return says_nothing ? std::nullopt : message;
    }
  return std::nullopt;
}

void add_cures(const std::vector<CureRow>& rows, const LogMessage& message, std::vector<Cure>& cures) {
  for (const CureRow& row : rows) {
    if (!holds(row.when, message)) continue;
    auto what = fill_in(row.what, message), command = fill_in(row.command, message);
    if (!what || !command) continue;
    const auto saves = row.saves.empty() ? std::nullopt : value_of(row.saves, message);
    cures.push_back(
        {std::move(*what), std::move(*command), saves ? std::optional(Bytes{*saves}) : std::nullopt});
  }
}

Finding LogRule::explain(const LogMessage& message) const {
  LogMessage known = message;
  if (derive != nullptr) derive({}, known);
  const auto row =
      std::ranges::find_if(explanations, [&](const Explanation& each) { return holds(each.when, known); });
  if (row == explanations.end()) return {};
  Finding finding = row->finding;
  finding.title = fill_in(finding.title, known).value_or("");
  finding.cause = fill_in(finding.cause, known).value_or("");
  add_cures(row->cures, known, finding.cures);
  return finding;
}

}  // namespace headroom::doctor
