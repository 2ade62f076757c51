// vLLM, which takes a fixed share of the GPU at its start.
#include <fmt/format.h>

#include <cmath>

#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

constexpr const char* kPreempted = "preempted";

// "Sequence group 147 is preempted by PreemptionMode.RECOMPUTE mode because there is not enough KV cache
// space. …": the request waits, and is computed again.
std::optional<LogMessage> read_preemption(std::string_view line) {
  if (!has(line, " is preempted by PreemptionMode.") || !has(line, "not enough KV cache space"))
    return std::nullopt;
  LogMessage message;
  message.subject = kPreempted;
  message.add("preemptions", integer_after(line, "total_num_cumulative_preemption="));
  return message;
}

std::optional<LogMessage> read(std::string_view line) {
  if (auto preemption = read_preemption(line)) return preemption;
  LogMessage message;
  if (has(line, "raise ValueError(")) return std::nullopt;  // of a traceback; the error itself comes behind
  if (has(line, "when warming up sampler") && has(line, "ut of memory")) {
    message.add("dummy_requests", integer_after(line, "warming up sampler with "));
    return message;
  }
  // "The model's max seq len (30000) is larger than the maximum number of tokens that can be stored in KV
  // cache (19632)", later "To serve at least one request with the model's max seq len (4096), (0.58 GiB KV
  // cache is needed, … the available KV cache memory (0.47 GiB). … estimated maximum model length is 3280."
  if (has(line, "max seq len (") &&
      (has(line, "that can be stored in KV cache") || has(line, "KV cache is needed"))) {
    message.add("context_length", integer_after(line, "max seq len ("));
    auto fits = integer_after(line, "that can be stored in KV cache (");
    if (!fits) fits = integer_after(line, "estimated maximum model length is ");
    message.add("context_that_fits", fits);
    const std::size_t needed = line.find(" KV cache is needed");
    if (needed != line.npos)
      message.add("requested_bytes",
                  leading_size(line.substr(line.find_last_of(" (", line.rfind(' ', needed - 1) - 1) + 1)));
    message.add("free_bytes", size_after(line, "KV cache memory ("));
    return message;
  }
  if (has(line, "No available memory for the cache blocks"))
    message.add("cache_blocks", std::optional<std::int64_t>(0));
  if (has(line, "No available memory for the cache blocks") ||
      (has(line, "Free memory on device") && has(line, "is less than desired GPU memory utilization"))) {
    // "Free memory on device (3.21/7.44 GiB)"
    const auto figures = text_after(line, "Free memory on device");
    message.add("gpu", integer_after(line, "Free memory on device cuda:"));
    const std::size_t slash = figures ? figures->find('/') : line.npos;
    if (slash != line.npos && figures->find('(') < slash) {
      const std::string free(figures->substr(figures->find('(') + 1, slash - figures->find('(') - 1));
      message.add("free_bytes", leading_size(free + " GiB"));
      message.add("total_bytes", leading_size(figures->substr(slash + 1)));
    }
    if (const auto asked = text_after(line, "desired GPU memory utilization ("))
      message.add("asked_bytes", size_after(*asked, ", "));
    return message;
  }
  return std::nullopt;
}

Cure shorter_context(const LogMessage& message) {
  const auto context = message.number("context_length"), fits = message.number("context_that_fits");
  if (fits)
    return {"shorten the context to the length that fits", fmt::format("--max-model-len {}", *fits), {}};
  return {"halve the context",
          context && *context > 1 ? fmt::format("--max-model-len {}", *context / 2)
                                  : "--max-model-len N, half of max_seq_len in its log",
          {}};
}

Cure fewer_requests(const LogMessage& message) {
  const auto requests = message.number("dummy_requests");
  return {"serve fewer requests at once",
          requests && *requests > 1 ? fmt::format("--max-num-seqs {}", *requests / 2)
                                    : "--max-num-seqs N, half of the current number",
          {}};
}

// The share that weights and warm-up fill before any cache, in hundredths, up; 100 and more: no share does.
std::optional<std::int64_t> filled_share(const LogMessage& message) {
  // Of what had room for a cache an earlier start in the log may have lacked it.
  if (!message.number("cache_blocks")) return std::nullopt;
  const auto share = message.number("share_percent");
  const auto lacking = message.bytes("lacking_bytes"), total = message.bytes("total_bytes");
  if (!share || !lacking || !total || total->count <= 0 || *lacking > *total) return std::nullopt;
  const double part = static_cast<double>(lacking->count) / static_cast<double>(total->count);
  return *share + static_cast<std::int64_t>(std::ceil(100 * part));
}

// Half of what the present share, or the one that is needed, leaves, where the log tells it.
Cure larger_share(const LogMessage& message) {
  constexpr std::int64_t kMost = 98, kAll = 100;
  const std::string_view what = "give vLLM a larger share, if the rest of the GPU is free";
  const auto share = message.number("share_percent"), filled = filled_share(message);
  const std::int64_t least = filled.value_or(share.value_or(0));
  if (!share || least >= kMost || least <= 0)
    return {std::string(what), "--gpu-memory-utilization SHARE, above the current one", {}};
  const auto as_share = [](std::int64_t percent) { return static_cast<double>(percent) / kAll; };
  const std::string needed =
      filled ? fmt::format("; {:.2f} is enough for weights and warm-up, without a cache", as_share(*filled))
             : "";
  return {fmt::format("{} (now {:.2f}{})", what, as_share(*share), needed),
          fmt::format("--gpu-memory-utilization {:.2f}", as_share((least + kAll) / 2)),
          {}};
}

// Of the whole GPU, what is free; nothing where the figures do not tell.
std::optional<double> free_share(const LogMessage& message) {
  const auto free = message.bytes("free_bytes"), total = message.bytes("total_bytes");
  if (!free || !total || total->count <= 0 || *free > *total) return std::nullopt;
  return static_cast<double>(free->count) / static_cast<double>(total->count);
}

// Hundredths, down.
Cure smaller_share(const LogMessage& message) {
  const auto share = free_share(message);
  if (!share) return {"give vLLM a share of the GPU that is free", "--gpu-memory-utilization SHARE", {}};
  return {
      fmt::format("give vLLM at most the free memory, {} of {}", format_bytes(*message.bytes("free_bytes")),
                  format_bytes(*message.bytes("total_bytes"))),
      fmt::format("--gpu-memory-utilization {:.2f}", std::floor(100 * *share) / 100),
      {}};
}

// Its share was not free when it started. A fifth of a GPU, 1.5 GiB of 7.4 or 4.8 of 24, holds next to no
// model with its cache: where less is free, whoever holds the rest has to go, and no smaller share helps.
void explain_start(const LogMessage& message, const Cure& no_graphs, Finding& finding) {
  constexpr double kLeast = 0.2;
  const auto share = free_share(message);
  const auto asked = message.bytes("asked_bytes"), free = message.bytes("free_bytes");
  const auto wanted = asked && free && *asked > *free ? std::optional(*asked - *free) : std::nullopt;
  const Cure end_others{"find the process that holds the rest, and end it", "headroom top", wanted};
  if (!share || *share >= kLeast) {
    finding.cures = {smaller_share(message), end_others, fewer_requests(message), no_graphs};
    finding.first_cure_meets_cause = true;
    return;
  }
  finding.title = fmt::format("vLLM's share of the GPU was not free: only {} of {} were free",
                              format_bytes(*free), format_bytes(*message.bytes("total_bytes")));
  finding.cause =
      "Other processes hold the GPU's memory, perhaps an earlier vLLM that still runs. The rest is too small "
      "for a model and its cache.";
  finding.cures = {end_others,
                   {"check whether an earlier vLLM still runs", "pgrep -af vllm", {}},
                   {"list the GPU's processes with NVIDIA's tool", "nvidia-smi", {}}};
}

Finding explain(const LogMessage& message) {
  Finding finding;
  finding.id = "vllm-out-of-memory";
  finding.severity = Severity::severe;
  finding.title = "vLLM could not start: no GPU memory was left";
  finding.cause =
      "vLLM takes the share gpu_memory_utilization of the GPU. Its warm-up needs more than that, and the GPU "
      "had no more free memory.";
  finding.confidence = Confidence::likely;
  const Cure no_graphs{"disable CUDA graphs", "--enforce-eager", {}};
  if (message.subject == kPreempted) {
    finding.severity = Severity::warning;
    finding.title = "vLLM's key-value cache was too small for the requests: vLLM postponed some";
    finding.cause =
        "The running requests need more cache than vLLM has. vLLM stops one of them and computes it again "
        "later.";
    finding.confidence = Confidence::certain;
    finding.cures = {larger_share(message),
                     fewer_requests(message),
                     {"store the key-value cache in 8 bits", "--kv-cache-dtype fp8", {}}};
    return finding;
  }
  const auto context = message.number("context_length"), fits = message.number("context_that_fits");
  if (message.number("cache_blocks")) {
    // The share is used up by weights and warm-up: a smaller one would leave less.
    finding.title = "vLLM had no GPU memory left for its key-value cache";
    finding.cause =
        "Weights and warm-up fill the share of the GPU that gpu_memory_utilization gives to vLLM.";
    if (const auto lacking = message.bytes("lacking_bytes")) {
      finding.cause = fmt::format(
          "Weights and warm-up take {} more than the share of the GPU that gpu_memory_utilization gives to "
          "vLLM.",
          format_bytes(*lacking));
      finding.confidence = Confidence::certain;
    }
    finding.cures = {no_graphs, shorter_context(message)};
    constexpr std::int64_t kNoShare = 98;  // hundredths: what is left holds no cache
    if (const auto filled = filled_share(message); filled && *filled >= kNoShare)
      finding.cures.push_back(
          {"use a model with fewer bits per weight (AWQ or GPTQ takes about a quarter)", "", {}});
    else
      finding.cures.insert(finding.cures.begin(), larger_share(message));
  } else if (fits || message.bytes("requested_bytes")) {
    finding.title = fmt::format("vLLM's key-value cache is too small for a context of {} tokens{}",
                                context.value_or(0), fits ? fmt::format(": {} fit", *fits) : "");
    finding.cause =
        "One request of full length does not fit: weights and warm-up leave too little of the share.";
    finding.confidence = Confidence::certain;
    finding.cures = {shorter_context(message),
                     {"store the key-value cache in 8 bits", "--kv-cache-dtype fp8", {}},
                     larger_share(message),
                     no_graphs};
  } else if (message.bytes("free_bytes")) {
    explain_start(message, no_graphs, finding);
  } else {
    finding.cures = {
        fewer_requests(message),
        {"give vLLM a smaller share", "--gpu-memory-utilization SHARE, below the current one", {}},
        shorter_context(message),
        no_graphs};
  }
  return finding;
}

}  // namespace

LogRule vllm_rule() {
  return {"vllm",
          {"warming up sampler", "No available memory for the cache", "Free memory on device",
           "max seq len (", "ptionMode."},
          read,
          explain};
}

}  // namespace headroom::doctor
