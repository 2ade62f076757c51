#include "doctor/log_retry.h"

#include <algorithm>

#include "doctor/message_text.h"

namespace headroom::doctor {

const std::vector<std::string_view>& retry_anchors() {
  static const std::vector<std::string_view> kAnchors{
      "ecreasing batch size", "educing batch size", "educing to batch", "trying batch size",
      "kipping batch",        "recover from OOM",   "etrying",          "using default batch-size",
      "copy inputs of",       "No executable batch"};
  return kAnchors;
}

bool tells_retry(std::string_view line) {
  // Accelerate, PyTorch Lightning, Ultralytics, fairseq, Detectron2.
  constexpr std::string_view kWords[] = {"ecreasing batch size to", "educing batch size to",
                                         "educing to batch",        "failed, trying batch size",
                                         "kipping batch",           "recover from OOM",
                                         "using default batch-size"};
  if (std::any_of(std::begin(kWords), std::end(kWords), [&](auto words) { return has(line, words); }))
    return true;
  if (has(line, "copy inputs of") && has(line, "OOM")) return true;
  // Others retry other things, connections above all: this must say with what.
  constexpr std::string_view kLess[] = {"batch",   "tiled",      "smaller", "lower",
                                        "reduced", "fewer",      "less ",   "CPUExecutionProvider",
                                        "on CPU",  "on the CPU", "memory"};
  return has(line, "etrying") &&
         std::any_of(std::begin(kLess), std::end(kLess), [&](auto words) { return has(line, words); });
}

bool tells_giving_up(std::string_view line) { return has(line, "No executable batch size found"); }

}  // namespace headroom::doctor
