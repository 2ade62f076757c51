// vLLM, which takes a fixed share of the GPU at its start.
#include <fmt/format.h>

#include "doctor/message_text.h"
#include "doctor/rules.h"

namespace headroom::doctor {
namespace {

std::optional<LogMessage> read(std::string_view line) {
  LogMessage message;
  if (has(line, "when warming up sampler")) {
    message.add("dummy_requests", integer_after(line, "warming up sampler with "));
    return message;
  }
  if (has(line, "No available memory for the cache blocks"))
    message.add("cache_blocks", std::optional<std::int64_t>(0));
  if (has(line, "No available memory for the cache blocks") ||
      (has(line, "Free memory on device") && has(line, "is less than desired GPU memory utilization"))) {
    // "Free memory on device (3.21/7.44 GiB)"
    const auto figures = text_after(line, "Free memory on device");
    const std::size_t slash = figures ? figures->find('/') : line.npos;
    if (slash != line.npos && figures->find('(') < slash) {
      const std::string free(figures->substr(figures->find('(') + 1, slash - figures->find('(') - 1));
      message.add("free_bytes", leading_size(free + " GiB"));
      message.add("total_bytes", leading_size(figures->substr(slash + 1)));
    }
    return message;
  }
  return std::nullopt;
}

Finding explain(const LogMessage& message) {
  Finding finding;
  finding.id = "vllm-out-of-memory";
  finding.severity = Severity::severe;
  finding.title = "vLLM had no GPU memory left for its start";
  finding.cause =
      "vLLM takes the share gpu_memory_utilization of the GPU for itself; what its warm-up needs beyond that "
      "was not free.";
  finding.confidence = Confidence::likely;
  // The share is used up by weights and warm-up: a smaller one would leave less.
  if (message.number("cache_blocks")) {
    finding.title = "vLLM had no GPU memory left for its cache of keys and values";
    finding.cause =
        "Weights and warm-up fill the share of the GPU that gpu_memory_utilization gives to vLLM.";
    finding.cures = {
        {"let it take a larger share, if the rest of the GPU is free", "--gpu-memory-utilization 0.95", {}},
        {"do without CUDA graphs", "--enforce-eager", {}},
        {"shorten the context", "--max-model-len 4096", {}}};
    return finding;
  }
  finding.cures = {{"let it take a smaller share", "--gpu-memory-utilization 0.8", {}},
                   {"serve fewer requests at once", "--max-num-seqs 64", {}},
                   {"shorten the context", "--max-model-len 4096", {}},
                   {"do without CUDA graphs", "--enforce-eager", {}}};
  return finding;
}

}  // namespace

LogRule vllm_rule() {
  return {"vllm",
          {"warming up sampler", "No available memory for the cache", "Free memory on device"},
          read,
          explain};
}

}  // namespace headroom::doctor
