#include "doctor/recording/live_places.h"

#include <fmt/format.h>

#include <algorithm>

namespace headroom::doctor {

std::vector<Evidence> live_places(const attribution::RecordingAnalysis& analysis,
                                  const PlaceWords& place_words, LiveAt at) {
  const auto bytes =
      at == LiveAt::peak ? &attribution::LiveFigures::peak_bytes : &attribution::LiveFigures::end_bytes;
  const auto blocks =
      at == LiveAt::peak ? &attribution::LiveFigures::peak_blocks : &attribution::LiveFigures::end_blocks;
  std::vector<Evidence> places;
  if (!place_words) return places;
  std::vector<const attribution::StackFigures*> stacks;
  constexpr std::int64_t kWorthTelling = 256 << 10;
  for (const attribution::StackFigures& stack : analysis.stacks)
    if (stack.stack.index != 0 && stack.live.*bytes >= kWorthTelling) stacks.push_back(&stack);
  std::stable_sort(stacks.begin(), stacks.end(),
                   [bytes](const auto* a, const auto* b) { return a->live.*bytes > b->live.*bytes; });
  constexpr std::size_t kMostPlaces = 3;
  if (stacks.size() > kMostPlaces) stacks.resize(kMostPlaces);
  for (const attribution::StackFigures* stack : stacks)
    places.push_back(
        {"", 0,
         fmt::format("{}{} in {} blocks, from {}", stack->sampled ? "about " : "",
                     format_bytes({stack->live.*bytes}), stack->live.*blocks, place_words(stack->stack))});
  return places;
}

}  // namespace headroom::doctor
