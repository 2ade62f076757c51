#include "doctor/log/ggml_cache.h"

#include <fmt/format.h>

#include "doctor/log/ggml_layers.h"
#include "doctor/log/message_text.h"

namespace headroom::doctor {
namespace {

constexpr std::int64_t kStep = 256;  // llama.cpp rounds a context up to that many tokens
// q8_0 keeps 32 values in 34 bytes, f16 in 64.
constexpr std::int64_t kBytesOfQ8 = 34, kBytesOfF16 = 64;

Bytes in_8_bits(Bytes cache) { return Bytes{cache.count / kBytesOfF16 * kBytesOfQ8}; }

// What the weights left of the GPU; nothing where the figures do not tell, or the cache would have fit in it,
// as they are then another GPU's or another load's.
std::optional<Bytes> room_for_cache(const LogMessage& message, bool is_host) {
  const auto requested = message.bytes("requested_bytes"), model = message.bytes("model_buffer_bytes"),
             free = message.bytes("free_bytes");
  const bool are_several = message.number("gpu").value_or(0) > 0;
  if (is_host || are_several || !requested || !model || !free) return std::nullopt;
  if (is_impossible(*requested) || *model >= *free || *free - *model >= *requested) return std::nullopt;
  return *free - *model;
}

// The cache grows in step with the context.
std::int64_t tokens_in(Bytes room, Bytes cache, std::int64_t context) {
  const double part = static_cast<double>(room.count) / static_cast<double>(cache.count);
  return static_cast<std::int64_t>(part * static_cast<double>(context)) / kStep * kStep;
}

Cure half_context(const LogMessage& message) {
  const auto context = message.number("context_length");
  const auto requested = message.bytes("requested_bytes");
  return {"halve the context: the key-value cache shrinks with it",
          context && *context > 1 ? fmt::format("-c {}", *context / 2) : "-c N, half of n_ctx in its log",
          requested ? std::optional(Bytes{requested->count / 2}) : std::nullopt};
}

// By the room that the weights leave, if that is told; nothing where no context fits.
std::optional<Cure> shorter_context(const LogMessage& message, const std::optional<Bytes>& room) {
  const auto context = message.number("context_length");
  const auto requested = message.bytes("requested_bytes");
  if (!room || !context || *context <= 0) return half_context(message);
  const std::int64_t tokens = tokens_in(*room, *requested, *context);
  if (tokens < kStep) return std::nullopt;
  const double part = static_cast<double>(tokens) / static_cast<double>(*context);
  const Bytes held{static_cast<std::int64_t>(part * static_cast<double>(requested->count))};
  return Cure{fmt::format("shorten the context to fit in {}; the compute buffer needs memory too, so choose "
                          "a shorter one if that fails next",
                          format_bytes(*room)),
              fmt::format("-c {}", tokens), *requested - held};
}

Cure cache_in_8_bits(const LogMessage& message, const std::optional<Bytes>& room) {
  const auto context = message.number("context_length");
  const auto requested = message.bytes("requested_bytes");
  Cure cure{
      "store the key-value cache in 8 bits (half of f16; before September 2025, write -fa instead of -fa on)",
      "-fa on -ctk q8_0 -ctv q8_0",
      {}};
  if (requested && !is_impossible(*requested)) cure.saves = *requested - in_8_bits(*requested);
  if (!room || !context) return cure;
  if (const Bytes smaller = in_8_bits(*requested); smaller > *room) {
    const std::int64_t tokens = tokens_in(*room, smaller, *context);
    if (tokens >= kStep) cure.what += fmt::format("; this is not enough alone: add -c {}", tokens);
  }
  return cure;
}

Cure fewer_layers(const LogMessage& message) {
  const auto layers = layers_that_fit(message);
  if (!layers) return {"keep fewer layers on the GPU", "-ngl N, below the layers in its log", {}};
  return {fmt::format("keep at most {} layers on the GPU: the weights and cache of the others move to the "
                      "host's memory (slower)",
                      layers->stay),
          fmt::format("-ngl {}", layers->stay), layers->freed};
}

}  // namespace

bool is_cache_refused(const LogMessage& message) { return message.text("wanted") == "key-value cache"; }

std::string cause_of_cache(const LogMessage& message, bool is_host) {
  const auto context = message.number("context_length");
  const std::string cache =
      context ? fmt::format("The key-value cache of {} tokens", *context) : "The key-value cache";
  const auto room = room_for_cache(message, is_host);
  if (!room) return cache + " did not fit in the free memory.";
  return fmt::format("{} did not fit: the weights left {} of the {} that were free.", cache,
                     format_bytes(*room), format_bytes(*message.bytes("free_bytes")));
}

void add_cache_cures(const LogMessage& message, bool is_host, Finding& finding) {
  const auto room = room_for_cache(message, is_host);
  auto& cures = finding.cures;
  if (auto context = shorter_context(message, room)) {
    cures.push_back(std::move(*context));
    finding.first_cure_meets_cause = room.has_value();
  }
  cures.push_back(cache_in_8_bits(message, room));
  if (is_host)
    cures.push_back({"map the model's file instead of reading it", "leave out --no-mmap and --mlock", {}});
  else
    cures.push_back(fewer_layers(message));
  cures.push_back({"use a model with fewer bits per weight (Q4_K_M takes about half of Q8_0)", "", {}});
}

}  // namespace headroom::doctor
