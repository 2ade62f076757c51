#include "doctor/log/log_retry.h"

#include <algorithm>

#include "base/text.h"
#include "doctor/log/message_text.h"

namespace headroom::doctor {

const std::vector<std::string_view>& retry_anchors() {
  static const std::vector<std::string_view> kAnchors{
      "ecreasing batch size", "educing batch size",  "educing to batch", "trying batch size",
      "kipping batch",        "recover from OOM",    "etrying",          "using default batch-size",
      "copy inputs of",       "No executable batch", "process has died", "exited with code ",
      "Traceback (most",      "terminate called ",   "(core dumped)",    "alling back"};
  return kAnchors;
}

bool tells_retry(std::string_view line) {
  // Accelerate, PyTorch Lightning, Ultralytics, fairseq, Detectron2.
  constexpr std::string_view kWords[] = {"ecreasing batch size to", "educing batch size to",
                                         "educing to batch",        "failed, trying batch size",
                                         "recover from OOM",        "using default batch-size"};
  if (std::any_of(std::begin(kWords), std::end(kWords), [&](auto words) { return has(line, words); }))
    return true;
  if (has(line, "copy inputs of") && has(line, "OOM")) return true;
  if (has(line, "kipping batch")) return has(line, "memory") || has(line, "OOM");
  // Others retry other things, connections above all: this must speak of memory, or tell with what less.
  constexpr std::string_view kOthers[] = {"onnect", "xport",  "pload",     "ownload",
                                          "http",   "urllib", "span batch"};
  constexpr std::string_view kLess[] = {"memory",
                                        "OOM",
                                        "batch size",
                                        "batch_size",
                                        "batch-size",
                                        "batch=",
                                        "smaller batch",
                                        "tiled",
                                        "smaller image",
                                        "smaller input",
                                        "smaller context",
                                        "half precision",
                                        "lower precision",
                                        "float16",
                                        "fp16",
                                        "CPUExecutionProvider",
                                        "on CPU",
                                        "on the CPU",
                                        "with fewer layers"};
  const auto has_it = [&](auto words) { return has(line, words); };
  return has(line, "etrying") && std::none_of(std::begin(kOthers), std::end(kOthers), has_it) &&
         std::any_of(std::begin(kLess), std::end(kLess), has_it);
}

bool tells_giving_up(std::string_view line) { return has(line, "No executable batch size found"); }

bool tells_failure(std::string_view line) {
  return has(line, "Traceback (most recent call last)") || tells_end(line);
}

bool tells_end(std::string_view line) {
  const auto code = integer_after(line, "exited with code ");
  return has(line, "process has died") || (code && *code != 0) || has(line, "terminate called ") ||
         has(line, "(core dumped)");
}

bool Traceback::ends_with(std::string_view line) {
  constexpr int kMostLines = 1000;  // Python's own limit of calls
  constexpr std::string_view kFirst = "Traceback (most recent call last)";
  if (const std::size_t at = line.find(kFirst); at != line.npos) {
    begin_ = at;
    lines_ = 1;
    return false;
  }
  if (lines_ == 0) return false;
  const bool is_inside = line.size() <= begin_ || line[begin_] == ' ' || line[begin_] == '\t';
  if (is_inside && ++lines_ <= kMostLines) return false;
  lines_ = 0;
  return !is_inside;
}

std::string_view source_of(std::string_view line) {
  constexpr std::size_t kLongestBegin = 80;
  const std::string_view begin = line.substr(0, kLongestBegin);
  // "detector-1  | …"
  if (const std::size_t bar = begin.find(" | "); bar != begin.npos && bar > 0) {
    const std::string_view name = trim(begin.substr(0, bar));
    if (name.find(' ') == name.npos) return name;
  }
  // "[detector-1] …", "[ERROR] [detector-1]: …": in brackets, with the number of the process behind it
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

}  // namespace headroom::doctor
