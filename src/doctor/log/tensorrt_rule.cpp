// TensorRT ran out of memory while it built or ran an engine.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

// Of the builder, which may leave out the tactic that asked, or of an allocator that works for it, too. Who
// loads or runs an engine has no other tactic.
bool may_be_builder(std::string_view line) {
  for (const std::string_view words :
       {"Requested amount of GPU memory (", "virtualMemoryBuffer", "defaultAllocator", "uilder", "optimizer"})
    if (has(line, words)) return true;
  return false;
}

std::optional<LogMessage> read(std::string_view line) {
  const bool is_tensorrt =
      has(line, "TRT") || has(line, "TensorRT") || has(line, "rtSafe") || has(line, "virtualMemoryBuffer") ||
      has(line, "Error Code 2: OutOfMemory") || has(line, "Requested amount of GPU memory (") ||
      has(line, "defaultAllocator.cpp") || has(line, "Error Code 1: Cuda Runtime");  // trtexec's own lines
  if (!is_tensorrt) return std::nullopt;
  const bool failed = has(line, "OutOfMemory") || has(line, "(out of memory)") ||
                      has(line, "out of memory") || has(line, "Requested amount of GPU memory");
  if (!failed) return std::nullopt;
  LogMessage message;
  auto requested = size_after(line, "Requested amount of GPU memory (");
  if (!requested) requested = size_after(line, "requested size of ");
  if (!requested) requested = size_after(line, "Requested size was ");
  message.add("requested_bytes", requested);
  message.part = requested ? "request" : "error";
  message.is_final = !may_be_builder(line);
  return message;
}

Finding explain(const LogMessage& message) {
  const auto requested = message.bytes("requested_bytes");
  Finding finding;
  finding.id = "tensorrt-out-of-memory";
  finding.severity = Severity::severe;
  finding.title = requested
                      ? fmt::format("TensorRT ran out of memory: it asked for {}", format_bytes(*requested))
                      : "TensorRT ran out of memory";
  finding.cause =
      "The engine's weights, its activations or the workspace of the build did not fit beside what was "
      "there.";
  finding.confidence = Confidence::likely;
  constexpr std::int64_t kLeast = 16;  // MiB
  const std::string workspace =
      requested ? std::to_string(std::max(kLeast, requested->count / 2 / mebibytes(1).count)) : "MIB";
  finding.cures = {
      {requested ? "build with a workspace of half this request"
                 : "build with a smaller workspace, below what is free",
       "trtexec --onnx=model.onnx --memPoolSize=workspace:" + workspace,
       requested && !is_impossible(*requested) ? std::optional(Bytes{requested->count / 2}) : std::nullopt},
      {"build with half precision: weights and activations take half",
       "trtexec --onnx=model.onnx --fp16",
       {}},
      {"build in a process of its own before the others start", "headroom build-engine model.onnx", {}},
      {"measure what the engine needs to load and to run",
       "headroom bench --backend tensorrt --model NAME=model.engine",
       {}}};
  return finding;
}

}  // namespace

LogRule tensorrt_rule() {
  return {"tensorrt", {"OutOfMemory", "ut of memory", "Requested amount of GPU memory"}, read, explain};
}

}  // namespace headroom::doctor
