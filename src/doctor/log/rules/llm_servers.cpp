// vLLM, MLC LLM, SGLang and TGI in words of their own, while they start: the weights leave too little of the
// GPU for the cache of keys and values, or for the warm-up.
#include <fmt/format.h>

#include <cmath>

#include "base/text.h"
#include "doctor/log/rule_text.h"

namespace headroom::doctor {
namespace {

std::string as_share(std::int64_t percent) {
  return fmt::format("{:.2f}", static_cast<double>(percent) / 100);
}

// The share of the GPU that the program gave to vLLM, in hundredths, rounded down.
std::optional<std::int64_t> share_told(const LogMessage& message) {
  const auto share = parse_number<double>(message.text("share"));
  return share && *share < 1 ? std::optional<std::int64_t>(std::lround(*share * 1000) / 10) : std::nullopt;
}

// The share that weights and warm-up fill before any cache, in hundredths, rounded up. Of a start that had
// room for a cache, an earlier one in the log may have lacked it.
std::optional<std::int64_t> filled_share(const LogMessage& message) {
  const auto share = share_told(message);
  const auto lacking = message.bytes("lacking_bytes"), total = message.bytes("total_bytes");
  if (!message.number("cache_blocks") || !share || !lacking || !total || total->count <= 0 ||
      *lacking > *total)
    return std::nullopt;
  const double part = static_cast<double>(lacking->count) / static_cast<double>(total->count);
  return *share + static_cast<std::int64_t>(std::ceil(100 * part));
}

void derive_vllm(std::string_view, LogMessage& message) {
  constexpr std::int64_t kMost = 98, kAll = 100;  // what is left above kMost holds no cache
  const auto share = share_told(message), filled = filled_share(message);
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
  // GB10 has 119.7 or 121.7 GiB, Thor 122.8. No NVIDIA GPU with memory of its own has a size near these.
  if (gibibytes(118) < *total && *total < gibibytes(125)) message.add("unified_memory", "yes");
  // A fifth of a GPU, 1.5 GiB of 7.4 or 4.8 of 24, holds next to no model with its cache.
  constexpr double kLeast = 0.2;
  const double part = static_cast<double>(free->count) / static_cast<double>(total->count);
  if (part < kLeast)
    message.add("little", "yes");
  else
    message.add("smaller_share", fmt::format("{:.2f}", std::floor(100 * part) / 100));
}

}  // namespace

RuleFamily llm_servers_rules() {
  return {R"rules(
cures larger-share
  cure give vLLM a larger share, if the rest of the GPU is free (now {share_now}[[; {share_filled} is enough
        for weights and warm-up, without a cache]]) => --gpu-memory-utilization {larger_share}
  cure give vLLM a larger share, if the rest of the GPU is free => --gpu-memory-utilization SHARE, above the
        current one :: when !larger_share, !no_share
cures shorter-context
  cure shorten the context to the length that fits => --max-model-len {context_that_fits}
  cure halve the context => --max-model-len {context_length/2} :: when !context_that_fits, context_length>1
  cure halve the context => --max-model-len N, half of max_seq_len in its log :: when !context_that_fits,
        !context_length>1
cures fewer-requests
  cure serve fewer requests at once => --max-num-seqs {dummy_requests/2} :: when dummy_requests>1
  cure serve fewer requests at once => --max-num-seqs N, half of the current number :: when !dummy_requests>1
cures no-graphs: disable CUDA graphs => --enforce-eager
cures larger-sglang-share: give SGLang a larger share, if the rest of the GPU is free => --mem-fraction-static
      SHARE, above the current one
cures quantize-and-split
  cure use a quantized model (AWQ, GPTQ), or quantize it while it loads => --quantization fp8
  cure split the model across several GPUs => --tp-size 2

rule vllm: derive=derive_vllm
  line " is preempted by PreemptionMode." && not enough KV cache space -> subject=preempted
    figures total_num_cumulative_preemption={preemptions:int}
  line when warming up sampler && ut of memory -> none=raise ValueError(
    figures warming up sampler with {dummy_requests:int}
  line max seq len ({context_length:int} && that can be stored in KV cache -> none=raise ValueError(
    figures that can be stored in KV cache ({context_that_fits:int}
  line max seq len ({context_length:int} && KV cache is needed -> none=raise ValueError(
    figures estimated maximum model length is {context_that_fits:int} || ({requested_bytes} KV cache is needed
          || " {requested_bytes} KV cache is needed" || KV cache memory ({free_bytes}
  line No available memory for the cache blocks -> cache_blocks=0; none=raise ValueError(
  line Free memory on device && is less than desired GPU memory utilization -> none=raise ValueError(
    figures Free memory on device cuda:{gpu:int} || Free memory on device…({free_bytes:GiB}/{total_bytes} ||
          desired GPU memory utilization (…, {asked_bytes}
  finding vllm-out-of-memory warning certain when subject=preempted
    title vLLM's key-value cache was too small for the requests: vLLM postponed some
    cause The running requests need more cache than vLLM has. vLLM stops one of them and computes it again
          later.
    cure @larger-share @fewer-requests
    cure store the key-value cache in 8 bits => --kv-cache-dtype fp8
  finding vllm-out-of-memory certain when cache_blocks, lacking_bytes>0
    title vLLM had no GPU memory left for its key-value cache
    cause Weights and warm-up take {lacking_bytes} more than the share of the GPU that gpu_memory_utilization
          gives to vLLM.
    cure @larger-share @no-graphs @shorter-context
    cure use a model with fewer bits per weight (AWQ or GPTQ takes about a quarter) :: when no_share
  finding vllm-out-of-memory when cache_blocks
    cause Weights and warm-up fill the share of the GPU that gpu_memory_utilization gives to vLLM.
    cure @larger-share @no-graphs @shorter-context
  finding vllm-out-of-memory certain when context_length, requested_bytes
    title vLLM's key-value cache is too small for a context of {context_length} tokens[[: {context_that_fits}
          fit]]
    cause One request of full length does not fit: weights and warm-up leave too little of the share.
    cure @shorter-context
    cure store the key-value cache in 8 bits => --kv-cache-dtype fp8
    cure @larger-share @no-graphs
  finding vllm-out-of-memory certain when context_that_fits
  finding vllm-out-of-memory first_cure_meets_cause when free_bytes, unified_memory,
      page_cache_bytes>wanted_bytes
    title vLLM's share of the memory was not free: {free_bytes} of {total_bytes} were free[[, and the page
          cache held {page_cache_bytes}]]
    cause CPU and GPU share this machine's memory. CUDA's "free" is the kernel's MemFree, so the page cache
          counts as used, although the kernel gives it back on demand.
    cure @drop-page-cache
    cure @end-holder-of-rest
    cure give vLLM at most the free memory, {free_bytes} of {total_bytes} => --gpu-memory-utilization
          {smaller_share}
  finding vllm-out-of-memory possible first_cure_meets_cause when free_bytes, unified_memory,
      !page_cache_bytes
  finding vllm-out-of-memory when free_bytes, little
    title vLLM's share of the GPU was not free: only {free_bytes} of {total_bytes} were free
    cause Other processes hold the GPU's memory, perhaps an earlier vLLM that still runs. The rest is too
          small for a model and its cache.
    cure @end-holder-of-rest :: saves wanted_bytes
    cure check whether an earlier vLLM still runs => pgrep -af vllm
    cure list the GPU's processes with NVIDIA's tool => nvidia-smi
  finding vllm-out-of-memory first_cure_meets_cause when free_bytes
    title vLLM could not start: no GPU memory was left
    cause vLLM takes the share gpu_memory_utilization of the GPU. Its warm-up needs more than that, and the
          GPU had no more free memory.
    cure give vLLM at most the free memory, {free_bytes} of {total_bytes} => --gpu-memory-utilization
          {smaller_share}
    cure give vLLM a share of the GPU that is free => --gpu-memory-utilization SHARE :: when !smaller_share
    cure @end-holder-of-rest :: saves wanted_bytes
    cure @fewer-requests @no-graphs
  finding vllm-out-of-memory
    cure @fewer-requests
    cure give vLLM a smaller share => --gpu-memory-utilization SHARE, below the current one
    cure @shorter-context @no-graphs

rule vllm-context: context_of=vllm
  # The last two: what is left of the share for the cache, below zero.
  line ->
    figures LLM engine…config…max_seq_len={context_length:int} || gpu_memory_utilization={share:decimal} ||
          gpu_memory_utilization': {share:decimal} || gpu_memory_utilization": {share:decimal} ||
          gpu_memory_utilization ({share:decimal} || gpu_memory ({total_bytes}) x gpu_memory_utilization ( ||
          Available KV cache memory: -{lacking_bytes} || reserved for KV Cache is -{lacking_bytes}

# MLC LLM writes MB for MiB. The available memory is the share gpu_memory_utilization (0.85) of the GPU. What it needs
# for each token of the key-value cache is not in the message.
rule mlc
  line Insufficient GPU memory error && single GPU memory is {available_bytes}
    figures model weight size ({weights_bytes} || temporary buffer size ({temporary_bytes}
  finding mlc-out-of-memory certain when available_bytes-weights_bytes<temporary_bytes
    title MLC LLM needs {weights_bytes+temporary_bytes} of GPU memory, but {available_bytes} are available
    cause The weights take {weights_bytes}, the temporary buffers {temporary_bytes}. MLC LLM uses only the
          share gpu_memory_utilization of the GPU, 0.85 if not set.
    cure use a model with fewer parameters or bits per weight (q3f16_1): the weights alone do not fit =>
          mlc_llm convert_weight MODEL --quantization q3f16_1 -o OUT :: when weights_bytes>available_bytes
    cure process fewer prompt tokens at once: the temporary buffers shrink with them => mlc_llm gen_config
          MODEL --prefill-chunk-size 512 … :: when !weights_bytes>available_bytes
    cure give MLC LLM a larger share, if the rest of the GPU is free => mlc_llm serve MODEL --overrides
          "gpu_memory_utilization=0.95" :: when
          weights_bytes+temporary_bytes*17/19<available_bytes
    cure use a model with fewer bits per weight => mlc_llm convert_weight MODEL --quantization q4f16_1 -o OUT
          :: when !weights_bytes>available_bytes
    cure split the model across several GPUs => mlc_llm gen_config MODEL --tensor-parallel-shards 2 …
    cure @see-others-on-gpu
  finding mlc-out-of-memory
    title MLC LLM found no GPU memory for its key-value cache: {available_bytes|some memory} are available
    cause Weights ({weights_bytes|?}) and temporary buffers ({temporary_bytes|?}) fit. The message does not
          show what the key-value cache needs. A model library that does not match the model also gives this
          message.
    cure set a shorter context and fewer sequences => mlc_llm serve MODEL --overrides
          "max_num_sequence=1;max_total_seq_length=2048;prefill_chunk_size=512"
    cure compile the model library again for this model => mlc_llm compile CONFIG --device cuda -o LIBRARY.so
    cure @see-others-on-gpu

# Each of SGLang's processes prints what room for tokens the weights leave; -1 is what settings have for none.
rule llm-server
  line max_total_num_tokens={token_budget:int<-1} -> runtime=SGLang; subject=SGLang; event=budget of tokens;
        part=budget; none=^#
  line Not enough memory. Please try to increase --mem-fraction-static -> runtime=SGLang; subject=SGLang;
        part=error
    figures mem_fraction_static={share:decimal}
  line Not enough memory to handle {:int} prefill tokens -> runtime=TGI; subject=TGI
    figures to handle {prefill_tokens:int} prefill
  line Not enough memory to handle {:int} total tokens -> runtime=TGI; subject=TGI
    figures to handle {total_tokens:int} total || " with {prefill_tokens:int} prefill"
  finding sglang-out-of-memory certain when token_budget
    title SGLang's weights are larger than its share of the GPU: {token_budget} tokens remain for its cache
    cause The weights and other memory for loading exceed the share of the GPU that mem_fraction_static gives
          to weights and cache[[ ({share})]]. A cache for fewer tokens does not help.
    cure @larger-sglang-share @quantize-and-split @see-others-on-gpu
  finding sglang-out-of-memory certain when runtime=SGLang
    title SGLang had no GPU memory left for its key-value cache
    cause The weights fill the share of the GPU that mem_fraction_static gives to weights and cache[[
          ({share})]].
    cure @larger-sglang-share @see-others-on-gpu @quantize-and-split
  finding tgi-out-of-memory certain
    title TGI had no GPU memory left to warm up with [[{total_tokens} total]][[if
          !total_tokens:{prefill_tokens} prefill]] tokens
    cause The memory that the weights leave on the GPU is too small for one prompt of the largest length.
    # A few tokens are the warm-up's smallest prompt already.
    cure process fewer prompt tokens at once => --max-batch-prefill-tokens {prefill_tokens/2} :: when
          prefill_tokens>63
    cure process fewer prompt tokens at once => --max-batch-prefill-tokens N, half of the current number ::
          when !total_tokens, !prefill_tokens>63
    cure store fewer tokens at once => --max-batch-total-tokens {total_tokens/2} :: when total_tokens>63
    cure store fewer tokens at once => --max-batch-total-tokens N, half of the current number :: when
          total_tokens<64
    cure quantize the model while it loads => --quantize fp8
    cure split the model across several GPUs => --num-shard 2
    cure @see-others-on-gpu
)rules",
          {{"derive_vllm", derive_vllm}}};
}

}  // namespace headroom::doctor
