// How a call stack is shown: its functions, innermost first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/json.h"
#include "report/recording/recording_views.h"

namespace headroom::report {

// All functions of a stack, inlined ones as frames of their own. Empty for "no stack".
std::vector<std::string> frames_of(const RecordingReport& report, StackId stack);

// "load_weights ← Session::Session ← main": as many as fit. What only passes an allocation on (operator new,
// the containers of std) is left out, so the first is the one to look at.
std::string one_line_stack(const std::vector<std::string>& frames, int width);
std::string one_line_stack(const RecordingReport& report, StackId stack, int width);

// A function's name without its parameters, template arguments and what compilers add to copies of it:
// "Session::run", not "Session::run(std::span<Tensor const, 18446744073709551615ul>) [clone .isra.0]".
std::string short_function(const std::string& function);

// Stacks as one tree that shares their outer functions, names once: as the pages read them
// (docs/trace-report.md).
class CallTree {
 public:
  // The number of a function's name.
  std::uint32_t frame(std::string name);
  std::size_t names() const { return names_.size(); }
  // The node of a function below another; node 0 is the root.
  std::uint32_t child(std::uint32_t parent, std::uint32_t frame);
  // The page is large enough: no more stacks should be added.
  bool is_full() const;
  // [name]; {"frame": [], "parent": []}: a parent comes before its children. Both leave the tree empty.
  Json frames_json() { return std::move(names_); }
  Json nodes_json() { return {{"frame", std::move(frame_of_)}, {"parent", std::move(parent_of_)}}; }

 private:
  Json names_ = Json::array({"all"});
  Json frame_of_ = Json::array({0}), parent_of_ = Json::array({0});
  std::size_t name_bytes_ = 0;
  std::unordered_map<std::string, std::uint32_t> number_of_;
  std::unordered_map<std::uint64_t, std::uint32_t> children_;
};

}  // namespace headroom::report
