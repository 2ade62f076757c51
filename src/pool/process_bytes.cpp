#include "pool/process_bytes.h"

#include <array>
#include <string_view>

#include "base/files.h"
#include "base/text.h"

namespace headroom::pool {
namespace {

constexpr Bytes kKernelStack = kibibytes(16);  // of a thread, on 64-bit machines
constexpr std::array<std::string_view, 4> kKept{"RssAnon:", "RssShmem:", "VmSwap:", "VmPTE:"};

}  // namespace

std::optional<Bytes> own_bytes(const std::filesystem::path& status) {
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
      if (words[0] == key) sum += kibibytes(*value);
    has_anonymous = has_anonymous || words[0] == kKept[0];
  }
  return has_anonymous ? std::optional<Bytes>(sum) : std::nullopt;
}

}  // namespace headroom::pool
