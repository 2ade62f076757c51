#include "doctor/log/line_pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/text.h"
#include "doctor/log/anchor_search.h"
#include "doctor/log/limit_cures.h"
#include "doctor/log/message_text.h"

namespace headroom::doctor {
namespace {

constexpr std::string_view kGap = "…", kSpaces = "  ", kDecimalDigits = "0123456789";
constexpr std::size_t kLongestText = 300;  // of a captured name, such as the path of a control group

struct Capture {
  std::string_view name, type;
  std::size_t length = 0;  // in the pattern, with its braces
};

// The capture that the pattern begins with. Braces around anything else are literal text.
std::optional<Capture> leading_capture(std::string_view pattern) {
  if (!pattern.starts_with('{')) return std::nullopt;
  const std::size_t end = pattern.find('}');
  if (end == pattern.npos) return std::nullopt;
  const std::string_view inside = pattern.substr(1, end - 1);
  const std::size_t colon = inside.find(':');
  const std::string_view name = inside.substr(0, colon);
  const auto is_of_name = [](char c) { return c == '_' || std::islower(static_cast<unsigned char>(c)) != 0; };
  if (!std::ranges::all_of(name, is_of_name)) return std::nullopt;
  if (colon == inside.npos) return name.empty() ? std::nullopt : std::optional(Capture{name, {}, end + 1});
  return Capture{name, inside.substr(colon + 1), end + 1};
}

// Up to the next capture, gap or end mark, or behind two spaces.
std::string_view leading_literal(std::string_view pattern) {
  for (std::size_t end = 0; end < pattern.size(); ++end) {
    const char letter = pattern[end];
    if (letter == '$' || (letter == kGap[0] && pattern.substr(end).starts_with(kGap)) ||
        (letter == '{' && leading_capture(pattern.substr(end))))
      return pattern.substr(0, end);
    if (letter == ' ' && end > 0 && pattern[end - 1] == ' ') return pattern.substr(0, end + 1);
  }
  return pattern;
}

class Matcher {
 public:
  bool match(std::string_view pattern, std::string_view text) {
    if (pattern.starts_with('^')) return match_here(pattern.substr(1), trim(text));
    return match_behind_gap(pattern, text);
  }
  const LogMessage& found() const { return found_; }

 private:
  bool match_behind_gap(std::string_view pattern, std::string_view text) {
    const std::string_view literal = leading_literal(pattern);
    for (std::size_t at = 0; (at = text.find(literal, at)) != text.npos; ++at) {
      const std::size_t figures = found_.figures.size();
      if (match_here(pattern, text.substr(at))) return true;
      found_.figures.resize(figures);
      if (literal.empty() && at == text.size()) break;
    }
    return false;
  }
  bool match_here(std::string_view pattern, std::string_view text) {
    if (pattern.empty()) return true;
    if (pattern == "$") return trim(text).empty();
    if (pattern.starts_with(kGap)) return match_behind_gap(pattern.substr(kGap.size()), text);
    if (const auto capture = leading_capture(pattern))
      return match_capture(*capture, pattern.substr(capture->length), text);
    const std::string_view literal = leading_literal(pattern);
    if (!text.starts_with(literal)) return false;
    text.remove_prefix(literal.size());
    if (literal.ends_with(kSpaces)) text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    return match_here(pattern.substr(literal.size()), text);
  }
  bool match_capture(const Capture& capture, std::string_view rest, std::string_view text) {
    if (capture.type.starts_with("int")) return match_integer(capture, rest, text);
    if (capture.type == "word" || capture.type == "decimal" || capture.type == "service" ||
        (capture.type != "size" && !capture.name.ends_with("_bytes")))
      return match_text(capture, rest, text);
    return match_size(capture, rest, text);
  }

  bool match_integer(const Capture& capture, std::string_view rest, std::string_view text) {
    const auto number = integer_after(text, "");
    std::string_view condition = capture.type.substr(std::string_view("int").size());
    if (!number || !holds(condition, *number)) return false;
    found_.add(capture.name, capture.name.empty() ? std::nullopt : number);
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    if (text.starts_with('-')) text.remove_prefix(1);
    return match_here(rest, behind_number(text, kDecimalDigits));
  }
  // ">0", "=2", "<-1", or nothing.
  static bool holds(std::string_view condition, std::int64_t number) {
    if (condition.empty()) return true;
    const auto limit = parse_number<std::int64_t>(condition.substr(1));
    if (!limit) return false;
    if (condition.front() == '>') return number > *limit;
    return condition.front() == '<' ? number < *limit : number == *limit;
  }

  bool match_text(const Capture& capture, std::string_view rest, std::string_view text) {
    if (capture.type == "word") {
      const std::size_t end = std::min(text.find_first_of(" \t"), text.size());
      std::size_t word = end;
      while (word > 0 && std::string_view(".,:;)]'\"").find(text[word - 1]) != std::string_view::npos) --word;
      return take_text(capture, text.substr(0, word)) &&
             (match_here(rest, text.substr(end)) || match_here(rest, text.substr(word)));
    }
    if (capture.type == "service") {
      const std::string_view unit = text.substr(0, text.find_first_of(": "));
      return ends_with_any(unit, ".service|.scope|.slice") && take_text(capture, without_service(unit)) &&
             match_here(rest, text.substr(unit.size()));
    }
    if (capture.type == "decimal") {
      std::size_t end = std::min(text.find_first_not_of("0123456789."), text.size());
      while (end > 0 && text[end - 1] == '.') --end;
      return take_text(capture, text.substr(0, end)) && match_here(rest, text.substr(end));
    }
    if (rest.empty() || rest == "$") return take_text(capture, text);
    const std::string_view literal = leading_literal(rest);
    for (std::size_t end = 0; (end = text.find(literal, end)) != text.npos; ++end) {
      const std::size_t figures = found_.figures.size();
      if (take_text(capture, text.substr(0, end)) && match_here(rest, text.substr(end))) return true;
      found_.figures.resize(figures);
    }
    return false;
  }
  bool take_text(const Capture& capture, std::string_view text) {
    const std::string_view value = trim(text);
    if (value.empty()) return false;
    if (!capture.name.empty()) found_.add(capture.name, value.substr(0, kLongestText));
    return true;
  }

  // A size that no machine has is kept as it is printed ("wrong_size"): it was computed wrong.
  bool match_size(const Capture& capture, std::string_view rest, std::string_view text) {
    if (text.starts_with('"')) text.remove_prefix(1);
    // The next line of a message may follow without a space: "58.00 MiBDevice limit".
    constexpr std::size_t kLongestSize = 24;
    const std::size_t unit = capture.type == "unit" ? text.find("iB") : text.npos;
    if (unit < kLongestSize && text.find_first_not_of("0123456789., ") + 1 == unit)
      return take_size(capture, text.substr(0, unit + 2)) && match_here(rest, text.substr(unit + 2));
    if (!take_size(capture, text)) return false;
    const std::string_view behind = behind_number(text);
    return match_here(rest, behind) || match_here(rest, behind_unit(behind));
  }
  bool take_size(const Capture& capture, std::string_view text) {
    const auto size =
        capture.type == "unit"       ? size_with_unit(text)
        : capture.type == "quantity" ? leading_quantity(text)
        : capture.type.ends_with("iB")
            ? leading_size(fmt::format("{} {}", text.substr(0, text.size() - behind_number(text).size()),
                                       capture.type))
            : leading_size(text);
    if (capture.name.empty()) return size.has_value();
    if (size) {
      found_.add(capture.name, size);
    } else {
      const auto overflow = capture.name == "requested_bytes" ? leading_overflow(text) : std::nullopt;
      if (!overflow) return false;
      found_.add("wrong_size", std::string_view(*overflow));
    }
    return true;
  }
  // Without "MiB", " kB", " bytes".
  static std::string_view behind_unit(std::string_view text) {
    const std::string_view unit = leading_letters(text);
    constexpr std::size_t kLongestUnit = 3;
    const bool is_unit = unit.starts_with("byte") || unit.size() == 1 ||
                         (unit.size() <= kLongestUnit && (unit.ends_with('B') || unit.ends_with('i')));
    return is_unit ? text.substr(static_cast<std::size_t>(unit.data() - text.data()) + unit.size()) : text;
  }
  static std::string_view behind_number(std::string_view text, std::string_view digits = "0123456789.,") {
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    if (text.starts_with("0x")) digits = "0123456789abcdefABCDEFx";
    return text.substr(std::min(text.find_first_not_of(digits), text.size()));
  }

  LogMessage found_;
};

// The letters that logs have most often, the most frequent last.
std::size_t frequency_of(char letter) {
  constexpr std::string_view kFrequent = "_-:/.ywgfpmubcdhl0naoirste 1";
  const std::size_t rank = kFrequent.find(letter);
  return rank == kFrequent.npos ? 1 : rank + 2;
}

// AnchorSearch looks at the fifth and the sixth letter of a word.
std::size_t frequency_of_anchor(std::string_view word) {
  constexpr std::size_t kLast = AnchorSearch::kShortest - 1;
  return frequency_of(word[kLast - 1]) * frequency_of(word[kLast]);
}

}  // namespace

bool match_pattern(std::string_view pattern, std::string_view line, LogMessage& message) {
  if (!pattern.starts_with('^') && !has(line, leading_literal(pattern))) return false;
  Matcher matcher;
  if (!matcher.match(pattern, line)) return false;
  message.add_absent(matcher.found());
  return true;
}

bool is_rarer_anchor(std::string_view anchor, std::string_view than) {
  if (anchor.empty() || than.empty()) return false;
  return frequency_of_anchor(anchor) < frequency_of_anchor(than);
}

std::string_view anchor_of_pattern(std::string_view pattern) {
  if (pattern.starts_with('^')) pattern.remove_prefix(1);
  std::string_view best;
  while (!pattern.empty()) {
    const std::string_view literal = leading_literal(pattern);
    for (std::size_t at = 0; at + AnchorSearch::kShortest <= literal.size(); ++at)
      if (best.empty() || is_rarer_anchor(literal.substr(at), best)) best = literal.substr(at);
    pattern.remove_prefix(literal.size());
    if (const auto capture = leading_capture(pattern))
      pattern.remove_prefix(capture->length);
    else
      pattern.remove_prefix(std::min(pattern.starts_with(kGap) ? kGap.size() : 1, pattern.size()));
  }
  return best;
}

}  // namespace headroom::doctor
