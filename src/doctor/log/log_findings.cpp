#include "doctor/log/log_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <bitset>
#include <utility>

#include "base/terminal.h"
#include "base/text.h"
#include "doctor/log/anchor_search.h"
#include "doctor/log/log_envelope.h"
#include "doctor/log/log_prose.h"
#include "doctor/log/log_reader.h"
#include "doctor/log/log_retry.h"
#include "doctor/log/message_text.h"

namespace headroom::doctor {
namespace {

// Which rules have an anchor in a line: one pass over the line instead of a hundred searches. Bit 0: a
// program tries again. Bit i + 1: rule i has an anchor in the line.
using Owners = std::bitset<128>;
constexpr std::size_t kRetry = 0;

struct Anchors {
  AnchorSearch words;
  std::vector<Owners> owners;  // of each word
};
const Anchors& all_anchors() {
  static const Anchors kAnchors = [] {
    std::vector<std::vector<std::string_view>> by_owner{retry_anchors()};
    for (const LogRule& rule : log_rules()) by_owner.emplace_back(rule.anchors.begin(), rule.anchors.end());
    std::vector<std::string_view> words;
    for (const auto& each : by_owner) words.insert(words.end(), each.begin(), each.end());
    Anchors anchors{AnchorSearch(words), {}};
    for (const std::string& word : anchors.words.words()) {
      Owners& owners = anchors.owners.emplace_back();
      for (std::size_t i = 0; i < by_owner.size(); ++i) owners.set(i, is_one_of(word, by_owner[i]));
    }
    return anchors;
  }();
  return kAnchors;
}

Owners owners_of(std::string_view line) {
  const Anchors& anchors = all_anchors();
  Owners owners;
  anchors.words.visit(line, 0, [&](std::size_t, std::size_t word) {
    owners |= anchors.owners[word];
    return true;
  });
  return owners;
}

// The message has the request and the available memory: "Tried to allocate 2.00 GiB (GPU 0; 8.00 GiB total
// …".
bool tells_amounts(const LogMessage& message) {
  return std::ranges::count_if(message.figures,
                               [](const Figure& figure) { return figure.name.ends_with("_bytes"); }) >= 2;
}

const LogRule* rule_of(std::string_view line, const Owners& owners, LogMessage& message) {
  const auto& rules = log_rules();
  for (std::size_t i = 0; i < rules.size(); ++i) {
    if (!owners[i + 1]) continue;
    if (auto read = rules[i].read(line)) {
      if (is_only_spoken_of(line, tells_amounts(*read))) return nullptr;
      message = std::move(*read);
      return &rules[i];
    }
  }
  return nullptr;
}

bool is_any_known(std::string_view text) {
  const auto lines = split(text, '\n');
  return std::ranges::any_of(lines, [](std::string_view line) {
    LogMessage message;
    return rule_of(line, owners_of(line), message) != nullptr;
  });
}

// Whether the line after a retry shows that the program failed anyway: an exception, its end, or a kill.
bool tells_it_did_not_go_on(std::string_view line, const Owners& owners) {
  if (has(line, "Traceback (most recent") || tells_end(line) || OomReport::begins(line)) return true;
  LogMessage message;
  const LogRule* rule = rule_of(line, owners, message);
  return rule != nullptr && !message.is_addition &&
         (message.ends_program || rule->is_kernel_kill || rule->repeats_kills);
}

// Texts of other programs are printed to terminals and into Markdown.
std::string clean_whole(std::string_view text) { return without_terminal_control(trim(text)); }
std::string clean(std::string_view text) { return clean_whole(trim(text).substr(0, LogFindings::kMostText)); }

// A runtime's error and a model's name may have several lines.
std::string in_one_line(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return text;
}

// The text around the rule's anchor, which may be late in a long line.
std::string clean_around(const LogRule& rule, std::string_view text) {
  constexpr std::size_t kBefore = LogFindings::kMostText / 4;
  if (text.size() <= LogFindings::kMostText) return clean(text);
  std::size_t first = text.npos;
  for (const std::string& anchor : rule.anchors) first = std::min(first, text.find(anchor));
  if (first == text.npos || first + kBefore <= LogFindings::kMostText) return clean(text);
  return "…" + clean(text.substr(first - kBefore));
}

// Proven cures come first, refuted ones last.
int rank_of(const Cure& cure) {
  if (!cure.tried) return 1;
  const CureVerdict verdict = cure.tried->verdict;
  if (verdict == CureVerdict::no_difference) return 2;
  return verdict == CureVerdict::helps || verdict == CureVerdict::costs_speed ? 0 : 3;
}

Bytes saved_by(const Cure& cure) {
  if (cure.tried && cure.tried->saved) return *cure.tried->saved;
  return cure.saves.value_or(Bytes{-1});
}

}  // namespace

const LogRule* rule_of(std::string_view line, LogMessage& message) {
  return rule_of(line, owners_of(line), message);
}

Result<std::int64_t> LogFindings::read_file(const std::string& path) {
  const std::string name = path == "-" ? "(standard input)" : path;
  auto read = read_log_file(path, all_anchors().words, [&](std::int64_t number, std::string_view line) {
    return read_line(name, number, line);
  });
  end_file();
  return read;
}

void LogFindings::end_file() {
  close_report();
  report_ = {};
  announced_ = {};
  context_.clear();
  cut_ = {};
  chosen_.reset();
  refused_.reset();
  if (std::exchange(waits_for_answer_, false) && answers_itself_) groups_.went_on();
  groups_.did_not_go_on();
}

// A report of the kernel without a kill: its end is not in the log.
void LogFindings::close_report() {
  if (!report_.waits_for_kill()) return;
  const auto rule = std::ranges::find_if(log_rules(), &LogRule::is_kernel_kill);
  LogMessage message;
  report_.end(message);
  const LogPlace at{report_begin_.file, report_begin_.line, time_of(report_begin_.text)};
  groups_.add(*rule, std::move(message), at, report_begin_.text);
}

bool LogFindings::read_line(const std::string& file, std::int64_t number, std::string_view line) {
  line = without_quote_marks(line);
  std::string buffer;
  const std::string_view text = without_envelope(line, buffer);
  // In a record with several fields, the message may be in another field. If the whole record is not a
  // message with its keys, nor is the field.
  if (text.data() != line.data() && !is_any_known(text))
    if (const std::string others = beside_message(line); is_any_known(others))
      return read_plain_line(file, number, is_any_known(line) ? line : others);
  bool wants_next = false;  // one field may contain a whole traceback
  for (const std::string_view each : split(text, '\n')) wants_next = read_plain_line(file, number, each);
  return wants_next;
}

bool LogFindings::read_plain_line(const std::string& file, std::int64_t number, std::string_view line) {
  if (waits_for_answer_ && trim(line).empty()) return true;
  const LogPlace at{file, number, time_of(line)};
  const Owners owners = owners_of(line);
  if (std::exchange(waits_for_answer_, false)) {
    if (tells_it_did_not_go_on(line, owners))
      groups_.did_not_go_on();
    else
      groups_.went_on();
  }
  if (joins(line)) {
    if (owners[kRetry]) read_retry(at, line);
    return true;
  }
  if (OomReport::begins(line) || (!report_.is_open() && OomReport::begins_within(line))) {
    close_report();
    report_.begin(line);
    report_begin_ = {file, number, clean(line)};
    return true;
  }
  LogMessage message;
  const LogRule* rule = rule_of(line, owners, message);
  const bool is_failure =
      rule != nullptr && !rule->is_not_of_memory && !rule->from_outside && rule->context_of.empty();
  if (rule == nullptr) {
    if (report_.is_open()) report_.read(line);
  } else if (!rule->context_of.empty()) {
    read_contexts(at, line);
  } else {
    read_contexts(at, line, LogRule::kEveryRule);
    read_message(*rule, std::move(message), at, line);
  }
  if (owners[kRetry]) read_retry(at, line, is_failure);
  return report_.is_open() || waits_for_answer_ || cut_.rule != nullptr;
}

// A line of settings may have figures for several rules. `only`: contexts of this rule; empty: all.
void LogFindings::read_contexts(const LogPlace& at, std::string_view line, std::string_view only) {
  for (const LogRule& rule : log_rules()) {
    if (rule.context_of.empty() || (!only.empty() && rule.context_of != only)) continue;
    const auto message = rule.read(line);
    if (!message) continue;
    for (const Figure& figure : message->figures) context_[rule.context_of].set(figure);
    if (message->answers) groups_.answer(rule.answers, at, clean(line));
  }
}

void LogFindings::read_message(const LogRule& rule, LogMessage message, const LogPlace& at,
                               std::string_view line) {
  if (announced_.explain(message, at.line)) return;
  if (rule.is_kernel_kill) report_.note_kill(message);
  // The summary "oom-kill:constraint=…" comes before the line with the victim's sizes, which ends the report.
  const bool is_kill = rule.is_kernel_kill && !message.event.empty();
  if (is_kill && message.bytes("virtual_bytes")) report_.end(message);
  take_back_chosen(rule, message, at);
  if (!rule.figures_for.empty())
    for (const Figure& figure : message.figures) context_[rule.figures_for].set(figure);
  if (message.answers) groups_.answer(rule.answers, at, clean(line));
  const auto size = message.asks_for_less ? message.bytes("requested_bytes") : std::nullopt;
  const Bytes asked = size.value_or(Bytes{});
  const auto before = std::exchange(refused_, size ? std::optional(Refused{&rule, asked}) : std::nullopt);
  const bool ends_program = message.ends_program;
  add(rule, std::move(message), at, line);
  if (ends_program) groups_.ended(at, line);
  if (size && before && before->rule == &rule && asked < before->size)
    groups_.answer(rule.name, at, clean(line));
}

// "Kill process 2700 (launcher) … or sacrifice child", then "Killed process 2750 (detector)": the launcher
// survives.
void LogFindings::take_back_chosen(const LogRule& rule, LogMessage& message, const LogPlace& at) {
  const auto chosen = std::exchange(chosen_, std::nullopt);
  if (!rule.is_kernel_kill) return;
  if (message.part == "chosen") {
    message.part.clear();
    chosen_ = Chosen{message.event, message.text("constraint"), at};
    return;
  }
  constexpr std::int64_t kNext = 5;  // lines; threads of the victim may be named between
  const bool is_of_it = chosen && chosen->event != message.event && chosen->at.file == at.file &&
                        at.line - chosen->at.line <= kNext && message.bytes("virtual_bytes");
  if (!is_of_it) return;
  groups_.take_back();
  if (message.text("constraint").empty()) message.add("constraint", chosen->constraint);
}

void LogFindings::add(const LogRule& rule, LogMessage message, const LogPlace& at, std::string_view text) {
  cut_ = {};
  const bool may_be_taken_back = message.may_go_on || chosen_.has_value();
  if (message.may_go_on) cut_ = {&rule, at, std::string(text), message.figures.size(), message.is_final};
  for (const std::string_view context : {std::string_view(rule.name), LogRule::kEveryRule}) {
    const auto known = context_.find(context);
    if (known == context_.end()) continue;
    const bool is_reaped = message.text("told_by") == "oom_reaper";
    if (is_reaped && known->second.text("kernel") == "Android") return;
    message.add_absent(known->second);
  }
  groups_.add(rule, std::move(message), at, clean_around(rule, text), may_be_taken_back);
}

// Joins the line to the message before, if that then has more figures. Terminals break words and keep spaces,
// loggers break between words: both ways are tried.
bool LogFindings::joins(std::string_view line) {
  const CutMessage cut = std::exchange(cut_, {});
  if (cut.rule == nullptr || has(line, "ut of memory") || cut.text.size() + line.size() > kLongestLogLine)
    return false;
  const LogRule* best_rule = nullptr;
  LogMessage best;
  std::string best_text;
  for (const std::string_view between : {"", " "}) {
    std::string joined = fmt::format("{}{}{}", cut.text, between, between.empty() ? line : trim(line));
    LogMessage message;
    const LogRule* rule = rule_of(joined, message);
    if (rule == nullptr || (best_rule != nullptr && message.figures.size() <= best.figures.size())) continue;
    best_rule = rule;
    best = std::move(message);
    best_text = std::move(joined);
  }
  if (best_rule == nullptr || (best_rule == cut.rule && best.figures.size() <= cut.figures)) return false;
  groups_.take_back();
  best.is_final |= cut.is_final;
  add(*best_rule, std::move(best), cut.at, best_text);
  return true;
}

void LogFindings::read_retry(const LogPlace& at, std::string_view line, bool tells_failure_too) {
  announced_.read(line, at.line);
  if (tells_giving_up(line))
    groups_.gave_up(at.file);
  else if (tells_end(line))
    groups_.ended(at, line);
  else if (tells_retry(line)) {
    waits_for_answer_ = groups_.retry(at, clean(line));
    // Where the log ends with it, such a line still tells that the program caught what it could not get.
    answers_itself_ = tells_failure_too || tells_choice(line);
  }
}

std::vector<Finding> LogFindings::findings() const {
  LogFindings ended = *this;  // whatever comes may still belong to what is open
  ended.end_file();
  std::vector<Finding> findings = ended.groups_.findings();
  for (Finding& finding : findings) sort_cures(finding);
  clean_findings(findings);
  sort_findings(findings);
  return findings;
}

void clean_trial(TriedCure& tried) {
  tried.sentence = in_one_line(clean_whole(tried.sentence));
  tried.command = clean_whole(tried.command);
}

void clean_findings(std::vector<Finding>& findings) {
  for (Finding& finding : findings) {
    finding.title = in_one_line(clean(finding.title));
    finding.cause = in_one_line(clean(finding.cause));
    for (Evidence& evidence : finding.evidence) {
      evidence.file = clean_whole(evidence.file);  // to be opened
      evidence.text = in_one_line(clean(evidence.text));
    }
    for (Figure& figure : finding.figures)
      if (auto* text = std::get_if<std::string>(&figure.value)) *text = in_one_line(clean(*text));
    for (Cure& cure : finding.cures) {
      cure.what = in_one_line(clean(cure.what));
      cure.command = clean_whole(cure.command);  // to be run as it stands
      if (cure.tried) clean_trial(*cure.tried);
    }
  }
}

void sort_findings(std::vector<Finding>& findings) {
  std::ranges::stable_sort(findings, {}, &Finding::severity);
}

void sort_cures(Finding& finding) {
  if (finding.cures.empty()) return;
  const bool keeps_first = finding.first_cure_meets_cause && rank_of(finding.cures.front()) <= 1;
  std::stable_sort(finding.cures.begin() + (keeps_first ? 1 : 0), finding.cures.end(),
                   [](const Cure& a, const Cure& b) {
                     const int rank = rank_of(a), other = rank_of(b);
                     return rank != other ? rank < other : saved_by(a) > saved_by(b);
                   });
}

}  // namespace headroom::doctor
