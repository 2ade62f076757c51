#include "doctor/log/requested_size.h"

#include <fmt/format.h>

#include <cstdint>

#include "base/text.h"
#include "doctor/log/message_text.h"

namespace headroom::doctor {

bool add_requested(LogMessage& message, const std::optional<std::string_view>& text) {
  if (!text) return false;
  if (const auto size = leading_size(*text)) {
    message.add("requested_bytes", size);
    return true;
  }
  const auto overflow = leading_overflow(*text);
  if (overflow) message.add("wrong_size", std::string_view(*overflow));
  return overflow.has_value();
}

bool has_wrong_size(const LogMessage& message) {
  const auto requested = message.bytes("requested_bytes");
  return (requested && is_impossible(*requested)) || !message.text("wrong_size").empty();
}

std::string words_for_requested(const LogMessage& message, std::string_view otherwise) {
  const std::string wrong = message.text("wrong_size");
  if (wrong.empty()) return words_for(message.bytes("requested_bytes"), otherwise);
  return wrong.find(' ') == wrong.npos ? wrong + " bytes" : wrong;
}

std::string cause_of_wrong_size(const LogMessage& message) {
  std::string cause =
      "No machine has so much memory: the program computed a wrong size. More memory would not help.";
  const auto unsigned_size = parse_number<std::uint64_t>(message.text("wrong_size"));
  const auto signed_size = static_cast<std::int64_t>(unsigned_size.value_or(0));
  if (signed_size < 0) cause += fmt::format(" As a signed number, the size is negative: {}.", signed_size);
  return cause;
}

}  // namespace headroom::doctor
