#include "inference/vos/memory_bank.h"

#include <algorithm>

#include "inference/vos/small_floats.h"

namespace headroom::inference::vos {

std::int64_t pointers_of_clip(std::int64_t clip_frames, int max_obj_ptrs) {
  return clip_frames > 0 ? std::min<std::int64_t>(clip_frames, max_obj_ptrs) : max_obj_ptrs;
}

MemoryBank::MemoryBank(const BankSizes& sizes)
    : sizes_(sizes),
      memories_(static_cast<std::size_t>(sizes.num_maskmem - 1)),
      pointers_(static_cast<std::size_t>(sizes.max_obj_ptrs - 1)) {
  for (Entry& entry : memories_) entry.features.resize(sizes.memory_elements * size_of(sizes.memory_type));
  for (Entry& entry : pointers_) entry.pointer.resize(sizes.pointer_elements);
}

void MemoryBank::clear() {
  for (Entry& entry : memories_) entry.frame = -1;
  for (Entry& entry : pointers_) entry.frame = -1;
  prompt_count_ = 0;
}

void MemoryBank::store(std::int64_t frame, bool is_prompt, const void* features, ElementType type,
                       std::span<const float> pointer) {
  Entry* memory = nullptr;
  Entry* of_pointer = nullptr;
  if (is_prompt) {
    if (prompts_.size() == prompt_count_) {
      Entry& added = prompts_.emplace_back();
      added.features.resize(sizes_.memory_elements * size_of(sizes_.memory_type));
      added.pointer.resize(sizes_.pointer_elements);
    }
    memory = of_pointer = &prompts_[prompt_count_++];
  } else {
    const auto number = static_cast<std::size_t>(frame);
    if (!memories_.empty()) memory = &memories_[number % memories_.size()];
    if (!pointers_.empty()) of_pointer = &pointers_[number % pointers_.size()];
  }
  if (memory != nullptr) {
    memory->frame = frame;
    convert(features, type, memory->features.data(), sizes_.memory_type, sizes_.memory_elements);
  }
  if (of_pointer != nullptr) {
    of_pointer->frame = frame;
    std::ranges::copy(pointer, of_pointer->pointer.begin());
  }
}

template <class See>
void MemoryBank::each_recent(const std::vector<Entry>& ring, std::int64_t frame, std::int64_t count,
                             std::size_t first_prompt, See see) const {
  const auto is_recent = [&](const Entry& entry) {
    return entry.frame >= 0 && entry.frame < frame && frame - entry.frame <= count;
  };
  for (const Entry& entry : ring)
    if (is_recent(entry)) see(entry);
  for (std::size_t i = 0; i < first_prompt; ++i)
    if (is_recent(prompts_[i])) see(prompts_[i]);
}

void MemoryBank::look_back(std::int64_t frame, std::int64_t clip_frames, std::size_t most_prompts,
                           Seen& seen) const {
  seen.memories.clear();
  seen.pointers.clear();
  // Frames ascend, so the nearest prompt frames are the last ones.
  const std::size_t first = prompt_count_ - std::min(prompt_count_, most_prompts);
  for (std::size_t i = first; i < prompt_count_; ++i) {
    const Entry& entry = prompts_[i];
    seen.memories.push_back({entry.features.data(), sizes_.num_maskmem - 1, entry.frame});
    seen.pointers.push_back({entry.pointer.data(), frame - entry.frame});
  }
  each_recent(memories_, frame, sizes_.num_maskmem - 1, first, [&](const Entry& entry) {
    seen.memories.push_back({entry.features.data(), frame - entry.frame - 1, entry.frame});
  });
  each_recent(pointers_, frame, pointers_of_clip(clip_frames, sizes_.max_obj_ptrs) - 1, first,
              [&](const Entry& entry) {
                seen.pointers.push_back({entry.pointer.data(), frame - entry.frame});
              });
}

std::size_t MemoryBank::bytes() const {
  std::size_t total = 0;
  for (const std::vector<Entry>* entries : {&memories_, &pointers_, &prompts_})
    for (const Entry& entry : *entries) total += entry.features.size() + entry.pointer.size() * sizeof(float);
  return total;
}

}  // namespace headroom::inference::vos
