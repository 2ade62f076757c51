#include "report/recording/call_tree.h"

#include <utility>

namespace headroom::report {
namespace {

// 4000 stacks of 30 frames are about a megabyte in the page; a program of very long names, or with a range
// named anew each step, keeps to 25 MB as well, and so does a file of very deep stacks.
constexpr std::size_t kMostNameBytes = 6'000'000, kMostNodes = 1'000'000;

}  // namespace

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
