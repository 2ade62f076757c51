#include "doctor/log/finding_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/text.h"
#include "doctor/cure_commands.h"
#include "doctor/log/message_text.h"

namespace headroom::doctor {
namespace {

constexpr std::string_view kOperators = "+-*/";

std::optional<std::int64_t> value_of_operand(std::string_view name, const LogMessage& message) {
  if (const auto number = parse_number<std::int64_t>(name)) return number;
  const auto value = message.number(name);
  return value && is_impossible(Bytes{*value}) ? std::nullopt : value;
}

std::int64_t computed(std::int64_t left, char sign, std::int64_t right) {
  if (sign == '+') return left + right;
  if (sign == '-') return left - right;
  if (sign == '*') return left * right;
  return right == 0 ? 0 : left / right;
}

// "2.0 MiB", "18446744073709551612 bytes"; empty if unknown.
std::string words_of_request(const LogMessage& message) {
  const std::string wrong = message.text("wrong_size");
  if (!wrong.empty()) return has(wrong, " ") ? wrong : wrong + " bytes";
  const auto requested = message.bytes("requested_bytes");
  return requested ? format_bytes(*requested) : std::string();
}

std::string cause_of_wrong_size(const LogMessage& message) {
  std::string cause =
      "No machine has so much memory: the program computed a wrong size. More memory would not help.";
  const auto unsigned_size = parse_number<std::uint64_t>(message.text("wrong_size"));
  const auto signed_size = static_cast<std::int64_t>(unsigned_size.value_or(0));
  if (signed_size < 0) cause += fmt::format(" As a signed number, the size is negative: {}.", signed_size);
  return cause;
}

std::string_view first_operand(std::string_view expression) {
  return expression.substr(0, expression.find_first_of(kOperators));
}

std::string words_of_number(std::string_view expression, std::int64_t value, std::string_view format) {
  constexpr std::int64_t kMib = mebibytes(1).count;
  if (format == "mib") return std::to_string((value + kMib - 1) / kMib);
  if (format == "mib_16") return std::to_string(std::max<std::int64_t>(16, (value + kMib - 1) / kMib));
  if (format == "bytes_above") return std::to_string(mebibytes(mebibytes_above(Bytes{value})).count);
  if (format == "mib_above") return std::to_string(mebibytes_above(Bytes{value}));
  if (format == "count" || !first_operand(expression).ends_with("_bytes")) return std::to_string(value);
  return format_bytes(Bytes{value});
}

// "requested_bytes/2:mib" within the braces; what stands behind "|" is used for a missing figure.
std::optional<std::string> words_of_figure(std::string_view figure, const LogMessage& message) {
  const bool has_other_words = has(figure, "|");
  std::string_view format = take_before(figure, "|");  // what is left of the figure is the other words
  const std::string_view expression = take_before(format, ":");
  std::string words;
  if (expression == "requested")
    words = words_of_request(message);
  else if (expression == "cause_of_wrong_size")
    words = cause_of_wrong_size(message);
  else if (const auto value = value_of(expression, message))
    words = words_of_number(expression, *value, format);
  else
    words = message.text(expression);
  if (format == "shell" && !words.empty()) words = shell_word(words);
  if (!words.empty()) return words;
  return has_other_words ? std::optional<std::string>(figure) : std::nullopt;
}

// The length of the "{…}" that the text begins with; 0: it is a program's own brace.
std::size_t length_of_figure(std::string_view text) {
  if (!text.starts_with('{') || text.size() < 2 || std::islower(static_cast<unsigned char>(text[1])) == 0)
    return 0;
  const std::size_t end = text.find('}');
  const std::string_view name = text.substr(1, end == text.npos ? end : end - 1);
  const bool is_figure =
      end != text.npos &&
      name.substr(0, name.find('|')).find_first_not_of("abcdefghijklmnopqrstuvwxyz_:+-*/0123456789") ==
          name.npos;
  return is_figure ? end + 1 : 0;
}

bool holds_comparison(std::string_view term, std::size_t at, const LogMessage& message) {
  const auto left = value_of(term.substr(0, at), message), right = value_of(term.substr(at + 1), message);
  return left && right && (term[at] == '<' ? *left < *right : *left > *right);
}

// A part in [[ ]].
std::string words_of_part(std::string_view part, const LogMessage& message) {
  constexpr std::string_view kIf = "if ";
  if (part.starts_with(kIf)) {
    const std::size_t colon = std::min(part.find(':'), part.size() - 1);
    if (!holds(part.substr(kIf.size(), colon - kIf.size()), message)) return {};
    part.remove_prefix(colon + 1);
  }
  return fill_in(part, message).value_or("");
}

std::string text_of(std::string_view name, const LogMessage& message) {
  if (name == "subject") return message.subject;
  const auto number = message.number(name);
  return number ? std::to_string(*number) : message.text(name);
}

bool holds_term(std::string_view term, const LogMessage& message) {
  if (term == "wrong_size") return has_wrong_size(message);
  if (term.starts_with('!')) return !holds_term(term.substr(1), message);
  const std::size_t at = term.find_first_of("=~<>!");
  if (at == term.npos) return !message.text(term).empty() || message.number(term).has_value();
  const std::string_view name = term.substr(0, at);
  if (term[at] == '=') return text_of(name, message) == term.substr(at + 1);
  if (term[at] == '!') return text_of(name, message) != term.substr(at + 2);
  if (term[at] == '~') return has(text_of(name, message), term.substr(at + 1));
  return holds_comparison(term, at, message);
}

}  // namespace

bool has_wrong_size(const LogMessage& message) {
  const auto requested = message.bytes("requested_bytes");
  return (requested && is_impossible(*requested)) || !message.text("wrong_size").empty();
}

std::optional<std::int64_t> value_of(std::string_view expression, const LogMessage& message) {
  const std::string_view first = first_operand(expression);
  auto value = value_of_operand(first, message);
  expression.remove_prefix(first.size());
  while (value && !expression.empty()) {
    const std::string_view operand = first_operand(expression.substr(1));
    const auto right = value_of_operand(operand, message);
    value = right ? std::optional(computed(*value, expression.front(), *right)) : std::nullopt;
    expression.remove_prefix(1 + operand.size());
  }
  return value;
}

std::optional<std::string> fill_in(std::string_view text, const LogMessage& message) {
  std::string filled;
  while (!text.empty()) {
    if (const std::size_t end = text.starts_with("[[") ? text.find("]]") : text.npos; end != text.npos) {
      filled += words_of_part(text.substr(2, end - 2), message);
      text.remove_prefix(end + 2);
    } else if (const std::size_t length = length_of_figure(text); length > 0) {
      const auto words = words_of_figure(text.substr(1, length - 2), message);
      if (!words) return std::nullopt;
      filled += *words;
      text.remove_prefix(length);
    } else {
      filled += text.front();
      text.remove_prefix(1);
    }
  }
  return filled;
}

bool holds(std::string_view condition, const LogMessage& message) {
  while (!condition.empty())
    if (!holds_term(take_before(condition, ", "), message)) return false;
  return true;
}

}  // namespace headroom::doctor
