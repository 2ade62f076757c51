#include "doctor/log/log_prose.h"

#include <algorithm>
#include <cctype>
#include <optional>

#include "base/text.h"
#include "doctor/log/anchor_search.h"
#include "doctor/log/message_text.h"

namespace headroom::doctor {
namespace {

// `"error": "…"`: a key of JSON, not a quotation.
bool is_json_key(std::string_view text) {
  const std::size_t end = text.find('"', 1);
  return text.starts_with('"') && end != text.npos && trim(text.substr(end + 1)).starts_with(':');
}

// The text before the words, without the library's name, an article and a quotation mark: "a CUDA out of
// memory".
std::string_view text_before(std::string_view line, std::string_view words) {
  std::string_view before = line.substr(0, std::min(line.find(words), line.size()));
  for (const std::string_view word : {"CUDA ", "cuda ", "GPU ", "a ", "an ", "the ", "any "})
    if (before.ends_with(word) &&
        (before.size() == word.size() || !is_name_letter(before[before.size() - word.size() - 1])))
      before.remove_suffix(word.size());  // not of "ran "
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

// "time,requests,CUDA out of memory,timeouts": names of columns, all with a space between or all without.
bool is_column(std::string_view before, std::string_view rest) {
  if (!rest.starts_with(',')) return false;
  const bool is_close = rest.size() == 1 || rest[1] != ' ';
  if (is_close) return before.empty() || before.ends_with(',');
  return before.ends_with(", ") && rest.find(", ", 1) != rest.npos;
}

// "3", "0 of 12", but not a size: "2 GiB".
bool is_bare_number(std::string_view text) {
  const std::size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
  if (end == 0) return false;
  if (end == text.size()) return true;
  return std::string_view(",;)}] \t").find(text[end]) != text.npos &&
         !starts_with_any(trim(text.substr(end)), "KiB|MiB|GiB|kB|KB|MB|GB|bytes");
}

// A line of git's log: "3f2a91c Handle CUDA out of memory in validation".
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

// pytest's name of a test: "tests/test_oom.py::test_parse["CUDA out of memory"] PASSED". A failure stands
// behind " - ".
bool is_test(std::string_view before) {
  const auto name = text_after(before, ".py::");
  return name && !has(*name, " - ");
}

struct Mention {
  std::string_view line, words;
  std::string_view before, behind;  // of the line
  std::string_view lead;            // as text_before()
};

// Whether a compiler reports a place in source code: "main.cpp:10:5: note: …", "new:58: error:
// 'std::bad_alloc' has not been declared". Programs name their own places, too, but without columns:
// "gpu_mat.cu:116: error: (-217: …".
bool is_diagnostic(std::string_view line, std::string_view words) {
  for (const std::string_view kind : {": error: ", ": note: ", ": warning: "}) {
    const std::size_t end = std::min(line.find(kind), line.size());
    const std::string_view place = line.substr(0, end);
    const std::string_view numbers = place.substr(place.find_last_not_of("0123456789:") + 1);  // ":10:5"
    if (!numbers.starts_with(':') || end == line.size()) continue;
    const std::string_view said = line.substr(end + kind.size());
    const bool is_of_code = kind != ": error: " || said.starts_with(std::string("'").append(words));
    if (is_of_code || std::ranges::count(numbers, ':') > 1) return true;
  }
  return false;
}

// The text behind the last of these marks; the whole text if there is none.
std::string_view after_last(std::string_view text, const auto& marks) {
  std::size_t begin = 0;
  for (const std::string_view mark : marks)
    if (const std::size_t at = text.rfind(mark); at != text.npos) begin = std::max(begin, at + mark.size());
  return text.substr(begin);
}

// Whether the clause before the words is hypothetical: "If you are running out of memory, …", "CUDA graphs
// can run out of memory". "could not" and "cannot" report what happened.
bool is_supposed(std::string_view before) {
  // Loggers separate their fields by " - " and "| ".
  constexpr std::string_view kSentence[] = {". ", "! ", "? ", "; ", ": ", "] ", " - ", "| "};
  constexpr std::string_view kClause[] = {", "};
  const std::string_view sentence = after_last(before, kSentence);
  const auto words = split(sentence, ' ');
  for (const std::string_view word : words)
    if (is_any(word, "if|If|unless|Unless|whether|Whether")) return true;
  constexpr std::size_t kNear = 5;  // words: "can run", "would soon be running"
  const auto clause = split(trim(after_last(sentence, kClause)), ' ');
  // "will decrease batch size on CUDA out of memory": a plan.
  if (clause.back() == "on" && is_one_of("will", clause)) return true;
  for (std::size_t i = clause.size() > kNear ? clause.size() - kNear : 0; i < clause.size(); ++i)
    if (is_any(clause[i], "may|might|can|could|would|should") &&
        (i + 1 == clause.size() || clause[i + 1] != "not"))
      return true;
  return false;
}

// A line of a diff, or of a shell's trace: "+    raise …", "+ grep …". "-2 …" is a number.
bool is_of_diff(std::string_view line) {
  return line.size() > 1 && (line.front() == '+' || line.front() == '-') &&
         std::isdigit(static_cast<unsigned char>(line[1])) == 0;
}

// Without the file's name and number that grep and git print: "src/a.py:12:    raise …". Programs that name
// their own places print one space behind them.
std::string_view without_place(std::string_view line) {
  const std::size_t colon = line.find(':');
  if (colon == line.npos) return line;
  const std::string_view path = line.substr(0, colon);
  const std::size_t dot = path.rfind('.');
  const std::size_t end = line.find_first_not_of("0123456789", colon + 1);
  if (dot == path.npos || path.find(' ') != path.npos || path.find_first_of("0123456789", dot) != path.npos)
    return line;
  if (end == line.npos || end == colon + 1 || line[end] != ':') return line;
  const std::string_view rest = line.substr(end + 1);
  const bool is_spaced = rest.size() > 1 && rest[0] == ' ' && rest[1] != ' ';
  return is_spaced ? line : rest;
}

// Without the "2026-11-21 10:30:00 " of a build server.
std::string_view without_time(std::string_view line) {
  std::string_view text = trim(line);
  constexpr int kMostWords = 2;  // a date and a time
  for (int i = 0; i < kMostWords; ++i) {
    const std::size_t end = text.find(' ');
    if (end == text.npos || text.substr(0, end).find_first_not_of("0123456789:.-TZ+") != text.npos) break;
    text = trim(text.substr(end));
  }
  return text;
}

// "raise RuntimeError(…", "throw std::bad_alloc": a line of a traceback, which prints the error itself later.
// `RuntimeError('CUDA out of memory')` alone is Python's way to print one.
bool is_raised(std::string_view before) {
  for (const std::string_view keyword : {"raise ", "throw "}) {
    const std::size_t at = before.rfind(keyword);
    if (at == before.npos || (at > 0 && is_name_letter(before[at - 1]))) continue;
    std::string_view rest = before.substr(at + keyword.size());
    if (rest.starts_with("new ")) rest.remove_prefix(4);
    const auto is_of_name = [](char c) { return is_name_letter(c) || c == '.' || c == ':'; };
    const auto end = std::ranges::find_if_not(rest, is_of_name);
    if (end == rest.end()) return true;
    const auto opened = std::count(end, rest.end(), '(') + std::count(end, rest.end(), '{');
    const auto closed = std::count(end, rest.end(), ')') + std::count(end, rest.end(), '}');
    if (end != rest.begin() && (*end == '(' || *end == '{') && opened > closed) return true;
  }
  return false;
}

// The text before the last quotation mark: `Prompt: ` of `Prompt: "explain `.
std::optional<std::string_view> before_quotation(std::string_view before) {
  const std::size_t open = before.find_last_of("\"'");
  return open == before.npos ? std::nullopt : std::optional(before.substr(0, open));
}

// An argument in source code: `warnings.warn("…`, `print(f"…`, `LOG(ERROR) << "…`, `match="…`.
bool is_argument(std::string_view lead) {
  if (lead.ends_with("(f")) lead.remove_suffix(1);
  constexpr std::string_view kCalls =
      "print(|printf(|.warn(|.warning(|.error(|.log(|.exception(|.critical(|.info(|.debug(|assertIn(|"
      "contains(|includes(|<< |match=";
  return ends_with_any(lead, kCalls);
}

// A phrase stands before those that it begins with. The first kNamedPhrases are other names if letters
// precede them.
constexpr std::size_t kNamedPhrases = 8;
const std::vector<std::string_view>& phrases() {
  static const std::vector<std::string_view> kPhrases = split(
      "CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation|hipErrorOutOfMemory|CUBLAS_STATUS_ALLOC_FAILED|"
      "CUDNN_STATUS_ALLOC_FAILED|CUSOLVER_STATUS_ALLOC_FAILED|CUSPARSE_STATUS_ALLOC_FAILED|"
      "CUFFT_ALLOC_FAILED|OutOfMemoryError|OutOfMemory|MemoryError|std::bad_alloc|out of memory|"
      "Out of memory|OOM when allocating|Cannot allocate memory|cannot allocate memory|"
      "annot allocate vector of size|model requires more system memory|memory layout cannot be allocated|"
      "llama runner process|VK_ERROR_OUT_OF_DEVICE_MEMORY|VK_ERROR_OUT_OF_HOST_MEMORY|"
      "ERROR_OUT_OF_DEVICE_MEMORY|ERROR_OUT_OF_HOST_MEMORY|CL_MEM_OBJECT_ALLOCATION_FAILURE|"
      "CL_OUT_OF_RESOURCES|CL_OUT_OF_HOST_MEMORY|Not enough memory|fail to allocate memory|OOMKilled|"
      "out of shared memory|No space left on device",
      '|');
  return kPhrases;
}

struct FoundPhrase {
  std::size_t at = 0, number = 0;  // where it begins; in phrases()
};

// One pass over the line instead of two dozen searches.
std::optional<FoundPhrase> first_phrase(std::string_view line) {
  static const AnchorSearch kSearch(phrases());
  std::optional<FoundPhrase> first;
  kSearch.visit(line, 0, [&](std::size_t at, std::size_t number) {
    if (first && at > first->at) return false;
    if (!first || number < first->number) first = FoundPhrase{at, number};
    return true;
  });
  return first;
}

// Removes the first of these words that the text begins with. False if there is none.
bool skip_any(std::string_view& text, std::string_view words) {
  for (const std::string_view word : split(words, '|'))
    if (text.starts_with(word)) {
      text.remove_prefix(word.size());
      return true;
    }
  return false;
}

// A counter, a column, or a question with its answer: "… out of memory errors so far: 0", "…_total 3", "0 x
// CUDA out of memory", "CUDA out of memory? no".
bool is_counter(const Mention& mention) {
  const std::string_view before = mention.lead;
  std::string_view rest = mention.behind;
  if (rest.starts_with("_total") || rest.starts_with("_count") || is_column(before, rest)) return true;
  // A label's value. The gauge of kube-state-metrics for the actual reason has the value 1.
  if (rest.starts_with("\"} ")) return !(has(before, "_reason{") && rest.starts_with("\"} 1"));
  if (ends_with_any(std::string(" ").append(before), " 0 x | 0x | 0 × | 0× ")) return true;
  if (skip_any(rest, " errors| error| events| event| count| kills| (count)") && ends_in_a_count(before))
    return true;
  skip_any(rest, " so far| seen| in total| occurred");
  rest = trim(rest);
  // "CUDA error: out of memory: 2" ends in the error's number.
  if (ends_with_any(before, "rror: |ailed: |ailure: ") || !skip_any(rest, "\":|':|:|=|?")) return false;
  const std::string_view value = trim(rest);
  return is_bare_number(value) || is_any(value, "no|No|none|None|false|False|never");
}

// Source code, which compilers quote in logs, or part of a longer name.
bool is_source_code(const Mention& mention) {
  const std::string_view line = mention.line, rest = mention.behind;
  std::string_view before = mention.before;
  if (!rest.empty() && is_name_letter(rest.front())) return true;
  if (has(line, "#define ") || is_diagnostic(line, mention.words)) return true;
  const auto lead = before_quotation(before);
  const auto caught = text_after(before, "catch (");
  if (caught && !has(*caught, ")")) return true;
  if (is_raised(before) || (lead && is_argument(*lead))) return true;
  if (ends_with_any(mention.lead, "  # |  // ")) return true;
  if (rest.starts_with("\" in str(") || rest.starts_with("' in str(")) return true;
  while (before.ends_with(' ') || before.ends_with('(')) before.remove_suffix(1);
  return ends_with_any(before, "case|return|==|!=|::");
}

// The result of a test that passed: "✓ handles …", "XFAIL … - …".
bool is_test_result(const Mention& mention) {
  // A failure on the way is not a result of a passed test.
  constexpr std::string_view kFailures = "rror|ailed|ailure|xception|FAIL|✗|✘";
  for (const std::string_view mark : {"✓ ", "✔ ", "√ ", "[PASS] "})
    if (const auto behind = text_after(mention.before, mark)) return !has_any(*behind, kFailures);
  const std::string_view text = without_time(mention.line);
  // pytest's summary. A program's own "SKIPPED batch 3: …" reports a failure.
  const bool is_passed = starts_with_any(text, "PASS |PASS: |PASSED |ok: ") && !text.starts_with("ok: [") &&
                         !has_any(mention.before, kFailures);
  return is_passed || starts_with_any(text, "XFAIL |XPASS |SKIPPED [") ||
         ends_with_any(text, " ... ok| ... expected failure");
}

// A name or a text in quotes, by the words around it: `rule "…" loaded`, `Prompt: "explain …`. A program
// reports its own errors behind "error: " or "msg=".
bool is_quotation(const Mention& mention) {
  const auto lead = before_quotation(mention.before);
  if (!lead) return false;
  constexpr std::string_view kNouns =
      "rule |pattern |filter |keyword |regex |phrase |named |called |titled |earching for |ooking for |"
      "atching for |ownloading |grep |test |rompt: |rompt=|rompt\": |rompt\":|uestion: ";
  constexpr std::string_view kStates =
      " loaded| registered| enabled| disabled| added| created| resolved| inactive";
  return ends_with_any(*lead, kNouns) || (mention.behind.starts_with(mention.line[lead->size()]) &&
                                          starts_with_any(mention.behind.substr(1), kStates));
}

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
  constexpr std::string_view kNames =
      "policy|policies|pattern|keyword|filter|rule|retry_on|retry-on|retriable|retryable|triggers|ignore";
  return has_any(key_at_end(before.substr(0, open)), kNames);
}

// `on_error: "…"`, `message_on_oom="…"`
bool is_behind_key(std::string_view before) {
  const std::string_view text = trim(before);
  const bool is_value =
      text.ends_with(':') || text.ends_with('=') || text.ends_with('"') || text.ends_with('\'');
  constexpr std::string_view kEvents =
      "on_oom|on_error|on_fail|on_exception|on_crash|on-oom|on_out_of_memory|on-error|retry_on|retry-on";
  const std::string key = key_at_end(before);
  return is_value && (has_any(key, kEvents) ||
                      ends_with_any(key, "_pattern|_patterns|_regex|_keyword|_keywords|_template"));
}

// Within the brackets of `config: {…, message: "…"}` or of argparse's `Namespace(…, message="…")`.
bool is_in_dump(std::string_view before) {
  const auto is_open = [](std::string_view inside, char begin, char end) {
    return std::ranges::count(inside, end) <= std::ranges::count(inside, begin);
  };
  for (const auto dump : split("onfig: {|onfig={|onfig = {|onfiguration: {|ettings: {|ettings={", '|'))
    if (const auto inside = text_after(before, dump)) return is_open(*inside, '{', '}');
  const auto arguments = text_after(before, " Namespace(");
  return arguments && is_open(*arguments, '(', ')');
}

// Configuration that a program prints: `retry policy: [CUDA out of memory, …]`, `{message_on_oom: "…"}`.
bool is_configuration(const Mention& mention) {
  std::string_view before = mention.before;
  if (is_in_list_of_words(before, mention.behind)) return true;
  // The address of a page: `"GET /q/CUDA out of memory HTTP/1.1" 404 12`.
  if (has_any(before, "\"GET /|\"POST /|\"HEAD /|\"PUT /") && has(mention.behind, " HTTP/")) return true;
  for (const std::string_view library : {"CUDA ", "cuda ", "GPU "})
    if (before.ends_with(library)) before.remove_suffix(library.size());
  return is_behind_key(before) || is_in_dump(before);
}

// An item of a list, a comment, a row of a table, a line of a diff, or an entry of a changelog.
bool is_prose(std::string_view line) {
  if (is_of_diff(line)) return true;
  const std::string_view text = trim(without_place(line));
  if (has(text, "| UNAVAILABLE: ")) return false;  // Triton's table of models, often the only line about it
  // Lists, headings, source code, prompts, results of tests, changelogs and mails begin like this.
  constexpr std::string_view kMarks =
      "* |- |# |## |### |// |f\"|f'|>>> |ok |--|Fixed|Fixes|Changelog|Subject: |Title: ";
  // Python prints a bar before groups of exceptions, and some loggers before each field.
  const bool is_row = text.starts_with("| ") && text.find(" |", 1) != text.npos &&
                      !has_any(text, " ERROR | CRITICAL | FATAL | WARNING ");
  return is_row || starts_with_any(text, kMarks) || (text.starts_with('"') && !is_json_key(text));
}

// A condition, advice, a guess or a note of a change: "to avoid …", "if you see …", "may cause …", "Fix … in
// validation". Or a failure that was caused on purpose or is over: "Simulating …", "Recovered from …".
bool is_advice(std::string_view line, std::string_view words) {
  constexpr std::string_view kBefore =
      "avoid |prevent |case of |you see |you get |against |handle |Handle |handling |Catch |catch |without |"
      "retry on |when |runs |Fix |fix |Fixed |fixed |Fixes |fixes |debug |heck for |hecking for |"
      "ooking for |no |No |why |Why |you encounter |to raise |to cause |Subject: |I ran |"
      "imulating |imulated |imulate |njecting |njected |ecovered from ";
  const std::string_view before = text_before(line, words);
  if (ends_with_any(before, kBefore) || is_supposed(before)) return true;
  // A node may be named so: "[fault_injection_node-1] RuntimeError: …".
  for (const std::string_view word : {"ault injection", "ault-injection", "ault_injection"})
    if (const auto behind = text_after(before, word);
        behind && (behind->empty() || !is_name_letter(behind->front())))
      return true;
  // What handles it, or what may be done.
  constexpr std::string_view kBehind =
      " handler| callback| gracefully| can be | checks|? | maps to | is mapped to | means | does not |"
      " may occur| may happen| can occur| could occur| might occur| is caught| is handled| is reported as|"
      " is enabled| is disabled| was not raised| did not occur| handled| was handled| recovered|"
      " was recovered";
  return starts_with_any(text_after(line, words).value_or(""), kBehind);
}

}  // namespace

bool is_only_spoken_of(std::string_view line, bool tells_amounts) {
  const auto found = first_phrase(line);
  if (!found) return false;
  const std::string_view words = phrases()[found->number], before = line.substr(0, found->at);
  const Mention mention{line, words, before, line.substr(found->at + words.size()), text_before(line, words)};
  const bool is_longer_name =
      found->number < kNamedPhrases && !before.empty() && is_name_letter(before.back());
  const bool is_item =
      line.starts_with("- ") && line.size() > 2 && line[2] != ' ';  // no code is set in by one space
  const bool is_told = tells_amounts && (is_item || !is_of_diff(line));
  return is_longer_name || (!is_told && (is_prose(line) || is_advice(line, words))) || is_counter(mention) ||
         is_source_code(mention) || is_commit(before) || is_test(before) || is_test_result(mention) ||
         is_quotation(mention) || is_configuration(mention);
}

}  // namespace headroom::doctor
