#include "report/recording/stack_text.h"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "base/utf8.h"
#include "comparison/compared_names.h"

namespace headroom::report {

namespace {

// "PyObject_Malloc", "g_realloc", "operator new", "std::vector::resize": of no interest as the place.
bool passes_on(std::string_view name) {
  constexpr std::array<std::string_view, 4> kPrefixes{"operator new",
                                                      "std::", "__gnu_cxx::", "libheadroom_trace"};
  constexpr std::array<std::string_view, 6> kParts{"malloc",   "realloc",       "calloc",
                                                   "memalign", "aligned_alloc", "strdup"};
  const std::string small = to_lower(name.substr(0, name.find_first_of("(<")));
  const auto begins = [&](std::string_view prefix) { return small.starts_with(prefix); };
  const auto contains = [&](std::string_view part) { return small.find(part) != std::string::npos; };
  return std::ranges::any_of(kPrefixes, begins) || std::ranges::any_of(kParts, contains) ||
         name.starts_with("void* std::");
}

// Functions of the C library that start main and threads.
bool starts_threads(std::string_view name) {
  return name.starts_with("__libc_start") || name == "_start" || name == "start_thread" ||
         name.starts_with("clone") || name.starts_with("__clone");
}

// 4000 stacks of 30 frames are about a megabyte in the page; a program of very long names, or with a range
// named anew each step, keeps to 25 MB as well, and so does a file of very deep stacks.
constexpr std::size_t kMostNameBytes = 6'000'000, kMostNodes = 1'000'000;

}  // namespace

std::vector<std::string> frames_of(const RecordingReport& report, StackId stack) {
  std::vector<std::string> frames;
  if (stack.index >= report.stacks.size()) return frames;
  for (const std::uint64_t address : report.stacks.frames(stack))
    for (std::string& name : report.frame_names(address)) frames.push_back(std::move(name));
  return frames;
}

std::string short_function(const std::string& function) {
  if (function.ends_with(comparison::kFunctionUnknown)) return function;
  // " [clone .constprop.0]" would be taken for the name behind a result.
  const std::string_view name = comparison::without_clone_suffix(function);
  // "operator()", "operator<" and "(anonymous namespace)" are part of the name; "{lambda(int)#1}" is a frame.
  std::string text;
  int depth = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const std::string_view rest = name.substr(i);
    constexpr std::array<std::string_view, 8> kWhole{"operator()", "operator<<", "operator<=>", "operator<=",
                                                     "operator<",  "operator->", "operator>>",  "operator>"};
    const auto whole =
        std::ranges::find_if(kWhole, [&](std::string_view word) { return rest.starts_with(word); });
    if (depth == 0 && whole != kWhole.end()) {
      text += *whole;
      i += whole->size() - 1;
    } else if (depth == 0 && rest.starts_with("(anonymous namespace)")) {
      i += std::string_view("(anonymous namespace)").size() - 1;
      if (name.compare(i + 1, 2, "::") == 0) i += 2;
    } else if (name[i] == '(' || name[i] == '<') {
      ++depth;
    } else if ((name[i] == ')' || name[i] == '>') && depth > 0) {
      --depth;
    } else if (depth == 0) {
      text += name[i];
    }
  }
  // "void run" of a template has its result in front, "run const" what it may change behind.
  if (const auto end = text.rfind(" const"); end != std::string::npos && end + 6 == text.size())
    text.resize(end);
  if (text.find("operator") == std::string::npos)
    if (const auto space = text.rfind(' '); space != std::string::npos && space + 1 < text.size())
      text.erase(0, space + 1);
  return text.empty() ? function : text;
}

std::string one_line_stack(const std::vector<std::string>& frames, int width) {
  if (frames.empty()) return fit_to_width("(no stack was taken)", width);
  auto first = std::ranges::find_if_not(frames, passes_on);
  if (first == frames.end()) first = frames.begin();
  std::string line, before;
  for (auto frame = first; frame != frames.end() && display_width(line) < width; ++frame) {
    if (!line.empty() && starts_threads(*frame)) break;
    std::string name = short_function(*frame);
    if (name == before) continue;  // recursion
    line += (line.empty() ? "" : " ← ") + name;
    before = std::move(name);
  }
  return fit_to_width(line, width);
}

std::string one_line_stack(const RecordingReport& report, StackId stack, int width) {
  return one_line_stack(frames_of(report, stack), width);
}

std::uint32_t CallTree::frame(std::string name) {
  const auto [found, is_new] = number_of_.emplace(name, names_.size());
  if (is_new) {
    name_bytes_ += name.size();
    names_.push_back(std::move(name));
  }
  return found->second;
}

std::uint32_t CallTree::child(std::uint32_t parent, std::uint32_t frame) {
  const std::uint64_t key = std::uint64_t{parent} << 32 | frame;
  const auto [found, is_new] = children_.emplace(key, frame_of_.size());
  if (is_new) {
    frame_of_.push_back(frame);
    parent_of_.push_back(parent);
  }
  return found->second;
}

bool CallTree::is_full() const { return name_bytes_ > kMostNameBytes || frame_of_.size() > kMostNodes; }

}  // namespace headroom::report
