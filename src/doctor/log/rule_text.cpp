#include "doctor/log/rule_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/text.h"
#include "doctor/log/line_pattern.h"

namespace headroom::doctor {
namespace {

constexpr std::string_view kArrow = "-> ";

struct Flag {
  std::string_view name;
  bool LogRule::*field;
};
constexpr Flag kFlags[] = {{"from_outside", &LogRule::from_outside},
                           {"is_kernel_kill", &LogRule::is_kernel_kill},
                           {"repeats_kills", &LogRule::repeats_kills},
                           {"is_not_of_memory", &LogRule::is_not_of_memory},
                           {"waits_for_failure", &LogRule::waits_for_failure}};

struct TextField {
  std::string_view name;
  std::string LogRule::*field;
};
constexpr TextField kTextFields[] = {{"context_of", &LogRule::context_of},
                                     {"figures_for", &LogRule::figures_for},
                                     {"answers", &LogRule::answers},
                                     {"told_better_by", &LogRule::told_better_by}};

struct Trait {
  std::string_view name;
  bool LineTraits::*field;
};
constexpr Trait kTraits[] = {{"may_go_on", &LineTraits::may_go_on},
                             {"is_vague", &LineTraits::is_vague},
                             {"is_of_unit", &LineTraits::is_of_unit},
                             {"tells_shell", &LineTraits::tells_shell},
                             {"is_addition", &LineTraits::is_addition},
                             {"is_echo", &LineTraits::is_echo},
                             {"answers", &LineTraits::answers},
                             {"is_final", &LineTraits::is_final},
                             {"ends_program", &LineTraits::ends_program},
                             {"goes_on", &LineTraits::goes_on},
                             {"asks_for_less", &LineTraits::asks_for_less},
                             {"is_rounded", &LineTraits::is_rounded}};

template <typename Rows>
const auto* find_row(const Rows& rows, std::string_view name) {
  const auto row =
      std::find_if(std::begin(rows), std::end(rows), [name](const auto& each) { return each.name == name; });
  return row == std::end(rows) ? nullptr : &*row;
}

// The part before the separator, which is removed with it.
std::string_view take_before(std::string_view& text, std::string_view separator) {
  const std::size_t at = text.find(separator);
  const std::string_view part = text.substr(0, at);
  text = at == text.npos ? std::string_view() : text.substr(at + separator.size());
  return part;
}

std::string without_quotes(std::string_view text) {
  text = trim(text);
  const bool is_quoted = text.size() > 1 && text.starts_with('"') && text.ends_with('"');
  return std::string(is_quoted ? text.substr(1, text.size() - 2) : text);
}

std::vector<std::string> list_of(std::string_view text, std::string_view separator) {
  std::vector<std::string> items;
  while (!text.empty()) items.push_back(without_quotes(take_before(text, separator)));
  return items;
}

class RuleReader {
 public:
  void read(const RuleFamily& family) {
    family_ = &family;
    constexpr std::size_t kContinued = 6;  // spaces
    std::string statement;
    for (const std::string_view line : split(family.text, '\n')) {
      const std::size_t indent = line.find_first_not_of(' ');
      if (indent == line.npos) continue;
      if (indent >= kContinued) {
        statement.append(" ").append(line.substr(indent));
      } else {
        read_statement(std::exchange(statement, std::string(line)));
      }
    }
    read_statement(statement);
  }
  std::vector<LogRule> take_rules() { return std::move(rules_); }

 private:
  enum class Block { rule, cures, figures };

  void read_statement(std::string_view text) {
    const bool begins_block = !text.starts_with(' ');
    text = trim(text);
    if (text.empty() || text.starts_with('#')) return;
    std::string_view rest = text;
    const std::string key(take_before(rest, " "));
    if (begins_block)
      begin(key, rest);
    else if (block_ == Block::figures)
      figures_[name_].push_back(without_quotes(text));
    else if (block_ == Block::cures && key == "cure")
      add_cures(cures_[name_], rest);
    else if (block_ == Block::rule && kStatements.contains(key))
      (this->*kStatements.at(key))(rest);
    else if (const TextField* const field = find_row(kTextFields, key); field && block_ == Block::rule)
      rule().*(field->field) = rest;
    else
      fail(key);
  }
  void begin(std::string_view key, std::string_view name) {
    name_ = name;
    if (key == "rule")
      rules_.push_back({.name = name_});
    else if (key != "cures" && key != "figures")
      fail(key);
    block_ = key == "rule" ? Block::rule : key == "cures" ? Block::cures : Block::figures;
  }
  [[noreturn]] void fail(std::string_view what) const {
    throw std::logic_error(fmt::format("{}: {} is unknown or misplaced", name_, what));
  }

  LogRule& rule() { return rules_.back(); }
  Wording& wording() {
    if (rule().wordings.empty()) fail("a line's option");
    return rule().wordings.back();
  }
  Explanation& finding() {
    if (rule().explanations.empty()) fail("a finding's option");
    return rule().explanations.back();
  }
  template <typename Function>
  Function function(std::string_view name) const {
    const RuleFunction* const row = find_row(family_->functions, trim(name));
    if (row == nullptr || !std::holds_alternative<Function>(row->call)) fail(name);
    return std::get<Function>(row->call);
  }

  void read_flags(std::string_view text) {
    for (const std::string_view name : split_words(text)) {
      const Flag* const flag = find_row(kFlags, name);
      if (flag == nullptr) fail(name);
      rule().*(flag->field) = true;
    }
  }
  void read_anchors(std::string_view text) { rule().anchors = list_of(text, " || "); }
  void read_derive(std::string_view name) { rule().derive = function<Derive>(name); }
  void read_add(std::string_view name) { rule().add = function<AddFigures>(name); }
  void read_first(std::string_view name) { rule().read_first = function<ReadLine>(name); }

  void read_line(std::string_view text) {
    rule().wordings.emplace_back();
    std::string_view options = text;
    if (text.starts_with(kArrow))
      options.remove_prefix(kArrow.size());
    else
      wording().all = list_of(trim(take_before(options, kArrow)), " && ");
    while (!options.empty()) read_option(trim(take_before(options, "; ")));
  }
  void read_option(std::string_view option) {
    const std::size_t equals = std::min(option.find('='), option.size());
    const std::string_view name = option.substr(0, equals);
    const std::string value(option.substr(std::min(equals + 1, option.size())));
    if (name == "subject")
      wording().subject = without_quotes(value);
    else if (name == "event")
      wording().event = value;
    else if (name == "part")
      wording().part = value;
    else if (name == "none")
      wording().none.push_back(without_quotes(value));
    else if (name == "check")
      wording().check = function<CheckLine>(value);
    else if (name == "add")
      wording().add = function<AddFigures>(value);
    else if (name == "figures")
      read_figures(value);
    else if (equals < option.size())
      wording().figures.emplace_back(option);
    else if (const Trait* const trait = find_row(kTraits, name))
      wording().traits.*(trait->field) = true;
    else
      fail(option);
  }
  void read_any(std::string_view text) { wording().any = list_of(text, " || "); }
  void read_none(std::string_view text) { wording().none = list_of(text, " || "); }
  void read_figures(std::string_view text) {
    auto& figures = wording().figures;
    for (std::string& figure : list_of(text, " || ")) {
      if (!figure.starts_with('@')) {
        figures.push_back(std::move(figure));
        continue;
      }
      const auto list = figures_.find(figure.substr(1));
      if (list == figures_.end()) fail(figure);
      figures.insert(figures.end(), list->second.begin(), list->second.end());
    }
  }

  void read_finding(std::string_view text) {
    Explanation next = rule().explanations.empty() ? Explanation{} : finding();
    std::string_view condition = text;
    const auto words = split_words(take_before(condition, " when "));
    next = {.when = std::string(condition),
            .id = std::string(words.at(0)),
            .title = std::move(next.title),
            .cause = std::move(next.cause),
            .cures = std::move(next.cures)};
    for (const std::string_view word : std::span(words).subspan(1)) read_degree(word, next);
    rule().explanations.push_back(std::move(next));
    has_own_cures_ = false;
  }
  void read_degree(std::string_view word, Explanation& next) const {
    constexpr std::pair<std::string_view, Severity> kSeverities[] = {
        {"warning", Severity::warning}, {"note", Severity::note}, {"benign", Severity::benign}};
    for (const auto& [name, severity] : kSeverities)
      if (word == name) next.severity = severity;
    if (word == "certain") next.confidence = Confidence::certain;
    if (word == "possible") next.confidence = Confidence::possible;
    if (word == "first_cure_meets_cause") next.first_cure_meets_cause = true;
  }
  void read_title(std::string_view text) { finding().title = text; }
  void read_cause(std::string_view text) { finding().cause = text; }
  void read_cure(std::string_view text) {
    if (!std::exchange(has_own_cures_, true)) finding().cures.clear();
    add_cures(finding().cures, text);
  }
  void read_no_cures(std::string_view) { finding().cures.clear(); }

  void add_cures(std::vector<CureRow>& cures, std::string_view text) const {
    const std::string_view what = trim(take_before(text, " :: "));
    std::string_view command = what;
    std::vector<CureRow> rows{{.what = std::string(take_before(command, " => "))}};
    rows.front().command = command;
    if (what.starts_with('@')) {
      const auto list = cures_.find(what.substr(1));
      if (list == cures_.end()) fail(what);
      rows = list->second;
    }
    while (!text.empty()) {
      std::string_view value = take_before(text, " :: ");
      const std::string_view name = take_before(value, " ");
      if (name != "saves" && name != "when") fail(name);
      for (CureRow& row : rows) (name == "saves" ? row.saves : row.when) = value;
    }
    cures.insert(cures.end(), rows.begin(), rows.end());
  }

  using Statement = void (RuleReader::*)(std::string_view);
  static const std::map<std::string, Statement> kStatements;

  const RuleFamily* family_ = nullptr;
  Block block_ = Block::rule;
  std::string name_;            // of the rule or the list
  bool has_own_cures_ = false;  // the last finding
  std::vector<LogRule> rules_;
  std::map<std::string, std::vector<CureRow>, std::less<>> cures_;
  std::map<std::string, std::vector<std::string>, std::less<>> figures_;
};

const std::map<std::string, RuleReader::Statement> RuleReader::kStatements{
    {"flags", &RuleReader::read_flags},      {"anchors", &RuleReader::read_anchors},
    {"derive", &RuleReader::read_derive},    {"add", &RuleReader::read_add},
    {"read_first", &RuleReader::read_first}, {"line", &RuleReader::read_line},
    {"any", &RuleReader::read_any},          {"none", &RuleReader::read_none},
    {"figures", &RuleReader::read_figures},  {"finding", &RuleReader::read_finding},
    {"title", &RuleReader::read_title},      {"cause", &RuleReader::read_cause},
    {"cure", &RuleReader::read_cure},        {"no_cures", &RuleReader::read_no_cures}};

// Each line of a wording has one of these.
void add_anchors(const Wording& wording, std::vector<std::string>& anchors) {
  std::string_view best;
  for (const std::string& pattern : wording.all) {
    const std::string_view anchor = anchor_of_pattern(pattern);
    if (best.empty() || is_rarer_anchor(anchor, best)) best = anchor;
  }
  if (!best.empty())
    anchors.emplace_back(best);
  else if (anchors.empty())
    for (const std::string& words : wording.any) anchors.emplace_back(anchor_of_pattern(words));
}

}  // namespace

std::vector<LogRule> parse_rules(const std::vector<RuleFamily>& families) {
  RuleReader reader;
  for (const RuleFamily& family : families) reader.read(family);
  std::vector<LogRule> rules = reader.take_rules();
  for (LogRule& rule : rules)
    for (const Wording& wording : rule.wordings) add_anchors(wording, rule.anchors);
  return rules;
}

}  // namespace headroom::doctor
