#include "doctor/log/message_text.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <string>

namespace headroom::doctor {
namespace {

void skip_spaces(std::string_view& text) {
  const std::size_t at = text.find_first_not_of(' ');
  text.remove_prefix(at == text.npos ? text.size() : at);
}

// Of "MiB", "MB", "M", "kB"; 1 of "bytes", "B" and of other words.
double factor_of(std::string_view unit) {
  if (unit.empty()) return 1;
  const std::size_t rank = std::string_view("KMGTP").find(static_cast<char>(std::toupper(unit.front())));
  if (rank == std::string_view::npos) return 1;
  const std::string_view rest = unit.substr(1);
  if (!rest.empty() && rest != "B" && rest != "iB" && rest != "b" && rest != "ib") return 1;
  return std::ldexp(1.0, 10 * (static_cast<int>(rank) + 1));
}

}  // namespace

bool has(std::string_view line, std::string_view words) { return line.find(words) != line.npos; }

std::optional<std::string_view> text_after(std::string_view line, std::string_view words) {
  const std::size_t at = line.find(words);
  if (at == line.npos) return std::nullopt;
  return line.substr(at + words.size());
}

namespace {

// "1,073,741,824 bytes" without its commas; empty where there are none of thousands.
std::string without_commas(std::string_view text) {
  constexpr std::size_t kGroup = 3, kMostGroups = 6;
  const auto digits_from = [&](std::size_t at) {
    const std::size_t end = std::min(text.find_first_not_of("0123456789", at), text.size());
    return end - std::min(at, end);
  };
  std::size_t at = digits_from(0), groups = 0;
  if (at == 0 || at > kGroup) return {};
  std::string plain(text.substr(0, at));
  while (at < text.size() && text[at] == ',' && digits_from(at + 1) == kGroup && ++groups <= kMostGroups) {
    plain += text.substr(at + 1, kGroup);
    at += 1 + kGroup;
  }
  if (groups == 0) return {};
  constexpr std::size_t kLongestUnit = 16;
  return plain.append(text.substr(at, kLongestUnit));
}

}  // namespace

std::optional<Bytes> leading_size(std::string_view text) {
  skip_spaces(text);
  if (const std::string plain = without_commas(text); !plain.empty()) return leading_size(plain);
  double number = 0;
  std::int64_t whole = 0;
  const char* const end = text.data() + text.size();
  if (text.empty() || !std::isdigit(static_cast<unsigned char>(text.front()))) return std::nullopt;
  const auto [after, code] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  if (code != std::errc{} || !std::isfinite(number)) return std::nullopt;
  const auto [whole_after, whole_code] = std::from_chars(text.data(), end, whole);
  std::string_view rest(after, static_cast<std::size_t>(end - after));
  skip_spaces(rest);
  const auto letters = std::find_if(rest.begin(), rest.end(),
                                    [](char c) { return !std::isalpha(static_cast<unsigned char>(c)); });
  const double factor = factor_of(rest.substr(0, static_cast<std::size_t>(letters - rest.begin())));
  // "1e3", "1,5": of another notation, of which the first digits alone would be wrong.
  const bool goes_on = after + 1 < end && (*after == 'e' || *after == ',') &&
                       std::isdigit(static_cast<unsigned char>(after[1])) != 0;
  if (goes_on) return std::nullopt;
  // The sum of two stays within 64 bits.
  constexpr std::int64_t kMost = std::int64_t{1} << 62;
  if (factor == 1 && whole_code == std::errc{} && whole_after == after)
    return whole < kMost ? std::optional(Bytes{whole}) : std::nullopt;
  if (number * factor >= static_cast<double>(kMost)) return std::nullopt;
  return Bytes{std::llround(number * factor)};
}

std::optional<Bytes> size_after(std::string_view line, std::string_view words) {
  const auto text = text_after(line, words);
  return text ? leading_size(*text) : std::nullopt;
}

std::optional<std::int64_t> integer_after(std::string_view line, std::string_view words) {
  auto text = text_after(line, words);
  if (!text) return std::nullopt;
  skip_spaces(*text);
  std::int64_t number = 0;
  if (std::from_chars(text->data(), text->data() + text->size(), number).ec != std::errc{})
    return std::nullopt;
  return number;
}

bool is_prose(std::string_view line) {
  const std::size_t begin = line.find_first_not_of(" \t");
  const std::string_view text = begin == line.npos ? std::string_view() : line.substr(begin);
  // Of lists, headings, source code, tables and quotes; of results of tests; of lists of changes.
  for (const std::string_view mark :
       {"* ", "- ", "# ", "## ", "### ", "// ", "| ", "> ", "\"", "ok ", "--", "Fixed", "Fixes", "Changelog"})
    if (text.starts_with(mark)) return true;
  return false;
}

namespace {

// "CUDA out of memory": without the library, an article and a quotation mark before it.
std::string_view text_before(std::string_view line, std::string_view words) {
  std::string_view before = line.substr(0, std::min(line.find(words), line.size()));
  for (const std::string_view word : {"CUDA ", "cuda ", "GPU ", "a ", "an ", "the ", "any "})
    if (before.ends_with(word)) before.remove_suffix(word.size());
  if (!before.empty() && std::string_view("\"'`").find(before.back()) != before.npos) before.remove_suffix(1);
  return before;
}

bool ends_in_a_count(std::string_view before) {
  if (before.ends_with("No ") || before.ends_with("no ")) return true;
  if (before.size() < 2 || before.back() != ' ') return false;
  before.remove_suffix(1);
  const std::size_t digits = before.size() - (before.find_last_not_of("0123456789") + 1);
  return digits > 0 && (digits == before.size() || before[before.size() - digits - 1] == ' ');
}

}  // namespace

bool is_counter(std::string_view line, std::string_view words) {
  auto rest = text_after(line, words);
  if (!rest) return false;
  // A column's head, or a metric's name.
  if (rest->starts_with("_total") || rest->starts_with("_count") || rest->starts_with(",")) return true;
  if (rest->starts_with("\"} ")) return true;  // a label's value
  for (const std::string_view word :
       {" errors", " error", " events", " event", " count", " kills", " (count)"})
    if (rest->starts_with(word)) {
      if (ends_in_a_count(text_before(line, words))) return true;
      rest->remove_prefix(word.size());
      break;
    }
  skip_spaces(*rest);
  for (const std::string_view mark : {"\":", ":", "="})
    if (rest->starts_with(mark)) {
      rest->remove_prefix(mark.size());
      skip_spaces(*rest);
      // A number and nothing else that could be a message's.
      const std::size_t end = std::min(rest->find_first_not_of("0123456789"), rest->size());
      return end > 0 && (end == rest->size() || std::string_view(",;)}] \t").find((*rest)[end]) != line.npos);
    }
  return false;
}

bool is_advice(std::string_view line, std::string_view words) {
  const std::string_view before = text_before(line, words);
  for (const std::string_view word :
       {"avoid ",    "prevent ", "case of ",  "you see ", "you get ",  "if ",    "If ",
        "against ",  "handle ",  "handling ", "without ", "retry on ", "when ",  "runs ",
        "Fix ",      "fix ",     "Fixed ",    "fixed ",   "Fixes ",    "fixes ", "hecking for ",
        "heck for ", "debug ",   "no ",       "No "})
    if (before.ends_with(word)) return true;
  // What is there for it, or may be done.
  const std::string_view rest = text_after(line, words).value_or("");
  for (const std::string_view word : {" handler", " callback", " gracefully", " can be ", " checks", "? ",
                                      " is mapped to ", " maps to ", " means "})
    if (rest.starts_with(word)) return true;
  return false;
}

bool is_diagnostic(std::string_view line) {
  for (const std::string_view kind : {": error: ", ": note: ", ": warning: "}) {
    const std::size_t end = line.find(kind);
    if (end == line.npos) continue;
    const std::size_t colon = line.substr(0, end).rfind(':');
    if (colon != line.npos && colon + 1 < end &&
        line.substr(colon + 1, end - colon - 1).find_first_not_of("0123456789") == line.npos)
      return true;
  }
  return false;
}

bool is_source_code(std::string_view line, std::string_view words) {
  const std::size_t at = line.find(words);
  if (at == line.npos) return false;
  const std::string_view rest = line.substr(at + words.size());
  if (!rest.empty() && (rest.front() == '_' || std::isalnum(static_cast<unsigned char>(rest.front())) != 0))
    return true;
  if (has(line, " warning: ") || has(line, "#define ") || is_diagnostic(line)) return true;
  std::string_view before = line.substr(0, at);
  while (before.ends_with(' ') || before.ends_with('(')) before.remove_suffix(1);
  for (const std::string_view word : {"case", "return", "==", "!=", "::"})
    if (before.ends_with(word)) return true;
  return false;
}

}  // namespace headroom::doctor
