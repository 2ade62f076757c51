// The memories and pointers of one object, in a ring of fixed size: what memory attention may see of the past
// (_prepare_memory_conditioned_features of sam2/modeling/sam2_base.py).
//
// Kept are all prompt frames, the `num_maskmem` − 1 frames before the next one with their memories, and the
// `max_obj_ptrs` − 1 frames before it with their pointers. A frame's place in the ring is its number modulo
// the ring's size, so frames that were left out leave a gap in the ring, as in the reference.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "types/tensor.h"

namespace headroom::inference::vos {

struct BankSizes {
  std::size_t memory_elements = 0;   // T · D
  std::size_t pointer_elements = 0;  // C
  int num_maskmem = 7, max_obj_ptrs = 16;
  ElementType memory_type = ElementType::bfloat16;  // float32, float16 or bfloat16; pointers are float32
};

// A memory that attention sees: `features` are memory_elements of memory_type; `slot` is the row of the
// graph's table of temporal positions (r − 1 for the frame r before, num_maskmem − 1 for a prompt frame).
// `frame` identifies it.
struct SeenMemory {
  const std::byte* features = nullptr;
  std::int64_t slot = 0, frame = 0;
};
struct SeenPointer {
  const float* values = nullptr;
  std::int64_t frames_ago = 0;
};
struct Seen {
  std::vector<SeenMemory> memories;
  std::vector<SeenPointer> pointers;
};

class MemoryBank {
 public:
  explicit MemoryBank(const BankSizes& sizes);
  // Forgets everything and keeps the memory.
  void clear();
  // Stores a frame. Frames ascend. `features` are memory_elements of `type`.
  void store(std::int64_t frame, bool is_prompt, const void* features, ElementType type,
             std::span<const float> pointer);
  // What attention sees at `frame`, in an order that stays the same while the ring turns. `clip_frames`:
  // frames of the clip, 0 if unknown; a shorter clip than max_obj_ptrs has fewer pointers. At most
  // `most_prompts` prompt frames count as such: the nearest ones; others act like tracked frames.
  void look_back(std::int64_t frame, std::int64_t clip_frames, std::size_t most_prompts, Seen& seen) const;
  std::size_t bytes() const;

 private:
  struct Entry {
    std::int64_t frame = -1;
    std::vector<std::byte> features;
    std::vector<float> pointer;
  };
  // Of the last `count` frames before `frame`, without prompt frames that count as such.
  template <class See>
  void each_recent(const std::vector<Entry>& ring, std::int64_t frame, std::int64_t count,
                   std::size_t first_prompt, See see) const;

  BankSizes sizes_;
  std::vector<Entry> memories_,
      pointers_;  // rings of tracked frames; `pointers_` has no features, `memories_` no pointers
  std::vector<Entry> prompts_;  // the first prompt_count_ are in use, by ascending frame
  std::size_t prompt_count_ = 0;
};

// The number of pointers that a clip of `clip_frames` frames (0: unknown) uses: min(frames, max_obj_ptrs).
std::int64_t pointers_of_clip(std::int64_t clip_frames, int max_obj_ptrs);

}  // namespace headroom::inference::vos
