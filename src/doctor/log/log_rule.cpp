#include "doctor/log/log_rule.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "doctor/log/finding_text.h"
#include "doctor/log/line_pattern.h"
#include "doctor/log/message_text.h"

namespace headroom::doctor {
namespace {

const Figure* find(const std::vector<Figure>& figures, std::string_view name) {
  const auto found = std::find_if(figures.begin(), figures.end(),
                                  [name](const Figure& figure) { return figure.name == name; });
  return found == figures.end() ? nullptr : &*found;
}

// "memory=host", "exit_code=137": a figure that the wording gives by itself.
bool add_fixed(std::string_view figure, LogMessage& message) {
  const std::size_t equals = figure.find('=');
  if (equals == figure.npos || figure.find('{') != figure.npos) return false;
  const std::string_view value = figure.substr(equals + 1);
  Figure fixed{std::string(figure.substr(0, equals)), std::string(value)};
  if (const auto number = parse_number<std::int64_t>(value)) fixed.value = *number;
  message.add_absent(fixed);
  return true;
}

std::optional<LogMessage> read_wording(const Wording& wording, std::string_view line) {
  if (!wording.any.empty() && !has_any(line, wording.any)) return std::nullopt;
  if (has_any(line, wording.none)) return std::nullopt;
  LogMessage message;
  for (const std::string& pattern : wording.all)
    if (!match_pattern(pattern, line, message)) return std::nullopt;
  if (wording.check != nullptr && !wording.check(line)) return std::nullopt;
  for (const std::string& figure : wording.figures)
    if (!add_fixed(figure, message)) match_pattern(figure, line, message);
  static_cast<LineTraits&>(message) = wording.traits;
  if (wording.add != nullptr) wording.add(line, message);
  if (!wording.subject.empty()) message.subject = fill_in(wording.subject, message).value_or("");
  if (!wording.event.empty()) message.event = fill_in(wording.event, message).value_or("");
  if (!wording.part.empty()) message.part = wording.part;
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
  for (Figure& own : figures)
    if (own.name == figure.name) {
      own = std::move(figure);
      return;
    }
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
  if (read_first != nullptr)
    if (auto message = read_first(line)) return message;
  for (const Wording& wording : wordings)
    if (auto message = read_wording(wording, line)) {
      if (add != nullptr) add(line, *message);
      return message;
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
  LogMessage facts = message;
  if (derive != nullptr) derive(facts);
  Finding finding;
  const auto row = std::find_if(explanations.begin(), explanations.end(),
                                [&](const Explanation& each) { return holds(each.when, facts); });
  if (row == explanations.end()) return finding;
  finding.id = row->id;
  finding.severity = row->severity;
  finding.confidence = row->confidence;
  finding.title = fill_in(row->title, facts).value_or("");
  finding.cause = fill_in(row->cause, facts).value_or("");
  add_cures(row->cures, facts, finding.cures);
  finding.first_cure_meets_cause = row->first_cure_meets_cause;
  return finding;
}

}  // namespace headroom::doctor
