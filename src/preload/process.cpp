#include "preload/process.h"

#include <cstddef>
#include <cstring>
#include <string_view>

namespace headroom::preload {

namespace {

// Returns false unless the text consists of 1 to 19 digits.
bool to_number(std::string_view text, std::uint64_t& number) {
  if (text.empty() || text.size() > 19) return false;
  std::uint64_t value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return false;
    value = value * 10 + static_cast<std::uint64_t>(c - '0');
  }
  number = value;
  return true;
}

// `ordinal`: "" or "3".
void limit_devices(ledger::Limits& limits, std::string_view ordinal, std::uint64_t bytes) {
  std::uint64_t number = 0;
  if (ordinal.empty())
    for (std::uint64_t& limit : limits.bytes) limit = bytes;
  else if (to_number(ordinal, number) && number < ledger::kMaxDevices)
    limits.bytes[number] = bytes;
}

void apply(Options& options, std::string_view key, std::string_view value) {
  std::uint64_t number = 0;
  const bool is_number = to_number(value, number);
  if (key == "ledger" && is_number) options.ledger = number != 0;
  if (key == "full" && is_number) options.full = number != 0;
  if (key == "stacks") {
    if (value == "off") options.stacks = StackMode::off;
    if (value == "fp") options.stacks = StackMode::frame_pointers;
    if (value == "unwind") options.stacks = StackMode::unwind;
  }
  if (key == "layers") options.layers = value != "off";
  if ((key == "ring" || key == "limit") && is_number && number > 0) {
    options.ring = key == "ring";
    options.segments = number;
  }
  constexpr std::string_view kDevice = "device";
  if (key.starts_with(kDevice) && is_number)
    limit_devices(options.device_limits, {key.data() + kDevice.size(), key.size() - kDevice.size()}, number);
  if (key == "proved")
    options.proved = value == "hard"   ? ProvedLimit::hard
                     : value == "soft" ? ProvedLimit::soft
                                       : ProvedLimit::not_tried;
  const bool fits = value.size() < sizeof options.account;
  if (key == "within" && fits && options.outer_account_count < ledger::kMaxAccounts - 1)
    std::memcpy(options.outer_accounts[options.outer_account_count++], value.data(), value.size());
  if (key == "account" && fits) std::memcpy(options.account, value.data(), value.size());
  if (key == "events" && is_number) options.events = number;
  if (key == "large" && is_number) options.large_bytes = number;
  if (key == "period" && is_number && number > 0) options.sample_period = number;
}

}  // namespace

Options parse_options(const char* text) {
  Options options;
  while (text != nullptr && *text != 0) {
    const char* const end = text + std::strcspn(text, ",");
    const char* const equals = text + std::strcspn(text, "=,");
    if (equals < end)
      apply(options, {text, static_cast<std::size_t>(equals - text)},
            {equals + 1, static_cast<std::size_t>(end - equals - 1)});
    text = *end == ',' ? end + 1 : end;
  }
  return options;
}

// Constant-initialised, because allocations come before this library's constructors run.
constinit Process process;

}  // namespace headroom::preload
