#include "doctor/log_findings.h"

#include <algorithm>

#include "base/terminal.h"
#include "base/text.h"
#include "base/utf8.h"
#include "doctor/log_reader.h"

namespace headroom::doctor {
namespace {

std::vector<std::string_view> all_anchors() {
  std::vector<std::string_view> anchors;
  for (const LogRule& rule : log_rules())
    anchors.insert(anchors.end(), rule.anchors.begin(), rule.anchors.end());
  return anchors;
}

// What another program wrote goes to terminals and into Markdown.
std::string clean(std::string_view text) {
  return with_valid_utf8(without_terminal_control(trim(text).substr(0, LogFindings::kMostText)));
}

void add_absent(LogMessage& to, LogMessage from) {
  for (Figure& figure : from.figures) {
    const bool known = std::any_of(to.figures.begin(), to.figures.end(),
                                   [&](const Figure& own) { return own.name == figure.name; });
    if (!known) to.figures.push_back(std::move(figure));
  }
}

// An NvMap error alone may be harmless; with an out-of-memory beside it, it is the same event.
void join_nvmap(std::vector<Finding>& findings) {
  const bool failed = std::any_of(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.severity == Severity::severe && finding.id != "nvmap-permission";
  });
  for (Finding& finding : findings)
    if (failed && finding.id == "nvmap-allocation-failed") {
      finding.severity = Severity::severe;
      finding.confidence = Confidence::likely;
      finding.cause =
          "Something ran out of memory in the same logs, so this is the refusal behind it. " + finding.cause;
    }
}

}  // namespace

const LogRule* rule_of(std::string_view line, LogMessage& message) {
  for (const LogRule& rule : log_rules()) {
    const bool may_be =
        std::any_of(rule.anchors.begin(), rule.anchors.end(),
                    [line](std::string_view anchor) { return line.find(anchor) != line.npos; });
    if (!may_be) continue;
    if (auto read = rule.read(line)) {
      message = std::move(*read);
      return &rule;
    }
  }
  return nullptr;
}

LogFindings::LogFindings() : anchors_(all_anchors()) {}

Status LogFindings::read_file(const std::string& path) {
  const std::string name = path == "-" ? "(standard input)" : path;
  auto read = read_log_file(path, anchors_, [&](std::int64_t number, std::string_view line) {
    return read_line(name, number, line);
  });
  end_file();
  return read;
}

bool LogFindings::read_line(const std::string& file, std::int64_t number, std::string_view line) {
  if (OomReport::begins(line)) {
    report_.begin();
    return true;
  }
  LogMessage message;
  const LogRule* rule = rule_of(line, message);
  if (!rule) {
    if (report_.is_open()) report_.read(line);
    return report_.is_open();
  }
  // The summary "oom-kill:constraint=…" comes before the line with the victim's sizes, which ends the report.
  const bool is_kill = !message.event.empty();
  if (is_kill && message.bytes("virtual_bytes")) report_.end(message);
  add(*rule, std::move(message), file, number, line);
  return report_.is_open();
}

void LogFindings::add(const LogRule& rule, LogMessage message, const std::string& file, std::int64_t number,
                      std::string_view line) {
  // A kill is told in two or three lines, of which only one tells whether a control group was full.
  const bool same_event = !message.event.empty() && last_event_ == message.event &&
                          last_group_ < groups_.size() && groups_[last_group_].rule == &rule;
  if (same_event) {
    Group& group = groups_[last_group_];
    if (group.event == message.event) add_absent(group.message, std::move(message));
    add_evidence(group, {file, number, clean(line)}, false);
    return;
  }
  const std::string key = std::string(rule.name) + '\n' + message.subject + '\n' + message.text("constraint");
  auto found = by_key_.find(key);
  if (found == by_key_.end()) {
    if (groups_.size() >= kMostGroups) return;
    found = by_key_.emplace(key, groups_.size()).first;
    groups_.push_back({&rule, {}, {}, 0, {}});
  }
  Group& group = groups_[found->second];
  last_event_ = message.event;
  last_group_ = found->second;
  // The one that tells most stands for all, and its line comes first.
  const bool stands = ++group.times == 1 || message.figures.size() > group.message.figures.size();
  if (stands) {
    group.event = message.event;
    group.message = std::move(message);
  }
  add_evidence(group, {file, number, clean(line)}, stands);
}

void LogFindings::add_evidence(Group& group, Evidence evidence, bool first) {
  if (first) {
    group.evidence.insert(group.evidence.begin(), std::move(evidence));
    if (group.evidence.size() > kMostEvidence) group.evidence.pop_back();
  } else if (group.evidence.size() < kMostEvidence) {
    group.evidence.push_back(std::move(evidence));
  }
}

std::vector<Finding> LogFindings::findings() const {
  std::vector<Finding> findings;
  for (const Group& group : groups_) {
    Finding finding = group.rule->explain(group.message);
    finding.times = group.times;
    finding.evidence = group.evidence;
    finding.figures = group.message.figures;
    sort_cures(finding);
    findings.push_back(std::move(finding));
  }
  clean_findings(findings);
  join_nvmap(findings);
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
      cure.command = clean(cure.command);
    }
  }
}

void sort_findings(std::vector<Finding>& findings) {
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& a, const Finding& b) { return a.severity < b.severity; });
}

void sort_cures(Finding& finding) {
  std::stable_sort(finding.cures.begin(), finding.cures.end(), [](const Cure& a, const Cure& b) {
    return a.saves.value_or(Bytes{-1}) > b.saves.value_or(Bytes{-1});
  });
}

}  // namespace headroom::doctor
