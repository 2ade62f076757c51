// cuDNN found no way to run a convolution. Most often the GPU had no memory for a workspace, which the
// message does not tell; a library or a type that the GPU lacks gives the same words.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "doctor/log/log_prose.h"
#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

constexpr std::string_view kTorch = "PyTorch", kTensorFlow = "TensorFlow";

constexpr std::pair<std::string_view, std::string_view> kForms[] = {
    {"Unable to find a valid cuDNN algorithm to run convolution", kTorch},
    {"GET was unable to find an engine to execute this computation", kTorch},
    {"FIND was unable to find an engine to execute this computation", kTorch},
    {"Failed to get convolution algorithm. This is probably because cuDNN failed to initialize",
     kTensorFlow}};

// Behind an error's name, a logger's prefix, or nothing: not in a sentence, nor in source code.
bool stands_alone(std::string_view before) {
  if (trim(before).empty()) return true;
  constexpr std::string_view kEnds[] = {": ", "] ", "!!! ", "| ", "Error "};
  return std::any_of(std::begin(kEnds), std::end(kEnds),
                     [before](std::string_view end) { return before.ends_with(end); });
}

std::optional<LogMessage> read(std::string_view line) {
  for (const auto& [words, program] : kForms) {
    const std::size_t at = line.find(words);
    if (at == line.npos) continue;
    if (!stands_alone(line.substr(0, at)) || is_prose(line) || is_advice(line, words)) return std::nullopt;
    LogMessage message;
    message.subject = program;
    message.add("told_by", program);
    return message;
  }
  return std::nullopt;
}

Finding explain(const LogMessage& message) {
  const bool is_torch = message.text("told_by") == kTorch;
  Finding finding;
  finding.id = "cudnn-no-engine";
  finding.severity = Severity::severe;
  finding.title = fmt::format("cuDNN could not run a convolution for {}: most often the GPU is full",
                              message.text("told_by"));
  finding.cause =
      "Most often the GPU has no memory left for a workspace. Other causes: cuDNN's libraries do not match "
      "each other or the GPU, or the GPU does not support the data type (bfloat16 needs Ampere or later).";
  finding.confidence = Confidence::possible;
  finding.cures = {{"see which processes hold the memory while it happens", "headroom top", {}}};
  if (!is_torch) {
    finding.cures.insert(finding.cures.begin(),
                         {"allocate memory on demand", "TF_FORCE_GPU_ALLOW_GROWTH=true", {}});
    return finding;
  }
  finding.cures.push_back({"use a smaller batch or input", "batch_size = batch_size // 2", {}});
  finding.cures.push_back({"disable the algorithm search, which tries algorithms with large workspaces",
                           "torch.backends.cudnn.benchmark = False",
                           {}});
  finding.cures.push_back(
      {"if GPU memory is free: check whether this PyTorch supports the GPU, and which cuDNN it has",
       "python3 -c \"import torch; print(torch.cuda.get_device_capability(), torch.cuda.get_arch_list(), "
       "torch.backends.cudnn.version())\"",
       {}});
  return finding;
}

}  // namespace

LogRule cudnn_engine_rule() {
  return {"cudnn-engine",
          {"cuDNN algorithm to run", "unable to find an engine", "Failed to get convolution algorithm"},
          read,
          explain};
}

}  // namespace headroom::doctor
