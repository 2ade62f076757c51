// SGLang and TGI in words of their own, while they start: the weights leave too little of the GPU for the
// cache of keys and values, or for the warm-up's prompt.
#include <fmt/format.h>

#include <algorithm>

#include "doctor/log/log_prose.h"
#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

constexpr std::int64_t kLeastTokens = 64;
constexpr std::string_view kSglang = "SGLang", kTgi = "TGI";

LogMessage of_sglang(std::string_view part) {
  LogMessage message;
  message.subject = kSglang;
  message.part = part;
  message.add("runtime", kSglang);
  return message;
}

// "max_total_num_tokens=-3542", of each of its processes, before the error: what room for tokens the weights
// leave. Of a start that works it is above zero, and -1 is what settings have for none.
std::optional<LogMessage> read_token_budget(std::string_view line) {
  const auto tokens = integer_after(line, "max_total_num_tokens=");
  constexpr std::int64_t kNone = -1;
  if (!tokens || *tokens >= kNone || is_prose(line)) return std::nullopt;
  LogMessage message = of_sglang("budget");
  message.event = "budget of tokens";
  message.add("token_budget", tokens);
  return message;
}

// "Not enough memory. Please try to increase --mem-fraction-static. Current value: mem_fraction_static=0.85"
std::optional<LogMessage> read_sglang(std::string_view line) {
  if (!has(line, "Not enough memory. Please try to increase --mem-fraction-static")) return std::nullopt;
  LogMessage message = of_sglang("error");
  if (const auto share = text_after(line, "mem_fraction_static="))
    message.add("share", share->substr(0, share->find_first_not_of("0123456789.")));
  return message;
}

// "Not enough memory to handle 4096 prefill tokens. You need to decrease `--max-batch-prefill-tokens`",
// before "… 16000 total tokens with 4096 prefill tokens. …"
std::optional<LogMessage> read_tgi(std::string_view line) {
  const auto asked = text_after(line, "Not enough memory to handle ");
  if (!asked) return std::nullopt;
  const std::size_t end = std::min(asked->find_first_not_of("0123456789"), asked->size());
  const std::string_view kind = asked->substr(end);
  if (end == 0 || !(kind.starts_with(" prefill tokens") || kind.starts_with(" total tokens")))
    return std::nullopt;
  LogMessage message;
  message.subject = kTgi;
  message.add("runtime", kTgi);
  if (kind.starts_with(" total")) message.add("total_tokens", integer_after(*asked, ""));
  auto prefill = integer_after(kind, " with ");
  if (kind.starts_with(" prefill")) prefill = integer_after(*asked, "");
  message.add("prefill_tokens", prefill);
  return message;
}

std::optional<LogMessage> read(std::string_view line) {
  if (auto budget = read_token_budget(line)) return budget;
  auto message = read_sglang(line);
  return message ? message : read_tgi(line);
}

// What the weights leave of the share is less than nothing: the weights have to shrink, or the share to grow.
void explain_token_budget(std::int64_t tokens, const std::string& share, Finding& finding) {
  finding.title = fmt::format(
      "SGLang's weights are larger than its share of the GPU: {} tokens remain for its cache", tokens);
  finding.cause = fmt::format(
      "The weights and other memory for loading exceed the share of the GPU that mem_fraction_static gives "
      "to weights and cache{}. A cache for fewer tokens does not help.",
      share.empty() ? "" : " (" + share + ")");
  std::rotate(finding.cures.begin() + 1, finding.cures.begin() + 2, finding.cures.end());  // others come last
}

Finding explain_sglang(const LogMessage& message, Finding finding) {
  const std::string share = message.text("share");
  finding.id = "sglang-out-of-memory";
  finding.title = "SGLang had no GPU memory left for its key-value cache";
  finding.cause = fmt::format(
      "The weights fill the share of the GPU that mem_fraction_static gives to weights and cache{}.",
      share.empty() ? "" : " (" + share + ")");
  finding.cures = {
      {"give SGLang a larger share, if the rest of the GPU is free",
       "--mem-fraction-static SHARE, above the current one",
       {}},
      {"see which other processes hold GPU memory", "headroom top", {}},
      {"use a quantized model (AWQ, GPTQ), or quantize it while it loads", "--quantization fp8", {}},
      {"split the model across several GPUs", "--tp-size 2", {}}};
  if (const auto tokens = message.number("token_budget")) explain_token_budget(*tokens, share, finding);
  return finding;
}

// A few tokens are the warm-up's smallest prompt already.
Cure halve(std::string what, std::string_view flag, const std::optional<std::int64_t>& tokens) {
  return {std::move(what),
          tokens && *tokens >= kLeastTokens ? fmt::format("{} {}", flag, *tokens / 2)
                                            : fmt::format("{} N, half of the current number", flag),
          {}};
}

Finding explain_tgi(const LogMessage& message, Finding finding) {
  const auto prefill = message.number("prefill_tokens"), total = message.number("total_tokens");
  finding.id = "tgi-out-of-memory";
  finding.title = fmt::format("TGI had no GPU memory left to warm up with {} {} tokens",
                              total.value_or(prefill.value_or(0)), total ? "total" : "prefill");
  finding.cause =
      "The memory that the weights leave on the GPU is too small for one prompt of the largest length.";
  if (!total || prefill.value_or(0) >= kLeastTokens)
    finding.cures = {halve("process fewer prompt tokens at once", "--max-batch-prefill-tokens", prefill)};
  if (total) finding.cures.push_back(halve("store fewer tokens at once", "--max-batch-total-tokens", total));
  finding.cures.push_back({"quantize the model while it loads", "--quantize fp8", {}});
  finding.cures.push_back({"split the model across several GPUs", "--num-shard 2", {}});
  finding.cures.push_back({"see which other processes hold GPU memory", "headroom top", {}});
  return finding;
}

Finding explain(const LogMessage& message) {
  Finding finding;
  finding.severity = Severity::severe;
  finding.confidence = Confidence::certain;
  return message.subject == kSglang ? explain_sglang(message, finding) : explain_tgi(message, finding);
}

}  // namespace

LogRule llm_server_rule() {
  // Of "Not enough memory …" from where two bytes are rare together (anchor_search.h).
  return {"llm-server", {"--mem-fraction-static", "l_num_tokens=-", "h memory to handle "}, read, explain};
}

}  // namespace headroom::doctor
