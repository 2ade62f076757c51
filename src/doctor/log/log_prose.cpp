#include "doctor/log/log_prose.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include "base/text.h"
#include "doctor/log/message_text.h"

namespace headroom::doctor {
namespace {

bool is_name_letter(char letter) {
  return letter == '_' || std::isalnum(static_cast<unsigned char>(letter)) != 0;
}

bool ends_with_any(std::string_view text, const auto& words) {
  return std::any_of(std::begin(words), std::end(words),
                     [text](std::string_view word) { return text.ends_with(word); });
}

bool starts_with_any(std::string_view text, const auto& words) {
  return std::any_of(std::begin(words), std::end(words),
                     [text](std::string_view word) { return text.starts_with(word); });
}

// `"error": "…"`: a line of JSON, and no quotation.
bool is_json_key(std::string_view text) {
  const std::size_t end = text.find('"', 1);
  return text.starts_with('"') && end != text.npos && trim(text.substr(end + 1)).starts_with(':');
}

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

// "time,requests,CUDA out of memory,timeouts": the columns' heads stand close, or all with a space between.
bool is_column(std::string_view before, std::string_view rest) {
  if (!rest.starts_with(',')) return false;
  const bool is_close = rest.size() == 1 || rest[1] != ' ';
  if (is_close) return before.empty() || before.ends_with(',');
  return before.ends_with(", ") && rest.find(", ", 1) != rest.npos;
}

// "3f2a91c Handle CUDA out of memory in validation": git's one-line log. An error behind a number tells
// itself what it is.
bool is_commit(std::string_view before) {
  const std::string_view text = trim(before);
  const std::string_view name = text.substr(0, text.find(' '));
  constexpr std::size_t kShortest = 7, kLongestAbbreviation = 12, kWhole = 40;
  const bool is_abbreviated = name.size() >= kShortest && name.size() <= kLongestAbbreviation;
  if (!(is_abbreviated || name.size() == kWhole) || name.size() == text.size()) return false;
  if (name.find_first_not_of("0123456789abcdef") != name.npos) return false;
  const bool is_number = name.find_first_not_of("0123456789") == name.npos;
  if (is_number && name.size() != kShortest) return false;  // a time, or a process
  return !has(text, "rror: ") && !has(text, "rror]") && !has(text, "ERROR") && !has(text, "xception");
}

// "tests/test_oom.py::test_parse["CUDA out of memory"] PASSED": pytest's name of a test. Behind " - " stands
// what it failed with.
bool is_test(std::string_view before) {
  const auto name = text_after(before, ".py::");
  return name && !has(*name, " - ");
}

// Whether a compiler says this of a place in source code: "main.cpp:10:5: note: …", "new:58: error:
// 'std::bad_alloc' has not been declared". Programs tell their own places, too, but no columns:
// "gpu_mat.cu:116: error: (-217:Gpu API call) out of memory".
bool is_diagnostic(std::string_view line, std::string_view words) {
  // Of "…:42" the text before the number; nothing if no number ends it.
  const auto without_number = [](std::string_view text) -> std::optional<std::string_view> {
    const std::size_t colon = text.rfind(':');
    if (colon == text.npos || colon + 1 == text.size() ||
        text.find_first_not_of("0123456789", colon + 1) != text.npos)
      return std::nullopt;
    return text.substr(0, colon);
  };
  for (const std::string_view kind : {": error: ", ": note: ", ": warning: "}) {
    const std::size_t end = line.find(kind);
    const auto place = end == line.npos ? std::nullopt : without_number(line.substr(0, end));
    if (!place) continue;
    if (without_number(*place) || kind != ": error: ") return true;
    const std::string_view said = line.substr(end + kind.size());
    if (!said.empty() && said.front() == '\'' && said.substr(1).starts_with(words)) return true;
  }
  return false;
}

struct Phrase {
  std::string_view words;
  bool is_whole_name = false;  // with letters before it, it is another name
};

// The longer of two that begin at one place first.
constexpr std::array<Phrase, 24> kPhrases{{
    {"CUDA_ERROR_OUT_OF_MEMORY", true},
    {"cudaErrorMemoryAllocation", true},
    {"hipErrorOutOfMemory", true},
    {"CUBLAS_STATUS_ALLOC_FAILED", true},
    {"CUDNN_STATUS_ALLOC_FAILED", true},
    {"CUSOLVER_STATUS_ALLOC_FAILED", true},
    {"CUSPARSE_STATUS_ALLOC_FAILED", true},
    {"CUFFT_ALLOC_FAILED", true},
    {"OutOfMemoryError"},
    {"OutOfMemory"},
    {"MemoryError"},
    {"std::bad_alloc"},
    {"out of memory"},
    {"Out of memory"},
    {"OOM when allocating"},
    {"Cannot allocate memory"},
    {"cannot allocate memory"},
    {"annot allocate vector of size"},
    {"model requires more system memory"},
    {"memory layout cannot be allocated"},
    {"llama runner process"},
    {"OOMKilled"},
    {"out of shared memory"},
    {"No space left on device"},
}};

}  // namespace

bool is_prose(std::string_view line) {
  const std::size_t begin = line.find_first_not_of(" \t");
  const std::string_view text = begin == line.npos ? std::string_view() : line.substr(begin);
  // Of lists, headings, source code, tables and quotes; of results of tests; of lists of changes.
  constexpr std::string_view kMarks[] = {"* ", "- ",  "# ", "## ",   "### ",  "// ",      "| ",
                                         "> ", "ok ", "--", "Fixed", "Fixes", "Changelog"};
  return starts_with_any(text, kMarks) || (text.starts_with('"') && !is_json_key(text));
}

bool is_counter(std::string_view line, std::string_view words) {
  auto rest = text_after(line, words);
  if (!rest) return false;
  const std::string_view before = text_before(line, words);
  if (rest->starts_with("_total") || rest->starts_with("_count") || is_column(before, *rest)) return true;
  if (rest->starts_with("\"} ")) return true;  // a label's value
  for (const std::string_view word :
       {" errors", " error", " events", " event", " count", " kills", " (count)"})
    if (rest->starts_with(word)) {
      if (ends_in_a_count(before)) return true;
      rest->remove_prefix(word.size());
      break;
    }
  rest = rest->substr(std::min(rest->find_first_not_of(' '), rest->size()));
  // "CUDA error: out of memory: 2" tells the error's number.
  constexpr std::string_view kFailures[] = {"rror: ", "ailed: ", "ailure: "};
  if (ends_with_any(before, kFailures)) return false;
  for (const std::string_view mark : {"\":", ":", "="})
    if (rest->starts_with(mark)) {
      rest->remove_prefix(mark.size());
      rest = rest->substr(std::min(rest->find_first_not_of(' '), rest->size()));
      // A number and nothing else that could be a message's.
      const std::size_t end = std::min(rest->find_first_not_of("0123456789"), rest->size());
      return end > 0 && (end == rest->size() || std::string_view(",;)}] \t").find((*rest)[end]) != line.npos);
    }
  return false;
}

bool is_advice(std::string_view line, std::string_view words) {
  constexpr std::string_view kBefore[] = {"avoid ",
                                          "prevent ",
                                          "case of ",
                                          "you see ",
                                          "you get ",
                                          "you encounter ",
                                          "if ",
                                          "If ",
                                          "against ",
                                          "handle ",
                                          "Handle ",
                                          "handling ",
                                          "Catch ",
                                          "catch ",
                                          "without ",
                                          "retry on ",
                                          "when ",
                                          "runs ",
                                          "Fix ",
                                          "fix ",
                                          "Fixed ",
                                          "fixed ",
                                          "Fixes ",
                                          "fixes ",
                                          "hecking for ",
                                          "heck for ",
                                          "ooking for ",
                                          "debug ",
                                          "no ",
                                          "No ",
                                          "may cause ",
                                          "might cause ",
                                          "can cause ",
                                          "could cause ",
                                          "may result in ",
                                          "might result in ",
                                          "can result in ",
                                          "could result in ",
                                          "may lead to ",
                                          "might lead to ",
                                          "can lead to ",
                                          "could lead to ",
                                          "may raise ",
                                          "likely to raise ",
                                          "likely to cause ",
                                          "may be due to ",
                                          "might be due to ",
                                          "could be due to ",
                                          "can be due to ",
                                          "may be caused by ",
                                          "might be caused by "};
  if (ends_with_any(text_before(line, words), kBefore)) return true;
  // What is there for it, or may be done.
  constexpr std::string_view kBehind[] = {" handler",   " callback",    " gracefully",    " can be ",
                                          " checks",    "? ",           " is mapped to ", " maps to ",
                                          " means ",    " does not ",   " may occur",     " may happen",
                                          " can occur", " could occur", " might occur"};
  return starts_with_any(text_after(line, words).value_or(""), kBehind);
}

bool is_source_code(std::string_view line, std::string_view words) {
  const std::size_t at = line.find(words);
  if (at == line.npos) return false;
  const std::string_view rest = line.substr(at + words.size());
  if (!rest.empty() && is_name_letter(rest.front())) return true;
  if (has(line, "#define ") || is_diagnostic(line, words)) return true;
  std::string_view before = line.substr(0, at);
  while (before.ends_with(' ') || before.ends_with('(')) before.remove_suffix(1);
  constexpr std::string_view kCode[] = {"case", "return", "==", "!=", "::"};
  return ends_with_any(before, kCode);
}

bool is_only_spoken_of(std::string_view line) {
  std::size_t first = line.npos;
  Phrase phrase;
  for (const Phrase& each : kPhrases)
    if (const std::size_t at = line.find(each.words); at < first) {
      first = at;
      phrase = each;
    }
  if (first == line.npos) return false;
  const std::string_view before = line.substr(0, first);
  const bool is_longer_name = phrase.is_whole_name && first > 0 && is_name_letter(before.back());
  return is_longer_name || is_prose(line) || is_counter(line, phrase.words) ||
         is_advice(line, phrase.words) || is_source_code(line, phrase.words) || is_commit(before) ||
         is_test(before);
}

}  // namespace headroom::doctor
