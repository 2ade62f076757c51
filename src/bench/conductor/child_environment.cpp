#include "bench/conductor/child_environment.h"

#include <sys/personality.h>

#include <cctype>
#include <cstdlib>
#include <string>

#include "base/files.h"
#include "base/text.h"

namespace headroom::bench {
namespace {

constexpr unsigned long kQueryOnly = 0xffffffff;
constexpr const char* kOrtTelemetryOff = "ORT_DISABLE_TELEMETRY";

}  // namespace

FixedAddresses::FixedAddresses(bool wanted) {
  if (!wanted) return;
  const int now = ::personality(kQueryOnly);
  if (now < 0 || (now & ADDR_NO_RANDOMIZE) != 0) return;
  const auto before = static_cast<unsigned long>(now);
  if (::personality(before | ADDR_NO_RANDOMIZE) >= 0) before_ = before;
}

FixedAddresses::~FixedAddresses() {
  if (before_) ::personality(*before_);
}

bool has_fixed_addresses() {
  const int now = ::personality(kQueryOnly);
  if (now >= 0 && (now & ADDR_NO_RANDOMIZE) != 0) return true;
  const auto everywhere = read_small_file("/proc/sys/kernel/randomize_va_space");
  return everywhere && everywhere->starts_with("0");
}

std::vector<std::pair<std::string, std::string>> variables_without_telemetry() {
  if (std::getenv(kOrtTelemetryOff) != nullptr) return {};
  return {{kOrtTelemetryOff, "1"}};
}

bool allows_telemetry() {
  const char* off = std::getenv(kOrtTelemetryOff);
  if (off == nullptr) return true;
  // As ONNX Runtime reads it: surrounding blanks are ignored; 0, 2, false and an empty value leave telemetry
  // on.
  std::string value(trim(off));
  for (char& letter : value) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return value != "1" && value != "true" && value != "yes" && value != "on";
}

}  // namespace headroom::bench
