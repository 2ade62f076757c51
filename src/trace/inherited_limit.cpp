#include "trace/inherited_limit.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "base/text.h"

namespace headroom::trace {

InheritedLimit inherited_limit() {
  constexpr std::string_view kDevice = "device";
  InheritedLimit inherited;
  const char* settings = std::getenv("HEADROOM_TRACE_OPTIONS");
  for (const std::string_view setting : split(settings != nullptr ? settings : "", ',')) {
    const std::size_t equals = setting.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view key = setting.substr(0, equals), value = setting.substr(equals + 1);
    if ((key == "account" || key == "within") && !value.empty()) inherited.accounts.emplace_back(value);
    const auto bytes = parse_number<std::uint64_t>(value);
    if (!key.starts_with(kDevice) || !bytes) continue;
    const auto device = parse_number<unsigned>(key.substr(kDevice.size()));
    if (key == kDevice)
      std::fill(std::begin(inherited.limits.bytes), std::end(inherited.limits.bytes), *bytes);
    else if (device && *device < ledger::kMaxDevices)
      inherited.limits.bytes[*device] = *bytes;
  }
  return inherited;
}

ledger::Limits smaller_of(const ledger::Limits& a, const ledger::Limits& b) {
  ledger::Limits smaller;
  for (unsigned device = 0; device < ledger::kMaxDevices; ++device)
    smaller.bytes[device] = std::min(a.bytes[device], b.bytes[device]);
  return smaller;
}

}  // namespace headroom::trace
