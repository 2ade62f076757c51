#include "doctor/log/rule_text.h"

#include <fmt/format.h>

#include <span>
#include <stdexcept>
#include <utility>

#include "base/text.h"
#include "doctor/log/line_pattern.h"
#include "doctor/log/message_text.h"

namespace headroom::doctor {
namespace {

const std::map<std::string_view, bool LogRule::*> kFlags{{"from_outside", &LogRule::from_outside},
                                                         {"is_kernel_kill", &LogRule::is_kernel_kill},
                                                         {"repeats_kills", &LogRule::repeats_kills},
                                                         {"is_not_of_memory", &LogRule::is_not_of_memory},
                                                         {"waits_for_failure", &LogRule::waits_for_failure}};
const std::map<std::string_view, std::string LogRule::*> kTextFields{
    {"context_of", &LogRule::context_of},
    {"figures_for", &LogRule::figures_for},
    {"answers", &LogRule::answers},
    {"told_better_by", &LogRule::told_better_by}};
const std::map<std::string_view, bool LineTraits::*> kTraits{{"may_go_on", &LineTraits::may_go_on},
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
  void read_statement(std::string_view text) {
    const bool begins_block = !text.starts_with(' ');
    text = trim(text);
    if (text.empty() || text.starts_with('#')) return;
    std::string_view rest = text;
    const std::string_view key = take_before(rest, " ");
    if (begins_block)
      begin(key, rest);
    else if (block_ == "figures")
      add_facts(figures_[name_], text);
    else if (block_ == "cures" && key == "cure")
      add_cures(cures_[name_], rest);
    else if (block_ == "rule")
      (this->*look_up(kStatements, key))(rest);
    else
      fail(key);
  }
  void begin(std::string_view key, std::string_view rest) {
    name_ = take_before(rest, ": ");
    if (key == "rule") {
      rules_.push_back({.name = name_});
      for (const std::string_view option : split_words(rest)) read_rule_option(option);
    } else if (key == "cures") {
      if (!rest.empty()) add_cures(cures_[name_], rest);
    } else if (key != "figures") {
      fail(key);
    }
    block_ = key;
  }
  [[noreturn]] void fail(std::string_view what) const {
    throw std::logic_error(fmt::format("{}: {} is unknown or misplaced", name_, what));
  }

  LogRule& rule() { return rules_.back(); }
  Wording& wording() {
    if (rule().wordings.empty()) fail("a line's option");
    return rule().wordings.back();
  }
  Explanation& explanation() {
    if (rule().explanations.empty()) fail("a finding's option");
    return rule().explanations.back();
  }
  template <typename Map>
  const typename Map::mapped_type& look_up(const Map& map, std::string_view name) const {
    const auto row = map.find(name);
    if (row == map.end()) fail(name);
    return row->second;
  }

  void read_rule_option(std::string_view option) {
    std::string_view value = option;
    const std::string_view name = take_before(value, "=");
    if (name == "derive")
      rule().derive = look_up(family_->functions, value);
    else if (name == "call")
      rule().call = look_up(family_->functions, value);
    else if (value.empty())
      rule().*look_up(kFlags, name) = true;
    else
      rule().*look_up(kTextFields, name) = value;
  }
  void read_anchors(std::string_view text) { rule().anchors = list_of(text, " || "); }

  void read_line(std::string_view text) {
    rule().wordings.emplace_back();
    const std::string spaced = fmt::format(" {} ", text);
    std::string_view options = spaced;
    read_or(trim(take_before(options, " -> ")));
    while (!options.empty()) read_option(trim(take_before(options, "; ")));
  }
  void read_or(std::string_view alternatives) {
    do wording().alternatives.push_back(list_of(take_before(alternatives, " || "), " && "));
    while (!alternatives.empty());
  }
  void read_option(std::string_view option) {
    std::string_view value = option;
    const std::string_view name = take_before(value, "=");
    if (name == "none")
      wording().none.push_back(without_quotes(value));
    else if (name == "any")
      read_any(value);
    else if (name == "call")
      wording().call = look_up(family_->functions, value);
    else if (name == "figures")
      read_figures(value);
    else
      wording().facts.push_back(fact_of(option));
  }
  // "memory=host" or a trait.
  Fact fact_of(std::string_view text) const {
    if (!has(text, "=")) return {.trait = look_up(kTraits, text)};
    const std::string_view name = take_before(text, "=");
    return {.name = std::string(name), .value = without_quotes(text)};
  }
  void read_any(std::string_view text) { wording().any = list_of(text, " || "); }
  void read_none(std::string_view text) { wording().none = list_of(text, " || "); }
  void read_figures(std::string_view list) {
    add_facts(rule().wordings.empty() ? rule().facts : wording().facts, list);
  }
  void add_facts(std::vector<Fact>& facts, std::string_view list) const {
    std::string_view patterns = list;
    const std::string_view fact = take_before(patterns, " <= ");
    for (std::string& pattern : list_of(patterns, " || ")) {
      facts.push_back(fact_of(fact));
      facts.back().pattern = std::move(pattern);
    }
    while (patterns.empty() && !list.empty()) {
      const std::string_view item = trim(take_before(list, " || "));
      const auto items =
          item.starts_with('@') ? look_up(figures_, item.substr(1)) : std::vector{read_fact(item)};
      facts.insert(facts.end(), items.begin(), items.end());
    }
  }
  // "PATTERN", "PATTERN => fact" or "fact".
  Fact read_fact(std::string_view text) const {
    if (is_fixed(text) || kTraits.contains(text)) return fact_of(text);
    const std::size_t arrow = text.find(" => ");
    Fact fact = arrow == text.npos ? Fact{} : fact_of(trim(text.substr(arrow + 4)));
    fact.pattern = without_quotes(text.substr(0, arrow));
    return fact;
  }
  static bool is_fixed(std::string_view text) {
    if (has(text, " => ")) return false;
    const std::string_view name = text.substr(0, text.find('='));
    const bool is_name = name.size() < text.size() && !name.empty() &&
                         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") == name.npos;
    return is_name && (!has(text, "{") || name == "subject" || name == "event");
  }

  void read_finding(std::string_view text) {
    Explanation next;
    if (!rule().explanations.empty()) {
      const Explanation& above = explanation();
      next.finding.title = above.finding.title;
      next.finding.cause = above.finding.cause;
      next.cures = above.cures;
    }
    const auto words = split_words(take_before(text, " when "));
    next.when = text;
    next.finding.id = words.at(0);
    for (const std::string_view word : std::span(words).subspan(1)) read_degree(word, next.finding);
    rule().explanations.push_back(std::move(next));
    has_own_cures_ = false;
  }
  static void read_degree(std::string_view word, Finding& finding) {
    for (const Severity severity : {Severity::warning, Severity::note, Severity::benign})
      if (word == name_of(severity)) finding.severity = severity;
    for (const Confidence confidence : {Confidence::certain, Confidence::possible})
      if (word == name_of(confidence)) finding.confidence = confidence;
    if (word == "first_cure_meets_cause") finding.first_cure_meets_cause = true;
  }
  void read_title(std::string_view text) { explanation().finding.title = text; }
  void read_cause(std::string_view text) { explanation().finding.cause = text; }
  void read_cure(std::string_view text) {
    if (!std::exchange(has_own_cures_, true)) explanation().cures.clear();
    add_cures(explanation().cures, text);
  }
  void read_no_cures(std::string_view) { explanation().cures.clear(); }

  void add_cures(std::vector<CureRow>& cures, std::string_view text) const {
    const std::string_view what = trim(take_before(text, " :: "));
    std::string_view command = what;
    std::vector<CureRow> rows;
    if (what.starts_with('@'))
      for (const std::string_view name : split_words(what)) {
        const auto& list = look_up(cures_, name.substr(1));
        rows.insert(rows.end(), list.begin(), list.end());
      }
    else
      rows.push_back({.what = std::string(take_before(command, " => ")), .command = std::string(command)});
    while (!text.empty()) {
      std::string_view value = take_before(text, " :: ");
      const std::string_view name = take_before(value, " ");
      if (name != "saves" && name != "when") fail(name);
      for (CureRow& row : rows) (name == "saves" ? row.saves : row.when) = value;
    }
    cures.insert(cures.end(), rows.begin(), rows.end());
  }

  using Statement = void (RuleReader::*)(std::string_view);
  static const std::map<std::string_view, Statement> kStatements;

  const RuleFamily* family_ = nullptr;
  std::string block_, name_;    // "rule", "cures" or "figures", and its name
  bool has_own_cures_ = false;  // the last finding
  std::vector<LogRule> rules_;
  std::map<std::string, std::vector<CureRow>, std::less<>> cures_;
  std::map<std::string, std::vector<Fact>, std::less<>> figures_;
};

const std::map<std::string_view, RuleReader::Statement> RuleReader::kStatements{
    {"anchors", &RuleReader::read_anchors},
    {"line", &RuleReader::read_line},
    {"or", &RuleReader::read_or},
    {"any", &RuleReader::read_any},
    {"none", &RuleReader::read_none},
    {"figures", &RuleReader::read_figures},
    {"finding", &RuleReader::read_finding},
    {"title", &RuleReader::read_title},
    {"cause", &RuleReader::read_cause},
    {"cure", &RuleReader::read_cure},
    {"no_cures", &RuleReader::read_no_cures}};

void add_anchor(std::string_view pattern, std::vector<std::string>& anchors) {
  if (const std::string_view anchor = anchor_of_pattern(pattern); !anchor.empty())
    anchors.emplace_back(anchor);
}

// Each line of a wording has one of these.
void add_anchors(const Wording& wording, std::vector<std::string>& anchors) {
  for (const auto& patterns : wording.alternatives) {
    std::string_view best;
    for (const std::string& pattern : patterns) {
      const std::string_view anchor = anchor_of_pattern(pattern);
      if (best.empty() || is_rarer_anchor(anchor, best)) best = anchor;
    }
    if (!best.empty())
      anchors.emplace_back(best);
    else if (patterns.empty())
      for (const Fact& fact : wording.facts) add_anchor(fact.pattern, anchors);
    else if (anchors.empty())
      for (const std::string& pattern : wording.any) add_anchor(pattern, anchors);
  }
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
