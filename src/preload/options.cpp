#include "preload/options.h"

#include <cstddef>
#include <cstring>

namespace headroom::preload {
namespace {

// A part of a text, without a terminating NUL.
struct Piece {
  const char* begin;
  const char* end;
  bool is(const char* word) const {
    const std::size_t length = std::strlen(word);
    return static_cast<std::size_t>(end - begin) == length && std::memcmp(begin, word, length) == 0;
  }
  bool starts_with(const char* word) const {
    const std::size_t length = std::strlen(word);
    return static_cast<std::size_t>(end - begin) >= length && std::memcmp(begin, word, length) == 0;
  }
  // Returns false unless it consists of digits only.
  bool to_number(std::uint64_t& number) const {
    if (begin == end || end - begin > 19) return false;
    std::uint64_t value = 0;
    for (const char* at = begin; at != end; ++at) {
      if (*at < '0' || *at > '9') return false;
      value = value * 10 + static_cast<std::uint64_t>(*at - '0');
    }
    number = value;
    return true;
  }
};

// "device" and "device3".
void limit_devices(ledger::Limits& limits, const Piece& key, std::uint64_t bytes) {
  const Piece ordinal{key.begin + std::strlen("device"), key.end};
  std::uint64_t number = 0;
  if (ordinal.begin == ordinal.end)
    for (std::uint64_t& limit : limits.bytes) limit = bytes;
  else if (ordinal.to_number(number) && number < ledger::kMaxDevices)
    limits.bytes[number] = bytes;
}

void apply(Options& options, const Piece& key, const Piece& value) {
  std::uint64_t number = 0;
  const bool is_number = value.to_number(number);
  if (key.is("ledger") && is_number) options.ledger = number != 0;
  if (key.is("full") && is_number) options.full = number != 0;
  if (key.is("stacks")) {
    if (value.is("off")) options.stacks = StackMode::off;
    if (value.is("fp")) options.stacks = StackMode::frame_pointers;
    if (value.is("unwind")) options.stacks = StackMode::unwind;
  }
  if (key.is("layers")) options.layers = !value.is("off");
  if ((key.is("ring") || key.is("limit")) && is_number && number > 0) {
    options.ring = key.is("ring");
    options.segments = number;
  }
  if (key.starts_with("device") && is_number) limit_devices(options.device_limits, key, number);
  if (key.is("proved"))
    options.proved = value.is("hard")   ? ProvedLimit::hard
                     : value.is("soft") ? ProvedLimit::soft
                                        : ProvedLimit::not_tried;
  const auto length = static_cast<std::size_t>(value.end - value.begin);
  if (key.is("within") && length < sizeof options.account &&
      options.outer_account_count < ledger::kMaxAccounts - 1)
    std::memcpy(options.outer_accounts[options.outer_account_count++], value.begin, length);
  if (key.is("account") && length < sizeof options.account) std::memcpy(options.account, value.begin, length);
  if (key.is("events") && is_number) options.events = number;
  if (key.is("large") && is_number) options.large_bytes = number;
  if (key.is("period") && is_number && number > 0) options.sample_period = number;
}

}  // namespace

Options parse_options(const char* text) {
  Options options;
  while (text != nullptr && *text != 0) {
    const char* const end = text + std::strcspn(text, ",");
    const char* const equals = text + std::strcspn(text, "=,");
    if (equals < end) apply(options, {text, equals}, {equals + 1, end});
    text = *end == ',' ? end + 1 : end;
  }
  return options;
}

}  // namespace headroom::preload
