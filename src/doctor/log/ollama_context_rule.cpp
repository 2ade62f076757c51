// What Ollama prints while it loads a model: that the log is Ollama's, and the figures that its refusals
// lack, by which cures are computed.
#include <string>

#include "doctor/log/message_text.h"
#include "doctor/log/ollama_messages.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

// `msg="offload to cuda" … layers.model=49 layers.offload=49 … memory.required.kv="768.0 MiB" …`, up to 0.11
void read_estimate(std::string_view line, LogMessage& message) {
  const auto layers = integer_after(line, " layers.model="), on_gpu = integer_after(line, " layers.offload=");
  message.add("layers", layers);
  message.add("gpu_layers", on_gpu);
  // Of several GPUs, how many layers each has: "layers.split=10,11,11"; of one, "", and it has all. That must
  // not stay as an earlier model had it.
  const auto split = text_after(line, " layers.split=");
  if (split && !split->starts_with('"'))
    message.add("layers_split", split->substr(0, split->find(' ')));
  else if (on_gpu)
    message.add("layers_split", std::to_string(*on_gpu));
  const bool is_host = on_gpu && *on_gpu == 0;
  message.add(is_host ? "host_kv_cache_bytes" : "kv_cache_bytes", logged_size(line, " memory.required.kv="));
  // Of several GPUs there are as many figures: "[14.9 GiB 14.9 GiB]".
  const auto free = text_after(line, " memory.available=\"[");
  const auto end = free ? free->find("iB") : line.npos;
  if (!is_host && end != line.npos && free->substr(end).starts_with("iB]"))
    message.add("free_bytes", leading_size(*free));
}

// `msg=load request="{Operation:alloc … Parallel:4 … KvSize:8192 KvCacheType:q8_0 … GPULayers:49[…"`
void read_request(std::string_view line, LogMessage& message) {
  message.add("context_length", integer_after(line, " KvSize:"));
  message.add("parallel", integer_after(line, " Parallel:"));
  message.add("gpu_layers", integer_after(line, " GPULayers:"));
  const auto type = text_after(line, " KvCacheType:");
  if (type) message.add("kv_cache_type", type->substr(0, type->find(' ')));
}

std::optional<LogMessage> read(std::string_view line) {
  LogMessage message;
  if (has(line, " layers.offload="))
    read_estimate(line, message);
  else if (has(line, " KvCacheType:") && has(line, " KvSize:"))
    read_request(line, message);
  else if (has(line, "msg=\"kv cache\" device="))
    message.add(has(line, "device=CPU") ? "host_kv_cache_bytes" : "kv_cache_bytes",
                logged_size(line, " size="));
  else if (has(line, "msg=\"starting ") && has(line, "ollama")) {  // the runner, with llama.cpp's flags
    message.add("context_length", integer_after(line, " --ctx-size "));
    message.add("parallel", integer_after(line, " --parallel "));
  } else if (has(line, "msg=\"system memory\" total=")) {
    message.add("ram_bytes", logged_size(line, " total="));
    message.add("swap_free_bytes", logged_size(line, " free_swap="));
  } else if (has(line, "msg=\"llama runner started in ")) {
    message.answers = true;  // it tries fewer layers on the GPU until they fit
  } else if (!has(line, " OLLAMA_NUM_PARALLEL:")) {
    return std::nullopt;
  }
  message.add("runtime", "ollama");
  return message;
}

Finding explain(const LogMessage&) { return {}; }  // it is none by itself

}  // namespace

LogRule ollama_context_rule() {
  LogRule rule{"ollama-context",
               {"s.offload=", "CacheType:", "msg=\"kv cache\" device=", "--ctx-size ",
                "_swap=", "OLLAMA_NUM_PARALLEL:", "msg=\"llama runner started in "},
               read,
               explain};
  rule.context_of = rule.answers = "ggml";
  return rule;
}

}  // namespace headroom::doctor
