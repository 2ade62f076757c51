#include "doctor/log/log_retry.h"

#include <algorithm>

#include "base/text.h"
#include "doctor/log/announced_kills.h"
#include "doctor/log/message_text.h"

namespace headroom::doctor {
namespace {

// ROS 2's launch, systemd (two wordings), supervisord, Kubernetes, Docker, gunicorn, torchrun.
constexpr std::string_view kEndWords =
    "process has died|Failed with result '|cheduled restart job|cheduling restart|entered failed state|"
    "; not expected)|ack-off restarting failed|ContainerDied|events.TaskDelete|Worker exiting (pid|"
    "failed (exitcode: |closing signal SIG";
// Followed by a code, which may mean success.
constexpr std::string_view kExited = "exited with code ";
constexpr std::string_view kMainProcess = "process exited, code=";
constexpr std::string_view kDied = "container die ";
constexpr std::string_view kSrun = "srun: error: ";  // "… node1: task 0: Out Of Memory"

// A shell's words for the signal that ended a program. Only the first is an anchor, because each anchor costs
// half a percent of the time. The others are searched in the line after a retry.
constexpr std::string_view kSignals[] = {"Segmentation fault", "Aborted", "Bus error", "Terminated"};
constexpr std::string_view kChoice = "AutoBatch: Using batch-size ";
constexpr std::string_view kOfPython = "Fatal Python error: ";

// "Segmentation fault" alone, from an interactive shell, or "run.sh: line 4:  4312 Aborted ./detector".
bool is_signal(std::string_view line, std::string_view signal) {
  const std::size_t at = line.find(signal);
  if (at == line.npos) return false;
  const std::string_view before = trim(line.substr(0, at)), rest = line.substr(at + signal.size());
  if (before.empty()) return trim(rest).empty();
  const bool is_pid = before.find_last_not_of("0123456789") != before.size() - 1;
  return is_pid && has(before, ": line ") && rest.starts_with("  ");
}

// Whether the line is about a lack of memory, not about "shared memory" or an "in-memory store".
bool speaks_of_want(std::string_view line) {
  const std::string text = to_lower(line);
  constexpr std::string_view kWords =
      "out of memory|outofmemory|out_of_memory|memory error|memoryerror|sufficient memory|enough memory|"
      "memory exhausted|memory shortage|smaller memory|memory allocation f";
  // Only as whole words: "access memory" contains "less memory".
  constexpr std::string_view kWholeWords[] = {
      "less memory", "low memory", "low-memory", "lower memory",   "oom",
      "low vram",    "less vram",  "lowvram",    "reduced memory", "freeing memory"};
  return has_any(text, kWords) ||
         std::ranges::any_of(kWholeWords, [&](auto words) { return is_word(text, words); });
}

}  // namespace

const std::vector<std::string_view>& retry_anchors() {
  static const std::vector<std::string_view> kAnchors = [] {
    std::vector<std::string_view> anchors = split(
        "ecreasing batch size|educing batch size|educing to batch|trying batch size|kipping batch|"
        "recover from OOM|etrying|using default batch-size|copy inputs of|No executable batch|"
        "Traceback (most|terminate called |(core dumped)|alling back",
        '|');
    for (const auto& more : {AnnouncedKills::anchors(), split(kEndWords, '|')})
      anchors.insert(anchors.end(), more.begin(), more.end());
    anchors.insert(anchors.end(), {kChoice, kExited, kMainProcess, kDied, kSrun, kSignals[0], kOfPython});
    return anchors;
  }();
  return kAnchors;
}

bool tells_retry(std::string_view line) {
  // Accelerate, PyTorch Lightning, Ultralytics, fairseq, Detectron2.
  constexpr std::string_view kWords =
      "ecreasing batch size to|educing batch size to|educing to batch|failed, trying batch size|"
      "recover from OOM|using default batch-size";
  if (has_any(line, kWords)) return true;
  if (tells_choice(line)) return true;
  if (has(line, "copy inputs of") && has(line, "OOM")) return true;
  if (has(line, "kipping batch")) return speaks_of_want(line);
  // Other retries are about connections. This one must mention a lack of memory, or what is reduced.
  constexpr std::string_view kOthers =
      "onnect|xport|pload|ownload|http|urllib|redis|span batch|shared memory|kafka|ransport";
  constexpr std::string_view kLess =
      "batch size|batch_size|batch-size|batch=|smaller batch|tiled|smaller image|smaller input|"
      "smaller context|half precision|lower precision|float16|fp16|CPUExecutionProvider|on CPU|on the CPU|"
      "with fewer layers";
  return has(line, "etrying") && !has_any(line, kOthers) && (has_any(line, kLess) || speaks_of_want(line));
}

bool tells_choice(std::string_view line) { return has(line, kChoice); }

bool tells_giving_up(std::string_view line) { return has(line, "No executable batch size found"); }

bool tells_end(std::string_view line) {
  const auto is_it = [line](auto signal) { return is_signal(line, signal); };
  return tells_end_of_another(line) || has(line, "terminate called ") || has(line, "(core dumped)") ||
         has(line, kOfPython) || std::ranges::any_of(kSignals, is_it);
}

bool tells_end_of_another(std::string_view line) {
  if (has_any(line, kEndWords)) return true;
  if (const auto code = text_after(line, kExited))
    return code->starts_with('[') || integer_after(*code, "").value_or(0) != 0;  // PM2's has brackets
  if (has(line, kSrun) && has(line, ": task")) return true;
  if (has(line, kMainProcess)) return !has(line, "status=0/SUCCESS");
  return has(line, kDied) && !has(line, "exitCode=0,") && !has(line, "exitCode=0)");
}

std::string_view source_of(std::string_view line) {
  constexpr std::size_t kLongestBegin = 80;
  const std::string_view begin = line.substr(0, kLongestBegin);
  // "detector-1  | …". Some loggers print the level first: "ERROR    | 2026-11-21 10:30:00 | …"; PM2 tells of
  // its programs.
  if (const std::size_t bar = begin.find(" | "); bar != begin.npos && bar > 0) {
    const std::string_view name = trim(begin.substr(0, bar));
    if (name.find(' ') == name.npos &&
        !is_any(name, "TRACE|DEBUG|INFO|SUCCESS|WARNING|WARN|ERROR|CRITICAL|FATAL|PM2"))
      return name;
  }
  // "[detector-1] …", "[ERROR] [detector-1]: …": a name in brackets that ends in the number of the process.
  for (std::size_t at = begin.find('['); at != begin.npos; at = begin.find('[', at + 1)) {
    const std::size_t end = begin.find(']', at);
    if (end == begin.npos) break;
    const std::string_view name = begin.substr(at + 1, end - at - 1);
    const std::size_t dash = name.rfind('-');
    const bool is_numbered = dash != name.npos && dash > 0 && dash + 1 < name.size() &&
                             name.find_first_not_of("0123456789", dash + 1) == name.npos;
    if (is_numbered && name.find_first_of(" :/") == name.npos &&
        name.find_first_not_of("0123456789-") != name.npos)
      return name;
  }
  return {};
}

// "Nov 21 10:30:09 orin python3[4400]: …"
std::string_view process_of(std::string_view line) {
  constexpr std::size_t kLongestBegin = 120;
  const std::string_view begin = line.substr(0, kLongestBegin);
  const std::size_t end = begin.find("]: ");
  const std::size_t open = end == begin.npos ? end : begin.rfind('[', end);
  if (open == begin.npos || open == 0 || begin[open - 1] == ' ') return {};
  const std::string_view number = begin.substr(open + 1, end - open - 1);
  if (number.empty() || number.find_first_not_of("0123456789") != number.npos || tells_end_of_another(line))
    return {};
  const std::size_t at = begin.substr(0, open).rfind(' ') + 1;  // 0 where there is none
  if (begin.substr(at, open - at) == "Error") return {};        // TensorRT's number of an error
  return begin.substr(at, end + 1 - at);
}

}  // namespace headroom::doctor
