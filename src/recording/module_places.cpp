#include "recording/module_places.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>

namespace headroom::recording {
namespace {

auto identity_of(const Module& module) {
  return std::tuple(module.start, module.end, module.load_bias, module.build_id, module.path);
}

}  // namespace

void ModulePlaces::relocate(std::vector<Module>& modules) {
  constexpr std::uint64_t kLargest = std::uint64_t{1} << 40;  // larger ranges are damage
  std::vector<Module*> by_start;
  for (Module& module : modules)
    if (module.start < module.end && module.end - module.start <= kLargest) by_start.push_back(&module);
  std::ranges::stable_sort(by_start, [](const Module* a, const Module* b) { return a->start < b->start; });
  for (std::size_t i = 0; i < by_start.size();) {
    std::vector<Module*> overlapping{by_start[i]};
    std::uint64_t end = by_start[i]->end;
    for (++i; i < by_start.size() && by_start[i]->start < end; ++i) {
      overlapping.push_back(by_start[i]);
      end = std::max(end, by_start[i]->end);
    }
    if (overlapping.size() > 1) relocate_overlapping(overlapping);
  }
}

// Relocates modules whose address ranges overlap. The module that was never unloaded keeps its place. Each
// other module gets one new place, however often it was loaded and unloaded.
void ModulePlaces::relocate_overlapping(std::vector<Module*>& overlapping) {
  struct Identity {
    bool stayed = false;
    std::uint64_t shift = 0;
  };
  std::map<decltype(identity_of(*overlapping[0])), Identity> identities;
  for (const Module* module : overlapping)
    if (Identity& identity = identities[identity_of(*module)]; !module->unloaded) identity.stayed = true;
  if (identities.size() == 1) return;

  constexpr std::uint64_t kPage = 4096;
  Contested contested{overlapping[0]->start, 0, stays_.size(), 0};
  bool any_moved = false;
  for (Module* module : overlapping) {
    Identity& identity = identities[identity_of(*module)];
    if (!identity.stayed && identity.shift == 0) {
      identity.shift = next_place_ - module->start / kPage * kPage;
      next_place_ += (module->end - module->start) / kPage * kPage + 2 * kPage;
    }
    any_moved = any_moved || identity.shift != 0;
    stays_.push_back({module->start, module->end, identity.shift, module->unloaded.value_or(kNever)});
    contested.end = std::max(contested.end, module->end);
  }
  if (!any_moved) {  // two modules at the same place and time: damage; they cannot be distinguished
    stays_.resize(contested.first);
    return;
  }
  contested.last = stays_.size();
  std::stable_sort(stays_.begin() + static_cast<std::ptrdiff_t>(contested.first), stays_.end(),
                   [](const Stay& a, const Stay& b) { return a.until < b.until; });
  contested_.push_back(contested);
  std::vector<std::uint64_t>
      shifts;  // compute all before moving a module, because moving changes its identity
  for (const Module* module : overlapping) shifts.push_back(identities[identity_of(*module)].shift);
  for (std::size_t i = 0; i < overlapping.size(); ++i)
    for (std::uint64_t* address : {&overlapping[i]->start, &overlapping[i]->end, &overlapping[i]->load_bias})
      *address += shifts[i];
}

// The relocation distance of the module that had the address at that time; if none had it, of the last module
// that did. Narrows the times for which the answer is valid.
std::uint64_t ModulePlaces::shift_of(std::uint64_t address, Nanoseconds time, Relocated& relocated) const {
  const auto behind = std::ranges::upper_bound(contested_, address, {}, &Contested::start);
  if (behind == contested_.begin() || address >= std::prev(behind)->end) return 0;
  const Contested& contested = *std::prev(behind);
  const auto begin = stays_.begin() + static_cast<std::ptrdiff_t>(contested.first),
             end = stays_.begin() + static_cast<std::ptrdiff_t>(contested.last);
  const auto then =
      std::upper_bound(begin, end, time, [](Nanoseconds at, const Stay& stay) { return at < stay.until; });
  if (then != begin) relocated.from = std::max(relocated.from, std::prev(then)->until);
  if (then != end) relocated.until = std::min(relocated.until, then->until);
  // In an intact file one of the next stays has it: few modules overlap only in part.
  constexpr std::ptrdiff_t kMostTried = 64;
  const auto has_it = [&](const Stay& stay) { return address >= stay.start && address < stay.end; };
  const auto limit = then + std::min(kMostTried, end - then);
  if (const auto found = std::find_if(then, limit, has_it); found != limit) return found->shift;
  const auto earlier = std::make_reverse_iterator(then);
  const auto earlier_limit = earlier + std::min(kMostTried, then - begin);
  const auto found = std::find_if(earlier, earlier_limit, has_it);
  return found != earlier_limit ? found->shift : 0;
}

ModulePlaces::Relocated ModulePlaces::relocate_stack(StackId recorded, Nanoseconds time,
                                                     StackTable& stacks) const {
  Relocated relocated{kAlways, kNever, recorded};
  const auto frames = stacks.frames(recorded);
  std::vector<std::uint64_t> moved(frames.begin(), frames.end());
  bool any_moved = false;
  for (std::uint64_t& frame : moved) {
    const std::uint64_t shift =
        shift_of(frame - 1, time, relocated);  // the call is before its return address
    frame += shift;
    any_moved = any_moved || shift != 0;
  }
  if (any_moved) relocated.stack = stacks.intern(moved);
  return relocated;
}

StackId ModulePlaces::stack_at(StackId recorded, Nanoseconds time, StackTable& stacks) {
  if (recorded.index == 0) return recorded;
  if (recorded.index >= relocated_.size())
    relocated_.resize(std::max<std::size_t>(recorded.index + 1, relocated_.size() * 2));
  Relocated& relocated = relocated_[recorded.index];
  if (time < relocated.from || !(time < relocated.until)) relocated = relocate_stack(recorded, time, stacks);
  return relocated.stack;
}

}  // namespace headroom::recording
