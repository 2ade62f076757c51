#include "snapshot/stack_interner.h"

#include <algorithm>

#include "snapshot/containers.h"

namespace headroom::snapshot {

StackIndex StackInterner::stack_of(PickleValue list) {
  if (!data_.is(list, PickleKind::list) && !data_.is(list, PickleKind::tuple)) return {};
  if (const auto kept = data_.kept(list)) return {*kept};
  // Search the list once, however long it is and however many entries refer to it.
  const std::uint32_t stack = keep_stack(list).value_or(0);
  data_.set_kept(list, stack);
  return {stack};
}

std::optional<std::uint32_t> StackInterner::keep_stack(PickleValue list) {
  frames_.clear();
  bool all_are_frames = true;
  data_.for_each_item(list, [&](PickleValue item) {
    if (!all_are_frames || frames_.size() == kMostFrames) return;
    const auto kept = data_.is(item, PickleKind::dict) ? data_.kept(item) : std::nullopt;
    const auto frame = kept ? kept : keep_frame(item);
    all_are_frames = frame && *frame >= kFrame;
    if (all_are_frames) frames_.push_back(*frame - kFrame);
  });
  if (!all_are_frames) return {};
  return intern(frames_).index;
}

std::optional<std::uint32_t> StackInterner::keep_frame(PickleValue dict) {
  const auto [name, file, line] = frame_keys_.read(dict);
  if (!data_.is(name, PickleKind::text) || !data_.is(file, PickleKind::text)) return {};
  const Frame frame{data_.text_id(name), data_.text_id(file), data_.integer(line).value_or(0)};
  const std::uint64_t hash = mixed(mixed(mixed(hash_seed(), frame.function.index), frame.file.index),
                                   static_cast<std::uint64_t>(frame.line));
  const auto [begin, end] = frames_by_hash_.equal_range(hash);
  std::size_t looked_at = 0;
  for (auto it = begin; it != end && looked_at < kMostOfAHash; ++it, ++looked_at)
    if (snapshot_.frames[it->second] == frame) return kFrame + it->second;
  if (snapshot_.frames.size() == kFrame) return {};
  const auto number = static_cast<std::uint32_t>(snapshot_.frames.size());
  snapshot_.frames.push_back(frame);
  frames_by_hash_.emplace(hash, number);
  return kFrame + number;
}

StackIndex StackInterner::intern(const std::vector<std::uint32_t>& frames) {
  if (frames.empty()) return {};
  std::uint64_t hash = hash_seed() ^ frames.size();
  for (const std::uint32_t frame : frames) hash = mixed(hash, frame);
  const auto [begin, end] = stacks_by_hash_.equal_range(hash);
  std::size_t looked_at = 0;
  for (auto it = begin; it != end && looked_at < kMostOfAHash; ++it, ++looked_at)
    if (std::ranges::equal(snapshot_.frames_of({it->second}), frames)) return {it->second};
  const auto index = static_cast<std::uint32_t>(snapshot_.stack_count());
  snapshot_.stack_frames.insert(snapshot_.stack_frames.end(), frames.begin(), frames.end());
  snapshot_.stack_begin.push_back(snapshot_.stack_frames.size());
  stacks_by_hash_.emplace(hash, index);
  return {index};
}

}  // namespace headroom::snapshot
