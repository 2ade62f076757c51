#include "doctor/log/log_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <bitset>
#include <utility>
#include <vector>

#include "base/terminal.h"
#include "base/text.h"
#include "base/utf8.h"
#include "doctor/log/anchor_search.h"
#include "doctor/log/log_envelope.h"
#include "doctor/log/log_reader.h"
#include "doctor/log/log_retry.h"
#include "doctor/log/ollama_messages.h"

namespace headroom::doctor {
namespace {

// Whose words a line has: all rules' in one pass over it, where a search for each would be a hundred.
class WordOwners {
 public:
  // Bit 0: what a program says that tries again; bit i + 1: rule i has a word in it. One that is not among
  // them, std::bitset::set refuses.
  using Set = std::bitset<64>;
  static constexpr std::size_t kRetry = 0;
  static constexpr std::size_t of_rule(std::size_t rule) { return rule + 1; }

  static const WordOwners& all() {
    static const WordOwners kAll;
    return kAll;
  }
  const AnchorSearch& words() const { return words_; }
  Set of(std::string_view line) const {
    Set owners;
    words_.visit(line, 0, [&](std::size_t, std::size_t word) {
      owners |= owners_[word];
      return true;
    });
    return owners;
  }

 private:
  WordOwners() : words_(all_words()), owners_(words_.words().size()) {
    const auto& rules = log_rules();
    for (std::size_t i = 0; i < rules.size(); ++i) add(rules[i].anchors, of_rule(i));
    add(retry_anchors(), kRetry);
  }
  static std::vector<std::string_view> all_words() {
    std::vector<std::string_view> words;
    for (const LogRule& rule : log_rules())
      words.insert(words.end(), rule.anchors.begin(), rule.anchors.end());
    words.insert(words.end(), retry_anchors().begin(), retry_anchors().end());
    words.insert(words.end(), envelope_anchors().begin(), envelope_anchors().end());
    return words;
  }
  void add(const std::vector<std::string_view>& words, std::size_t owner) {
    const auto& all = words_.words();
    for (const std::string_view word : words)
      if (const auto at = std::find(all.begin(), all.end(), word); at != all.end())
        owners_[static_cast<std::size_t>(at - all.begin())].set(owner);
  }

  AnchorSearch words_;
  std::vector<Set> owners_;  // of each word
};

const LogRule* rule_of(std::string_view line, const WordOwners::Set& owners, LogMessage& message) {
  const auto& rules = log_rules();
  for (std::size_t i = 0; i < rules.size(); ++i) {
    if (!owners[WordOwners::of_rule(i)]) continue;
    if (auto read = rules[i].read(line)) {
      message = std::move(*read);
      return &rules[i];
    }
  }
  return nullptr;
}

// What another program wrote goes to terminals and into Markdown.
std::string clean_whole(std::string_view text) {
  return with_valid_utf8(without_terminal_control(trim(text)));
}
std::string clean(std::string_view text) { return clean_whole(trim(text).substr(0, LogFindings::kMostText)); }

// What stands around the words by which the rule knows it: they may come late in a long line.
std::string clean_around(const LogRule& rule, std::string_view text) {
  constexpr std::size_t kBefore = LogFindings::kMostText / 4;
  if (text.size() <= LogFindings::kMostText) return clean(text);
  std::size_t first = text.npos;
  for (const std::string_view anchor : rule.anchors) first = std::min(first, text.find(anchor));
  if (first == text.npos || first + kBefore <= LogFindings::kMostText) return clean(text);
  return "…" + clean(text.substr(first - kBefore));
}

}  // namespace

const LogRule* rule_of(std::string_view line, LogMessage& message) {
  return rule_of(line, WordOwners::all().of(line), message);
}

Result<std::int64_t> LogFindings::read_file(const std::string& path) {
  const std::string name = path == "-" ? "(standard input)" : path;
  auto read = read_log_file(path, WordOwners::all().words(), [&](std::int64_t number, std::string_view line) {
    return read_line(name, number, line);
  });
  end_file();
  return read;
}

void LogFindings::end_file() {
  report_ = {};
  context_.clear();
  cut_ = {};
  chosen_.reset();
  refused_by_driver_.reset();
  waits_for_answer_ = false;
  groups_.end_file();
}

bool LogFindings::read_line(const std::string& file, std::int64_t number, std::string_view line) {
  std::string buffer;
  const std::string_view text = without_envelope(line, buffer);
  // Of a record with several fields, what a rule knows may stand in another one. One field may have a whole
  // traceback in it.
  const auto lines = split(text, '\n');
  const auto is_known = [](std::string_view each) {
    LogMessage message;
    return rule_of(each, message) != nullptr;
  };
  if (text.data() != line.data() && std::none_of(lines.begin(), lines.end(), is_known) && is_known(line))
    return read_plain_line(file, number, line);
  bool wants_next = false;
  for (const std::string_view each : lines) wants_next = read_plain_line(file, number, each);
  return wants_next;
}

bool LogFindings::read_plain_line(const std::string& file, std::int64_t number, std::string_view line) {
  if (waits_for_answer_) {
    if (trim(line).empty()) return true;
    if (tells_failure(line))
      groups_.did_not_go_on();
    else
      groups_.went_on();
    waits_for_answer_ = false;
  }
  const WordOwners::Set owners = WordOwners::all().of(line);
  if (joins(file, number, line)) {
    if (owners[WordOwners::kRetry]) read_retry({file, number}, line);
    return true;
  }
  if (OomReport::begins(line)) {
    report_.begin();
    return true;
  }
  LogMessage message;
  const LogRule* rule = rule_of(line, owners, message);
  if (!rule) {
    if (report_.is_open()) report_.read(line, number);
  } else if (!rule->context_of.empty()) {
    LogMessage& known = context_[rule->context_of];
    for (Figure& figure : message.figures) known.set(std::move(figure));
    // Ollama tries fewer layers on the GPU until they fit.
    if (message.part == "started") groups_.answer("ggml", {file, number}, clean(line));
  } else {
    // The summary "oom-kill:constraint=…" comes before the line with the victim's sizes, which ends the
    // report.
    const bool is_kill = !message.event.empty();
    const auto victim = is_kill && message.bytes("virtual_bytes") ? report_.end(message) : std::nullopt;
    take_back_chosen(*rule, message, {file, number});
    if (const auto known = context_.find(rule->name); known != context_.end())
      message.add_absent(known->second);
    // A builder that leaves a tactic out goes on.
    if (rule->name == "tensorrt-tactic" && message.part == "skipped")
      groups_.answer("tensorrt", {file, number}, clean(line));
    // TensorFlow's allocator asks the driver for a tenth less, and again; if it gets nothing it says so.
    const auto refused = rule->name == "tensorflow" && message.part == "device"
                             ? message.bytes("requested_bytes")
                             : std::nullopt;
    const auto before = std::exchange(refused_by_driver_, refused);
    const bool is_final = rule->name == "ggml" && is_ollama_end(message);
    const bool is_kept = add(*rule, std::move(message), {file, number}, line);
    if (is_final) groups_.ended({file, number}, line);
    if (is_kept && victim) groups_.add_evidence({file, victim->line}, clean(victim->text));
    if (refused && before && *refused < *before) groups_.answer("tensorflow", {file, number}, clean(line));
  }
  if (owners[WordOwners::kRetry]) read_retry({file, number}, line);
  return report_.is_open() || waits_for_answer_ || cut_.rule != nullptr;
}

// "Kill process 2700 (launcher) … or sacrifice child", then "Killed process 2750 (detector)": the launcher
// lives.
void LogFindings::take_back_chosen(const LogRule& rule, LogMessage& message, const LogPlace& at) {
  const auto chosen = std::exchange(chosen_, std::nullopt);
  if (rule.name != "oom-kill") return;
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

bool LogFindings::add(const LogRule& rule, LogMessage message, const LogPlace& at, std::string_view text,
                      int lines) {
  constexpr int kMostLines = 6;  // PyTorch's longest, broken at 80 columns
  cut_ = {};
  if (message.may_go_on && lines < kMostLines)
    cut_ = {&rule, at, std::string(text), lines, message.figures.size()};
  const bool may_be_taken_back = message.may_go_on || chosen_.has_value();
  return groups_.add(rule, std::move(message), at, clean_around(rule, text), may_be_taken_back);
}

// Terminals break words and keep spaces, so they come first; loggers break between words. A line that says by
// itself what happened is another message.
bool LogFindings::joins(const std::string& file, std::int64_t number, std::string_view line) {
  const CutMessage cut = std::exchange(cut_, {});
  if (cut.rule == nullptr || cut.at.file != file || cut.at.line + cut.lines != number) return false;
  if (line.find("ut of memory") != line.npos || cut.text.size() + line.size() > kLongestLogLine) return false;
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
  const bool tells_more =
      best_rule != nullptr && (best_rule != cut.rule || best.figures.size() > cut.figures);
  if (!tells_more) return false;
  groups_.take_back();
  add(*best_rule, std::move(best), cut.at, best_text, cut.lines + 1);
  return true;
}

void LogFindings::read_retry(const LogPlace& at, std::string_view line) {
  if (tells_giving_up(line))
    groups_.gave_up(at.file);
  else if (tells_end(line))
    groups_.ended(at, line);
  else if (tells_retry(line))
    waits_for_answer_ = groups_.retry(at, clean(line));
}

std::vector<Finding> LogFindings::findings() const {
  std::vector<Finding> findings = groups_.findings();
  for (Finding& finding : findings) sort_cures(finding);
  clean_findings(findings);
  sort_findings(findings);
  return findings;
}

void clean_findings(std::vector<Finding>& findings) {
  for (Finding& finding : findings) {
    finding.title = clean(finding.title);
    finding.cause = clean(finding.cause);
    for (Evidence& evidence : finding.evidence) {
      evidence.file = clean(evidence.file);
      evidence.text = clean(evidence.text);
    }
    for (Figure& figure : finding.figures)
      if (auto* text = std::get_if<std::string>(&figure.value)) *text = clean(*text);
    for (Cure& cure : finding.cures) {
      cure.what = clean(cure.what);
      cure.command = clean_whole(cure.command);  // to be run as it stands
    }
  }
}

void sort_findings(std::vector<Finding>& findings) {
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& a, const Finding& b) { return a.severity < b.severity; });
}

void sort_cures(Finding& finding) {
  if (finding.cures.empty()) return;
  const auto first = finding.cures.begin() + (finding.first_cure_meets_cause ? 1 : 0);
  std::stable_sort(first, finding.cures.end(), [](const Cure& a, const Cure& b) {
    return a.saves.value_or(Bytes{-1}) > b.saves.value_or(Bytes{-1});
  });
}

}  // namespace headroom::doctor
