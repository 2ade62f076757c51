#include "doctor/log/broken_kill.h"

#include <algorithm>
#include <cctype>

#include "base/text.h"
#include "doctor/log/message_text.h"

namespace headroom::doctor {
namespace {

constexpr std::string_view kLast = "oom_score_adj:";
constexpr std::string_view kFields[] = {
    "total-vm:", "anon-rss:", "file-rss:", "shmem-rss:", "UID:", "pgtables:", kLast};

// "Mar 02 10:00:00 node kernel: [  510.917639] ", "2026-11-21T10:30:00Z ", or nothing.
bool may_be_of_logger(std::string_view before) {
  constexpr std::size_t kLongest = 80;
  const std::string_view text = trim(before);
  if (text.empty()) return true;
  const auto last = static_cast<unsigned char>(text.back());
  return text.size() <= kLongest && before.ends_with(' ') &&
         (last == ':' || last == ']' || last == '|' || last == 'Z' || std::isdigit(last) != 0);
}

}  // namespace

bool may_be_broken_kill(std::string_view line) {
  const auto victim = text_after(line, "Killed process ");
  return victim && !victim->empty() && std::isdigit(static_cast<unsigned char>(victim->front())) != 0 &&
         has(*victim, " (") && !has(*victim, kLast);
}

std::optional<std::string_view> rest_of_kill(std::string_view line) {
  std::size_t begin = line.npos;
  for (const std::string_view field : kFields) begin = std::min(begin, line.find(field));
  if (begin == line.npos || !may_be_of_logger(line.substr(0, begin)) || has(line, "Killed process "))
    return std::nullopt;
  return line.substr(begin);
}

}  // namespace headroom::doctor
