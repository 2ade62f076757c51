// vLLM, SGLang and TGI in words of their own, while they start: the weights leave too little of the GPU for
// the cache of keys and values, or for the warm-up.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "doctor/log/common_cures.h"
#include "doctor/log/line_pattern.h"
#include "doctor/log/log_prose.h"
#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

// "…, (6.30 GiB KV cache is needed": the size stands before its words.
void add_needed_cache(std::string_view line, LogMessage& message) {
  const std::size_t needed = line.find(" KV cache is needed");
  if (needed != line.npos)
    message.add("requested_bytes",
                leading_size(line.substr(line.find_last_of(" (", line.rfind(' ', needed - 1) - 1) + 1)));
  match_pattern("KV cache memory ({free_bytes}", line, message);
}

// "Free memory on device cuda:0 (3.21/7.44 GiB)": the first without a unit.
void add_free_of_device(std::string_view line, LogMessage& message) {
  LogMessage found;
  if (match_pattern("Free memory on device…({free}/{total_bytes}", line, found)) {
    message.add("free_bytes", leading_size(found.text("free") + " GiB"));
    message.add("total_bytes", found.bytes("total_bytes"));
  }
  match_pattern("desired GPU memory utilization (…, {asked_bytes}", line, message);
}

// Of "9", "90", "855": 90, 90, 85.
std::optional<std::int64_t> hundredths_of(std::string_view digits) {
  std::int64_t number = 0;
  for (std::size_t i = 0; i < 2; ++i) {
    const bool is_digit = i < digits.size() && digits[i] >= '0' && digits[i] <= '9';
    if (i == 0 && !is_digit) return std::nullopt;
    number = number * 10 + (is_digit ? digits[i] - '0' : 0);
  }
  return number;
}

// The share of the GPU that vLLM takes, and how much its cache lacks of it.
std::optional<LogMessage> read_vllm_context(std::string_view line) {
  LogMessage message;
  match_pattern("LLM engine…config…max_seq_len={context_length:int}", line, message);
  for (const std::string_view words : {"gpu_memory_utilization=0.", "gpu_memory_utilization': 0.",
                                       "gpu_memory_utilization\": 0.", "gpu_memory_utilization (0."})
    if (const auto share = text_after(line, words)) {
      message.add("share_percent", hundredths_of(*share));
      break;
    }
  match_pattern("gpu_memory ({total_bytes}) x gpu_memory_utilization (", line, message);
  // What is left of the share for the cache, below zero; the second up to 0.8.
  for (const std::string_view words : {"Available KV cache memory: -", "reserved for KV Cache is -"})
    if (const auto lack = size_after(line, words); lack && lack->count > 0)
      message.add("lacking_bytes", lack);
  return message.figures.empty() ? std::nullopt : std::optional(message);
}

std::string as_share(std::int64_t percent) {
  return fmt::format("{:.2f}", static_cast<double>(percent) / 100);
}

// The share that weights and warm-up fill before any cache, in hundredths, rounded up. Of a start that had
// room for a cache, an earlier one in the log may have lacked it.
std::optional<std::int64_t> filled_share(const LogMessage& message) {
  const auto share = message.number("share_percent");
  const auto lacking = message.bytes("lacking_bytes"), total = message.bytes("total_bytes");
  if (!message.number("cache_blocks") || !share || !lacking || !total || total->count <= 0 ||
      *lacking > *total)
    return std::nullopt;
  const double part = static_cast<double>(lacking->count) / static_cast<double>(total->count);
  return *share + static_cast<std::int64_t>(std::ceil(100 * part));
}

void derive_vllm(LogMessage& message) {
  constexpr std::int64_t kMost = 98, kAll = 100;  // what is left above kMost holds no cache
  const auto share = message.number("share_percent"), filled = filled_share(message);
  const std::int64_t least = filled.value_or(share.value_or(0));
  if (filled) message.add(*filled >= kMost ? "no_share" : "share_filled", as_share(*filled));
  // Half of what the present share, or the one that is needed, leaves.
  if (share && least > 0 && least < kMost) {
    message.add("share_now", as_share(*share));
    message.add("larger_share", as_share((least + kAll) / 2));
  }
  const auto free = message.bytes("free_bytes"), total = message.bytes("total_bytes"),
             asked = message.bytes("asked_bytes");
  if (asked && free && *asked > *free) message.add("wanted_bytes", *asked - *free);
  if (!free || !total || total->count <= 0 || *free > *total) return;
  // A fifth of a GPU, 1.5 GiB of 7.4 or 4.8 of 24, holds next to no model with its cache.
  constexpr double kLeast = 0.2;
  const double part = static_cast<double>(free->count) / static_cast<double>(total->count);
  if (part < kLeast)
    message.add("little", "yes");
  else
    message.add("smaller_share", fmt::format("{:.2f}", std::floor(100 * part) / 100));
}

// Each of SGLang's processes prints what room for tokens the weights leave; -1 is what settings have for
// none.
bool is_no_prose(std::string_view line) { return !is_prose(line); }

constexpr CureRow kQuantizeWhileLoading{"use a quantized model (AWQ, GPTQ), or quantize it while it loads",
                                        "--quantization fp8"};

}  // namespace

LogRule vllm_rule() {
  constexpr std::string_view kId = "vllm-out-of-memory",
                             kMoreShare =
                                 "give vLLM a larger share, if the rest of the GPU "
                                 "is free";
  constexpr CureRow kNoGraphs{"disable CUDA graphs", "--enforce-eager"},
      kCacheInFp8{"store the key-value cache in 8 bits", "--kv-cache-dtype fp8"},
      kLargerShare{
          "give vLLM a larger share, if the rest of the GPU is free (now {share_now}[[; {share_filled} is "
          "enough for weights and warm-up, without a cache]])",
          "--gpu-memory-utilization {larger_share}"},
      kSomeLargerShare{kMoreShare, "--gpu-memory-utilization SHARE, above the current one", "",
                       "!larger_share, !no_share"},
      kFits{"shorten the context to the length that fits", "--max-model-len {context_that_fits}"},
      kHalveContext{"halve the context", "--max-model-len {context_length/2}", "",
                    "!context_that_fits, context_length>1"},
      kHalveSome{"halve the context", "--max-model-len N, half of max_seq_len in its log", "",
                 "!context_that_fits, !context_length>1"},
      kFewer{"serve fewer requests at once", "--max-num-seqs {dummy_requests/2}", "", "dummy_requests>1"},
      kFewerSome{"serve fewer requests at once", "--max-num-seqs N, half of the current number", "",
                 "!dummy_requests>1"};
  return {
      .name = "vllm",
      .wordings =
          {// The request waits, and is computed again.
           {.all = {" is preempted by PreemptionMode.", "not enough KV cache space"},
            .figures = {"total_num_cumulative_preemption={preemptions:int}"},
            .subject = "preempted"},
           {.all = {"when warming up sampler", "ut of memory"},
            .none = {"raise ValueError("},
            .figures = {"warming up sampler with {dummy_requests:int}"}},
           {.all = {"max seq len ({context_length:int}", "that can be stored in KV cache"},
            .none = {"raise ValueError("},
            .figures = {"that can be stored in KV cache ({context_that_fits:int}"}},
           {.all = {"max seq len ({context_length:int}", "KV cache is needed"},
            .none = {"raise ValueError("},
            .figures = {"estimated maximum model length is {context_that_fits:int}"},
            .add = add_needed_cache},
           {.all = {"No available memory for the cache blocks"},
            .none = {"raise ValueError("},
            .add =
                [](std::string_view, LogMessage& message) {
                  message.set({"cache_blocks", std::int64_t{0}});
                }},
           {.all = {"Free memory on device", "is less than desired GPU memory utilization"},
            .none = {"raise ValueError("},
            .figures = {"Free memory on device cuda:{gpu:int}"},
            .add = add_free_of_device}},
      .explanations =
          {{.when = "subject=preempted",
            .id = kId,
            .severity = Severity::warning,
            .confidence = Confidence::certain,
            .title = "vLLM's key-value cache was too small for the requests: vLLM postponed some",
            .cause = "The running requests need more cache than vLLM has. vLLM stops one of them and "
                     "computes it again "
                     "later.",
            .cures = {kLargerShare, kSomeLargerShare, kFewer, kFewerSome, kCacheInFp8}},
           {.when = "cache_blocks, lacking_bytes",
            .id = kId,
            .confidence = Confidence::certain,
            .title = "vLLM had no GPU memory left for its key-value cache",
            .cause = "Weights and warm-up take {lacking_bytes} more than the share of the GPU that "
                     "gpu_memory_utilization gives to vLLM.",
            .cures = {kLargerShare,
                      kSomeLargerShare,
                      kNoGraphs,
                      kFits,
                      kHalveContext,
                      kHalveSome,
                      {"use a model with fewer bits per weight (AWQ or GPTQ takes about a quarter)", "", "",
                       "no_share"}}},
           {.when = "cache_blocks",
            .id = kId,
            .title = "vLLM had no GPU memory left for its key-value cache",
            .cause =
                "Weights and warm-up fill the share of the GPU that gpu_memory_utilization gives to vLLM.",
            .cures = {kLargerShare, kSomeLargerShare, kNoGraphs, kFits, kHalveContext, kHalveSome}},
           {.when = "context_length, requested_bytes",
            .id = kId,
            .confidence = Confidence::certain,
            .title = "vLLM's key-value cache is too small for a context of {context_length} tokens[[: "
                     "{context_that_fits} fit]]",
            .cause =
                "One request of full length does not fit: weights and warm-up leave too little of the share.",
            .cures = {kFits, kHalveContext, kHalveSome, kCacheInFp8, kLargerShare, kSomeLargerShare,
                      kNoGraphs}},
           {.when = "context_that_fits",
            .id = kId,
            .confidence = Confidence::certain,
            .title = "vLLM's key-value cache is too small for a context of {context_length} tokens: "
                     "{context_that_fits} fit",
            .cause =
                "One request of full length does not fit: weights and warm-up leave too little of the share.",
            .cures = {kFits, kCacheInFp8, kLargerShare, kSomeLargerShare, kNoGraphs}},
           {.when = "free_bytes, little",
            .id = kId,
            .title = "vLLM's share of the GPU was not free: only {free_bytes} of {total_bytes} were free",
            .cause = "Other processes hold the GPU's memory, perhaps an earlier vLLM that still runs. The "
                     "rest is too "
                     "small for a model and its cache.",
            .cures = {{kEndHolderOfRest.what, kEndHolderOfRest.command, "wanted_bytes"},
                      {"check whether an earlier vLLM still runs", "pgrep -af vllm"},
                      {"list the GPU's processes with NVIDIA's tool", "nvidia-smi"}}},
           {.when = "free_bytes",
            .id = kId,
            .title = "vLLM could not start: no GPU memory was left",
            .cause = "vLLM takes the share gpu_memory_utilization of the GPU. Its warm-up needs more than "
                     "that, and the "
                     "GPU had no more free memory.",
            .cures = {{"give vLLM at most the free memory, {free_bytes} of {total_bytes}",
                       "--gpu-memory-utilization {smaller_share}"},
                      {"give vLLM a share of the GPU that is free", "--gpu-memory-utilization SHARE", "",
                       "!smaller_share"},
                      {kEndHolderOfRest.what, kEndHolderOfRest.command, "wanted_bytes"},
                      kFewer,
                      kFewerSome,
                      kNoGraphs},
            .first_cure_meets_cause = true},
           {.id = kId,
            .title = "vLLM could not start: no GPU memory was left",
            .cause = "vLLM takes the share gpu_memory_utilization of the GPU. Its warm-up needs more than "
                     "that, and the "
                     "GPU had no more free memory.",
            .cures = {kFewer,
                      kFewerSome,
                      {"give vLLM a smaller share", "--gpu-memory-utilization SHARE, below the current one"},
                      kHalveContext,
                      kHalveSome,
                      kNoGraphs}}},
      .derive = derive_vllm};
}

LogRule vllm_context_rule() {
  return {.name = "vllm-context",
          .anchors = {"LLM engine", "tilization=0.", "tilization': 0.", "tilization\": 0.", "tilization (0.",
                      "able KV cache memory: -", "for KV Cache is -"},
          .read_first = read_vllm_context,
          .context_of = "vllm"};
}

LogRule llm_server_rule() {
  constexpr CureRow kSplit{"split the model across several GPUs", "--tp-size 2"};
  constexpr CureRow kMoreShare{"give SGLang a larger share, if the rest of the GPU is free",
                               "--mem-fraction-static SHARE, above the current one"};
  const auto halve = [](std::string_view what, std::string_view flag, std::string_view when) {
    return CureRow{what, flag, "", when};
  };
  return {
      .name = "llm-server",
      .wordings = {{.all = {"max_total_num_tokens={token_budget:int<-1}"},
                    .figures = {"runtime=SGLang"},
                    .subject = "SGLang",
                    .part = "budget",
                    .check = is_no_prose,
                    .add = [](std::string_view, LogMessage& message) { message.event = "budget of tokens"; }},
                   {.all = {"Not enough memory. Please try to increase --mem-fraction-static"},
                    .figures = {"runtime=SGLang", "mem_fraction_static={share:decimal}"},
                    .subject = "SGLang",
                    .part = "error"},
                   {.all = {"Not enough memory to handle {:int} prefill tokens"},
                    .figures = {"runtime=TGI", "to handle {prefill_tokens:int} prefill"},
                    .subject = "TGI"},
                   {.all = {"Not enough memory to handle {:int} total tokens"},
                    .figures = {"runtime=TGI", "to handle {total_tokens:int} total",
                                " with {prefill_tokens:int} prefill"},
                    .subject = "TGI"}},
      .explanations =
          {{.when = "token_budget",
            .id = "sglang-out-of-memory",
            .confidence = Confidence::certain,
            .title = "SGLang's weights are larger than its share of the GPU: {token_budget} tokens remain "
                     "for its cache",
            .cause = "The weights and other memory for loading exceed the share of the GPU that "
                     "mem_fraction_static "
                     "gives to weights and cache[[ ({share})]]. A cache for fewer tokens does not help.",
            .cures = {kMoreShare, kQuantizeWhileLoading, kSplit, kSeeOthersOnGpu}},
           {.when = "runtime=SGLang",
            .id = "sglang-out-of-memory",
            .confidence = Confidence::certain,
            .title = "SGLang had no GPU memory left for its key-value cache",
            .cause =
                "The weights fill the share of the GPU that mem_fraction_static gives to weights and cache[[ "
                "({share})]].",
            .cures = {kMoreShare, kSeeOthersOnGpu, kQuantizeWhileLoading, kSplit}},
           {.id = "tgi-out-of-memory",
            .confidence = Confidence::certain,
            .title = "TGI had no GPU memory left to warm up with [[{total_tokens} total]][[{only_prefill} "
                     "prefill]] tokens",
            .cause = "The memory that the weights leave on the GPU is too small for one prompt of the "
                     "largest length.",
            // A few tokens are the warm-up's smallest prompt already.
            .cures = {halve("process fewer prompt tokens at once",
                            "--max-batch-prefill-tokens {prefill_tokens/2}", "prefill_tokens>63"),
                      halve("process fewer prompt tokens at once",
                            "--max-batch-prefill-tokens N, half of the current number",
                            "!total_tokens, !prefill_tokens>63"),
                      halve("store fewer tokens at once", "--max-batch-total-tokens {total_tokens/2}",
                            "total_tokens>63"),
                      halve("store fewer tokens at once",
                            "--max-batch-total-tokens N, half of the current number", "total_tokens<64"),
                      {"quantize the model while it loads", "--quantize fp8"},
                      {"split the model across several GPUs", "--num-shard 2"},
                      kSeeOthersOnGpu}}},
      .derive = [](LogMessage& message) {
        if (!message.number("total_tokens")) message.add("only_prefill", message.number("prefill_tokens"));
      }};
}

}  // namespace headroom::doctor
