#include "pool/process_bytes.h"

#include <array>
#include <string>
#include <string_view>

#include "base/files.h"
#include "base/text.h"

namespace headroom::pool {
namespace {

constexpr Bytes kKernelStack = kibibytes(16);  // per thread, on 64-bit machines
constexpr std::string_view kShared = "RssShmem:";
constexpr std::array<std::string_view, 4> kKept{"RssAnon:", kShared, "VmSwap:", "VmPTE:"};

std::optional<Bytes> sum_of(const std::filesystem::path& status, bool with_shared) {
  const auto text = read_small_file(status);
  if (!text) return std::nullopt;
  Bytes sum;
  bool has_anonymous = false;
  for (const std::string_view line : split(*text, '\n')) {
    const auto words = split_words(line);
    if (words.size() < 2) continue;
    const auto value = parse_number<std::int64_t>(words[1]);
    if (!value) continue;
    if (words[0] == "Threads:") sum += Bytes{*value * kKernelStack.count};
    for (const std::string_view key : kKept)
      if (words[0] == key && (with_shared || key != kShared)) sum += kibibytes(*value);
    has_anonymous = has_anonymous || words[0] == kKept[0];
  }
  return has_anonymous ? std::optional<Bytes>(sum) : std::nullopt;
}

}  // namespace

std::optional<Bytes> own_bytes(const std::filesystem::path& status) { return sum_of(status, true); }

std::optional<Bytes> unshared_bytes(pid_t pid) {
  return sum_of(std::filesystem::path("/proc") / std::to_string(pid) / "status", false);
}

}  // namespace headroom::pool
