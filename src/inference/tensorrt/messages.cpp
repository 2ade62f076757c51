// TensorRT 8 writes "6: [libLoader.h::DynamicLibrary::50] Error Code 6: Internal Error (TEXT)", TensorRT 10
// "IBuilder::buildSerializedNetwork: Error Code 6: API Usage Error (TEXT)" with " In FUNCTION at FILE:LINE"
// after the text, sometimes on a line of its own.
#include "inference/tensorrt/messages.h"

#include <fmt/format.h>

#include <cctype>

#include "base/text.h"

namespace headroom::tensorrt {
namespace {

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

std::string joined(std::string_view text) {
  std::string line;
  for (const std::string_view word : split_words(text)) line += (line.empty() ? "" : " ") + std::string(word);
  return line;
}

// The end of "FUNCTION at FILE:LINE", which begins at `start`; `start` if something else is there.
std::size_t end_of_place(std::string_view text, std::size_t start) {
  const std::size_t space = text.find(' ', start);
  if (space == std::string_view::npos || !starts_with(text.substr(space), " at ")) return start;
  const std::size_t file = space + std::string_view(" at ").size();
  const std::size_t colon = text.substr(0, text.find(' ', file)).find(':', file);
  if (colon == std::string_view::npos || colon + 1 >= text.size() || !is_digit(text[colon + 1])) return start;
  std::size_t end = colon + 1;
  while (end < text.size() && is_digit(text[end])) ++end;
  return end;
}

std::string without_places(std::string text) {
  constexpr std::string_view kIn = " In ";
  for (std::size_t at = 0; (at = text.find(kIn, at)) != std::string::npos;) {
    const std::size_t begin = at + kIn.size(), end = end_of_place(text, begin);
    if (end == begin)
      at = begin;
    else
      text.erase(at, end - at);
  }
  return text;
}

// Without blanks and full stops at the end.
std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.back() == ' ' || text.back() == '.')) text.remove_suffix(1);
  return trim(text);
}

}  // namespace

std::string cause_of(std::string_view message) {
  std::string line = without_places(joined(message));
  constexpr std::string_view kCode = "Error Code ";
  const std::size_t at = line.find(kCode);
  if (at == std::string::npos) return line;
  const std::size_t number = at + kCode.size();
  std::size_t end = number;
  while (end < line.size() && is_digit(line[end])) ++end;
  const std::size_t open = line.find('(', end), close = line.rfind(')');
  if (end == number || open == std::string::npos || close == std::string::npos || close < open) return line;
  const std::string_view text = trimmed(std::string_view(line).substr(open + 1, close - open - 1));
  if (text.empty()) return line;
  return fmt::format("{} (error code {})", text, line.substr(number, end - number));
}

std::string cure_of(std::string_view cause, const std::filesystem::path& folder) {
  constexpr std::string_view kWords = "Unable to load library: ";
  const std::size_t at = cause.find(kWords);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = cause.substr(at + kWords.size());
  const std::string name(rest.substr(0, rest.find_first_of(": ;)")));
  std::error_code code;
  if (!std::filesystem::exists(folder / name, code)) {
    const bool is_builder_resource = name.find("nvinfer_builder_resource") != std::string::npos;
    return fmt::format("install the TensorRT package{}: {} is not in {}",
                       is_builder_resource ? " for this GPU" : " with this library", name, folder.string());
  }
  const bool has_another_reason = starts_with(rest.substr(name.size()), ":") &&
                                  rest.find("cannot open shared object file") == std::string_view::npos;
  if (has_another_reason) return {};  // the message says it
  return fmt::format("add {} to LD_LIBRARY_PATH: the dynamic loader does not search it for {}",
                     folder.string(), name);
}

}  // namespace headroom::tensorrt
