#include "doctor/log/error_code_text.h"

#include <algorithm>
#include <cctype>
#include <string>

#include "base/text.h"
#include "doctor/log/message_text.h"

namespace headroom::doctor {
namespace {

bool is_of_name(char letter) {
  return letter == '_' || std::isalnum(static_cast<unsigned char>(letter)) != 0;
}

// Text after a code that is defined, listed or explained.
bool is_told_of(std::string_view rest) {
  constexpr std::string_view kBegins[] = {"=", ",", "|", "/", "or ", "and ", "if ", "when ", "is ", "means "};
  const std::string_view text = trim(rest);
  if (text.starts_with("when calling ")) return false;  // "Error CL_… when calling clEnqueueWriteBuffer"
  return starts_with_any(text, kBegins);
}

// Text before a code that a call ended with.
bool is_result(std::string_view before) {
  constexpr std::string_view kWords[] = {"fail",  "error",  "result", "return", "exception",
                                         "fatal", "status", "err=",   "err:",   "err "};
  constexpr std::string_view kOfManuals[] = {"returns ", "error codes", "spec states"};
  const std::string text = to_lower(before);
  if (text.ends_with(kOfManuals[0]) || has(text, kOfManuals[1]) || has(text, kOfManuals[2])) return false;
  if (text.ends_with("): ")) return true;  // "clEnqueueNDRangeKernel(): CL_OUT_OF_RESOURCES"
  return has_any(text, kWords);
}

}  // namespace

bool tells_error_code(std::string_view line, std::string_view name) {
  const std::size_t at = line.find(name);
  if (at == line.npos) return false;
  const std::string_view before = line.substr(0, at), rest = line.substr(at + name.size());
  if (!before.empty() && is_of_name(before.back())) return false;
  if (!rest.empty() && is_of_name(rest.front())) return false;
  const std::string_view lead = trim(before);
  if (lead.ends_with(',') || lead.ends_with('|') || lead.ends_with(" or") || lead.ends_with(" and"))
    return false;
  return is_result(before) && !is_told_of(rest);
}

}  // namespace headroom::doctor
