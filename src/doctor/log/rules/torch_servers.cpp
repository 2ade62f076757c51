#include "doctor/log/rules/torch_servers.h"

#include <algorithm>

#include "doctor/log/message_text.h"

namespace headroom::doctor {
namespace {

struct TorchServer {
  std::string_view runtime, share, context, requests, fewer_bits, more_gpus;
};
constexpr TorchServer kServers[] = {{"vLLM", "--gpu-memory-utilization", "--max-model-len", "--max-num-seqs",
                                     "--quantization fp8", "--tensor-parallel-size 2"},
                                    {"SGLang", "--mem-fraction-static", "--context-length",
                                     "--max-running-requests", "--quantization fp8", "--tp-size 2"},
                                    {"TGI", "--cuda-memory-fraction", "--max-total-tokens",
                                     "--max-batch-prefill-tokens", "--quantize fp8", "--num-shard 2"}};

// The texts of each server's lines. A program that only borrows vLLM's layers, as SGLang did, has
// "/vllm/model_executor/" in its tracebacks.
constexpr std::pair<std::string_view, std::string_view> kServerTexts[] = {
    {"/sglang/srt/", "SGLang"},
    {"server_args=ServerArgs(", "SGLang"},
    {"text_generation_server", "TGI"},
    {"text_generation_launcher", "TGI"},
    {"text_generation_router", "TGI"},
    {"(EngineCore", "vLLM"},
    {"] EngineCore ", "vLLM"},
    {" VllmWorker", "vLLM"},
    {"(VllmWorker", "vLLM"},
    {"vLLM API server version", "vLLM"},
    {" vllm[", "vLLM"},
    {"Using max model len ", "vLLM"},
    {"/vllm/v1/", "vLLM"},
    {"/vllm/engine/", "vLLM"},
    {"/vllm/entrypoints/", "vLLM"},
    {"/vllm/worker/", "vLLM"},
    {"/vllm/executor/", "vLLM"}};

// "ERROR 05-12 10:11:12 [core.py:396] ", as vLLM's own logger begins each line.
bool is_in_preamble_of_vllm(std::string_view line) {
  constexpr std::size_t kLongestBegin = 120;
  constexpr std::string_view kTime = " 00-00 00:00:00", kLevels[] = {"ERROR", "WARNING", "CRITICAL", "INFO"};
  const std::string_view begin = line.substr(0, kLongestBegin);
  for (std::size_t at = begin.find(" ["); at != begin.npos; at = begin.find(" [", at + 1)) {
    if (at < kTime.size() || !has_shape(begin.substr(at - kTime.size(), kTime.size()), kTime)) continue;
    const std::string_view place = line.substr(at + 2, line.find("] ", at) - at - 2);
    const std::string_view before = begin.substr(0, at - kTime.size());
    if (has(place, ".py:") && place.find(' ') == place.npos && ends_with_any(before, kLevels)) return true;
  }
  return false;
}

}  // namespace

const std::vector<std::string_view>& torch_server_anchors() {
  // Parts of the texts whose fifth and sixth byte are rare together (anchor_search.h).
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
  for (const auto& [text, server] : kServerTexts)
    if (has(line, text)) return server;
  return {};
}

std::string_view torch_server_of_message(std::string_view line) {
  const std::string_view server = torch_server_of(line);
  return server.empty() && is_in_preamble_of_vllm(line) ? "vLLM" : server;
}

void derive_server(LogMessage& message) {
  const std::string runtime = message.text("runtime");
  for (const TorchServer& server : kServers) {
    if (server.runtime != runtime) continue;
    message.add("server", server.runtime);
    message.add("share_flag", server.share);
    message.add("context_flag", server.context);
    message.add("requests_flag", server.requests);
    message.add("fewer_bits", server.fewer_bits);
    message.add("more_gpus", server.more_gpus);
    if (message.text("phase") == "load") message.add("then", "after the weights fit: ");
  }
}

// In the order in which to try them. No message says how much each saves. Before the weights are in, nothing
// else has been allocated.
const std::vector<CureRow>& server_cures() {
  constexpr std::string_view kQuantize = "use a quantized model (AWQ, GPTQ), or quantize it while it loads",
                             kSplit = "split the model across several GPUs";
  static const std::vector<CureRow> kCures{
      {kQuantize, "{fewer_bits}", "", "phase=load"},
      {kSplit, "{more_gpus}", "", "phase=load"},
      {"[[{then}]]give the server a smaller share, because a step needs more memory outside it",
       "{share_flag} SHARE, below the current one"},
      {"[[{then}]]shorten the context", "{context_flag} {context_length/2}", "", "context_length>1"},
      {"[[{then}]]shorten the context", "{context_flag} N, half of the value in its log", "",
       "!context_length>1"},
      {"[[{then}]]serve fewer requests at once", "{requests_flag} N, half of the current number"},
      {kQuantize, "{fewer_bits}", "", "phase!=load"},
      {kSplit, "{more_gpus}", "", "phase!=load"}};
  return kCures;
}

}  // namespace headroom::doctor
