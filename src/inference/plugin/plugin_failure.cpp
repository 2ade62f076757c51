#include "inference/plugin/plugin_failure.h"

#include <array>
#include <cctype>
#include <exception>
#include <new>
#include <optional>

#include "base/text.h"
#include "inference/plugin/plugin_calls.h"

namespace headroom::plugin {
namespace {

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

// The end of a "file.cc:123" token that begins with the slash at `start`, or nothing if it is not such a
// token.
std::optional<std::size_t> end_of_source_place(std::string_view text, std::size_t start) {
  constexpr std::array<std::string_view, 5> kEndings{".cc:", ".h:", ".cpp:", ".hpp:", ".cu:"};
  const std::size_t space = std::min(text.find(' ', start), text.size());
  const std::string_view token = text.substr(start, space - start);
  for (const std::string_view ending : kEndings) {
    const std::size_t at = token.find(ending);
    if (at == std::string_view::npos) continue;
    std::size_t end = at + ending.size();
    if (end >= token.size() || !is_digit(token[end])) continue;
    while (end < token.size() && is_digit(token[end])) ++end;
    return start + end;
  }
  return std::nullopt;
}

// The end of the function signature that follows a source position: the matching closing parenthesis, plus
// an optional " const" and "[with T = …]". Returns `start` if there is no signature.
std::size_t end_of_signature(std::string_view text, std::size_t start) {
  const std::size_t open = text.find('(', start);
  // A signature has a "::" before the parenthesis. A parenthesis without it belongs to a sentence.
  if (open == std::string_view::npos || text.substr(start, open - start).find("::") == std::string_view::npos)
    return start;
  int depth = 0;
  std::size_t end = open;
  for (; end < text.size(); ++end) {
    if (text[end] == '(') ++depth;
    if (text[end] == ')' && --depth == 0) break;
  }
  if (end == text.size()) return start;
  ++end;
  const auto is_at = [&](std::string_view words) { return starts_with(text.substr(end), words); };
  if (is_at("::operator()")) return end_of_signature(text, end);
  if (is_at(" const")) end += 6;
  if (is_at(" [with ")) {
    const std::size_t close = text.find(']', end);
    if (close != std::string_view::npos) end = close + 1;
  }
  return end;
}

// Replaces each run of white space by one space, and trims the ends and a final full stop.
std::string on_one_line(std::string_view text) {
  std::string line;
  for (const char c : text) {
    const bool space = std::isspace(static_cast<unsigned char>(c)) != 0;
    if (!space)
      line += c;
    else if (!line.empty() && line.back() != ' ')
      line += ' ';
  }
  while (!line.empty() && (line.back() == ' ' || line.back() == '.')) line.pop_back();
  return line;
}

int report(hr_error& error, hr_error_kind kind, std::string_view message) {
  error.kind = kind;
  copy_text(error.message, message);
  return 1;
}

}  // namespace

std::size_t checked_index(std::string_view what, std::int32_t index, std::size_t count) {
  if (index < 0 || static_cast<std::size_t>(index) >= count)
    throw failed("invalid {} index {}; the model has {}", what, index, count);
  return static_cast<std::size_t>(index);
}

void check_input(const TensorSpec& spec, const hr_tensor& tensor) {
  TensorSpec given{spec.name, static_cast<ElementType>(tensor.element_type), {}, {}};
  if (tensor.rank > 0) given.dims.assign(tensor.dims, tensor.dims + tensor.rank);
  const auto agrees = [](std::int64_t wanted, std::int64_t dim) {
    return dim >= 0 && (wanted < 0 || wanted == dim);
  };
  if (given.type != spec.type ||
      !std::equal(spec.dims.begin(), spec.dims.end(), given.dims.begin(), given.dims.end(), agrees))
    throw failed("input {} needs {}, but got {}", spec.name, spec.describe(), given.describe());
  const std::size_t wanted = checked_bytes(spec.name, tensor, size_of(spec.type));
  if (tensor.bytes != wanted)
    throw failed("input {} needs {} bytes, but got {}", spec.name, wanted, tensor.bytes);
}

std::size_t checked_bytes(std::string_view input, const hr_tensor& tensor, std::size_t element_bytes) {
  std::size_t bytes = element_bytes;
  for (std::int32_t i = 0; i < tensor.rank; ++i)
    if (tensor.dims[i] < 0 || __builtin_mul_overflow(bytes, static_cast<std::size_t>(tensor.dims[i]), &bytes))
      throw failed("the dimensions of input {} are negative or too large", input);
  return bytes;
}

bool mentions_out_of_memory(std::string_view message) {
  constexpr std::string_view kWords[] = {
      "out of memory", "Out of memory", "OutOfMemory", "OUT_OF_MEMORY", "bad_alloc", "bad allocation",
      "Failed to allocate memory", "can't allocate memory", "Cannot allocate memory", "not enough memory",
      "cudaErrorMemoryAllocation", "CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED",
      // ONNX Runtime's arena.
      "is smaller than requested bytes",
      // Assertions of LibTorch's caching allocator on a Jetson.
      "NVML_SUCCESS == r INTERNAL ASSERT FAILED", "!block->expandable_segment_ INTERNAL ASSERT FAILED"};
  return std::any_of(std::begin(kWords), std::end(kWords),
                     [&](std::string_view words) { return mentions(message, words); });
}

Failure classify(std::string_view message, const std::string& clean,
                 const std::vector<Explanation>& explanations) {
  const auto applies = [&](const Explanation& explanation) {
    return std::all_of(explanation.words.begin(), explanation.words.end(),
                       [&](std::string_view words) { return mentions(message, words); });
  };
  const auto found = std::find_if(explanations.begin(), explanations.end(), applies);
  return {mentions_out_of_memory(message) ? HR_ERROR_OUT_OF_MEMORY : HR_ERROR_FAILED,
          (found == explanations.end() ? "" : std::string(found->text)) + clean};
}

std::string without_source_places(std::string_view message) {
  const std::string line = on_one_line(message);
  std::string clean;
  std::size_t position = 0;
  while (position < line.size()) {
    const bool starts_token = position == 0 || line[position - 1] == ' ' || line[position - 1] == ':';
    const auto place =
        line[position] == '/' && starts_token ? end_of_source_place(line, position) : std::nullopt;
    if (place) {
      position = end_of_signature(line, *place);
      continue;
    }
    clean += line[position++];
  }
  return on_one_line(clean);
}

int report_exception(hr_error* error) noexcept {
  try {
    throw;
  } catch (const Failure& failure) {
    return report(*error, failure.kind, failure.message);
  } catch (const std::bad_alloc&) {
    return report(*error, HR_ERROR_OUT_OF_MEMORY, "an allocation was refused");
  } catch (const std::exception& exception) {
    return report(*error, HR_ERROR_FAILED, exception.what());
  } catch (...) {
    return report(*error, HR_ERROR_FAILED, "an exception of unknown type");
  }
}

}  // namespace headroom::plugin
