// Recognizes configuration that a program prints, and requests to a web server.
#include <algorithm>
#include <cctype>
#include <string>

#include "base/text.h"
#include "doctor/log/log_prose.h"
#include "doctor/log/message_text.h"

namespace headroom::doctor {
namespace {

// "message_on_oom" in `{on_oom: "restart", message_on_oom: `, without quotes.
std::string key_at_end(std::string_view before) {
  while (!before.empty() && std::string_view(" :=\"'").find(before.back()) != before.npos)
    before.remove_suffix(1);
  std::size_t begin = before.size();
  const auto is_of_key = [](char c) {
    return c == '_' || c == '-' || std::isalnum(static_cast<unsigned char>(c)) != 0;
  };
  while (begin > 0 && is_of_key(before[begin - 1])) --begin;
  return to_lower(before.substr(begin));
}

// One of several words in brackets: "retry policy: [CUDA out of memory, NCCL timeout]". "errors: […]" are
// real errors.
bool is_in_list_of_words(std::string_view before, std::string_view rest) {
  const std::size_t open = before.rfind('[');
  if (open == before.npos || before.find(']', open) != before.npos) return false;
  const std::string_view list = rest.substr(0, rest.find(']'));
  if (before.find(',', open) == before.npos && list.find(',') == list.npos) return false;
  constexpr std::string_view kNames[] = {"policy",    "policies",  "pattern",  "keyword",
                                         "filter",    "rule",      "retry_on", "retry-on",
                                         "retriable", "retryable", "triggers", "ignore"};
  return has_any(key_at_end(before.substr(0, open)), kNames);
}

// `on_error: "…"`, `message_on_oom="…"`
bool is_behind_key(std::string_view before) {
  const std::string_view text = trim(before);
  const bool is_value =
      text.ends_with(':') || text.ends_with('=') || text.ends_with('"') || text.ends_with('\'');
  constexpr std::string_view kEvents[] = {"on_oom",   "on_error", "on_fail",          "on_exception",
                                          "on_crash", "on-oom",   "on_out_of_memory", "on-error",
                                          "retry_on", "retry-on"};
  constexpr std::string_view kKinds[] = {"_pattern", "_patterns", "_regex",
                                         "_keyword", "_keywords", "_template"};
  const std::string key = key_at_end(before);
  return is_value && (has_any(key, kEvents) || ends_with_any(key, kKinds));
}

// Within the brackets of `config: {…, message: "…"}` or of argparse's `Namespace(…, message="…")`.
bool is_in_dump(std::string_view before) {
  constexpr std::string_view kDumps[] = {"onfig: {",        "onfig={",    "onfig = {",
                                         "onfiguration: {", "ettings: {", "ettings={"};
  const auto is_open = [](std::string_view inside, char begin, char end) {
    return std::count(inside.begin(), inside.end(), end) <= std::count(inside.begin(), inside.end(), begin);
  };
  for (const std::string_view dump : kDumps)
    if (const auto inside = text_after(before, dump)) return is_open(*inside, '{', '}');
  const auto arguments = text_after(before, " Namespace(");
  return arguments && is_open(*arguments, '(', ')');
}

// `"GET /q/CUDA out of memory HTTP/1.1" 404 12`: the address of a page.
bool is_in_request(std::string_view before, std::string_view rest) {
  constexpr std::string_view kMethods[] = {"\"GET /", "\"POST /", "\"HEAD /", "\"PUT /"};
  return has_any(before, kMethods) && has(rest, " HTTP/");
}

}  // namespace

bool is_configuration(std::string_view line, std::string_view words) {
  const std::size_t at = line.find(words);
  if (at == line.npos) return false;
  std::string_view before = line.substr(0, at);
  const std::string_view rest = line.substr(at + words.size());
  if (is_in_list_of_words(before, rest) || is_in_request(before, rest)) return true;
  for (const std::string_view library : {"CUDA ", "cuda ", "GPU "})
    if (before.ends_with(library)) before.remove_suffix(library.size());
  return is_behind_key(before) || is_in_dump(before);
}

}  // namespace headroom::doctor
