#include "doctor/log/torch_servers.h"

#include <fmt/format.h>

#include <algorithm>

#include "doctor/log/message_text.h"

namespace headroom::doctor {
namespace {

constexpr TorchServer kServers[] = {{"vLLM", "--gpu-memory-utilization", "--max-model-len", "--max-num-seqs",
                                     "--quantization fp8", "--tensor-parallel-size 2"},
                                    {"SGLang", "--mem-fraction-static", "--context-length",
                                     "--max-running-requests", "--quantization fp8", "--tp-size 2"},
                                    {"TGI", "--cuda-memory-fraction", "--max-total-tokens",
                                     "--max-batch-prefill-tokens", "--quantize fp8", "--num-shard 2"}};

bool has_any(std::string_view line, const auto& words) {
  return std::any_of(std::begin(words), std::end(words), [line](auto each) { return has(line, each); });
}

// Programs that only borrow its layers, as SGLang did, have "…/vllm/model_executor/…" in their tracebacks.
bool is_in_vllm(std::string_view line) {
  constexpr std::string_view kFolders[] = {"v1/", "engine/", "entrypoints/", "worker/", "executor/"};
  const auto path = text_after(line, "/vllm/");
  return path && std::any_of(std::begin(kFolders), std::end(kFolders),
                             [&](std::string_view folder) { return path->starts_with(folder); });
}

// "ERROR 05-12 10:11:12 [core.py:396] ", as vLLM's own logger begins each line.
bool is_in_preamble_of_vllm(std::string_view line) {
  constexpr std::size_t kLongestBegin = 120;
  constexpr std::string_view kTime = " 00-00 00:00:00", kLevels[] = {"ERROR", "WARNING", "CRITICAL", "INFO"};
  const std::string_view begin = line.substr(0, kLongestBegin);
  for (std::size_t at = begin.find(" ["); at != begin.npos; at = begin.find(" [", at + 1)) {
    if (at < kTime.size() || !has_shape(begin.substr(at - kTime.size(), kTime.size()), kTime)) continue;
    const std::string_view place = line.substr(at + 2, line.find("] ", at) - at - 2);
    const std::string_view before = begin.substr(0, at - kTime.size());
    if (has(place, ".py:") && place.find(' ') == place.npos &&
        std::any_of(std::begin(kLevels), std::end(kLevels),
                    [before](std::string_view level) { return before.ends_with(level); }))
      return true;
  }
  return false;
}

bool is_of_vllm(std::string_view line) {
  constexpr std::string_view kWords[] = {"(EngineCore",         "] EngineCore ",           " VllmWorker",
                                         "(VllmWorker",         "vLLM API server version", " vllm[",
                                         "Using max model len "};
  return has_any(line, kWords) || is_in_vllm(line);
}

}  // namespace

const std::vector<std::string_view>& torch_server_anchors() {
  // Parts of the words whose fifth and sixth byte are rare together (anchor_search.h).
  static const std::vector<std::string_view> kAnchors{"gineCore",
                                                      "VllmWorker",
                                                      "LLM API server version",
                                                      " vllm[",
                                                      "g max model len ",
                                                      "/vllm/",
                                                      "glang/srt/",
                                                      "rverArgs(",
                                                      "l_runner.py:",
                                                      "text_generation_server",
                                                      "text_generation_launcher",
                                                      "text_generation_router"};
  return kAnchors;
}

std::string_view torch_server_of(std::string_view line) {
  constexpr std::string_view kTgi[] = {"text_generation_server", "text_generation_launcher",
                                       "text_generation_router"};
  if (has(line, "/sglang/srt/") || has(line, "server_args=ServerArgs(")) return "SGLang";
  if (has_any(line, kTgi)) return "TGI";
  return is_of_vllm(line) ? "vLLM" : "";
}

std::string_view torch_server_of_message(std::string_view line) {
  const std::string_view server = torch_server_of(line);
  return server.empty() && is_in_preamble_of_vllm(line) ? "vLLM" : server;
}

const TorchServer* torch_server_of(const LogMessage& message) {
  const std::string runtime = message.text("runtime");
  const auto found = std::find_if(std::begin(kServers), std::end(kServers),
                                  [&](const TorchServer& server) { return server.runtime == runtime; });
  return found == std::end(kServers) ? nullptr : found;
}

bool is_loading_weights(const LogMessage& message) { return message.text("phase") == "load"; }

void add_server_cures(const TorchServer& server, const LogMessage& message, std::vector<Cure>& cures) {
  const auto context = message.number("context_length");
  const bool is_loading = is_loading_weights(message);
  const std::string then = is_loading ? "after the weights fit: " : "";
  const std::vector<Cure> smaller_weights{
      {"use a quantized model (AWQ, GPTQ), or quantize it while it loads",
       std::string(server.fewer_bits),
       {}},
      {"split the model across several GPUs", std::string(server.more_gpus), {}}};
  // Before the weights are in, nothing else has been taken.
  if (is_loading) cures.insert(cures.end(), smaller_weights.begin(), smaller_weights.end());
  cures.push_back({then + "give the server a smaller share, because a step needs more memory outside it",
                   fmt::format("{} SHARE, below the current one", server.share),
                   {}});
  cures.push_back({then + "shorten the context",
                   context && *context > 1
                       ? fmt::format("{} {}", server.context, *context / 2)
                       : fmt::format("{} N, half of the value in its log", server.context),
                   {}});
  cures.push_back({then + "serve fewer requests at once",
                   fmt::format("{} N, half of the current number", server.requests),
                   {}});
  if (!is_loading) cures.insert(cures.end(), smaller_weights.begin(), smaller_weights.end());
}

}  // namespace headroom::doctor
