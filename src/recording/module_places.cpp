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

void ModulePlaces::settle(std::vector<Module>& modules) {
  constexpr std::uint64_t kLargest = std::uint64_t{1} << 40;  // more than that is damage
  std::vector<Module*> by_start;
  for (Module& module : modules)
    if (module.start < module.end && module.end - module.start <= kLargest) by_start.push_back(&module);
  std::stable_sort(by_start.begin(), by_start.end(),
                   [](const Module* a, const Module* b) { return a->start < b->start; });
  for (std::size_t i = 0; i < by_start.size();) {
    std::vector<Module*> overlapping{by_start[i]};
    std::uint64_t end = by_start[i]->end;
    for (++i; i < by_start.size() && by_start[i]->start < end; ++i) {
      overlapping.push_back(by_start[i]);
      end = std::max(end, by_start[i]->end);
    }
    if (overlapping.size() > 1) settle_one(overlapping);
  }
}

// Those that overlap, at one time or another. Whoever stayed to the end keeps the place; of each of the
// others there is one new place, however often it came and went.
void ModulePlaces::settle_one(std::vector<Module*>& overlapping) {
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
  if (!any_moved) {  // two at once at one place: damage, and nothing tells them apart
    stays_.resize(contested.first);
    return;
  }
  contested.last = stays_.size();
  std::stable_sort(stays_.begin() + static_cast<std::ptrdiff_t>(contested.first), stays_.end(),
                   [](const Stay& a, const Stay& b) { return a.until < b.until; });
  contested_.push_back(contested);
  std::vector<std::uint64_t> shifts;  // all of them before a module is moved and its identity with it
  for (const Module* module : overlapping) shifts.push_back(identities[identity_of(*module)].shift);
  for (std::size_t i = 0; i < overlapping.size(); ++i)
    for (std::uint64_t* address : {&overlapping[i]->start, &overlapping[i]->end, &overlapping[i]->load_bias})
      *address += shifts[i];
}

const ModulePlaces::Contested* ModulePlaces::contested_at(std::uint64_t address) const {
  const auto after =
      std::upper_bound(contested_.begin(), contested_.end(), address,
                       [](std::uint64_t at, const Contested& contested) { return at < contested.start; });
  if (after == contested_.begin()) return nullptr;
  const Contested& contested = *std::prev(after);
  return address < contested.end ? &contested : nullptr;
}

// How far the module was moved that had the address then, or, if none had, the last that had it. Narrows the
// times for which the answer holds.
std::uint64_t ModulePlaces::shift_of(std::uint64_t address, Nanoseconds time, Settled& settled) const {
  const Contested* contested = contested_at(address);
  if (contested == nullptr) return 0;
  const auto begin = stays_.begin() + static_cast<std::ptrdiff_t>(contested->first),
             end = stays_.begin() + static_cast<std::ptrdiff_t>(contested->last);
  const auto then =
      std::upper_bound(begin, end, time, [](Nanoseconds at, const Stay& stay) { return at < stay.until; });
  if (then != begin) settled.from = std::max(settled.from, std::prev(then)->until);
  if (then != end) settled.until = std::min(settled.until, then->until);
  // In a sound file one of the next has it: modules that overlap in part only are few.
  constexpr std::ptrdiff_t kMostTried = 64;
  const auto has_it = [&](const Stay& stay) { return address >= stay.start && address < stay.end; };
  const auto limit = then + std::min(kMostTried, end - then);
  if (const auto found = std::find_if(then, limit, has_it); found != limit) return found->shift;
  const auto earlier = std::make_reverse_iterator(then);
  const auto earlier_limit = earlier + std::min(kMostTried, then - begin);
  const auto found = std::find_if(earlier, earlier_limit, has_it);
  return found != earlier_limit ? found->shift : 0;
}

ModulePlaces::Settled ModulePlaces::settle_stack(StackId recorded, Nanoseconds time,
                                                 StackTable& stacks) const {
  Settled settled{kAlways, kNever, recorded};
  const auto frames = stacks.frames(recorded);
  std::vector<std::uint64_t> moved(frames.begin(), frames.end());
  bool any_moved = false;
  for (std::uint64_t& frame : moved) {
    const std::uint64_t shift = shift_of(frame - 1, time, settled);  // the call lies before its return
    frame += shift;
    any_moved = any_moved || shift != 0;
  }
  if (any_moved) settled.stack = stacks.intern(moved);
  return settled;
}

StackId ModulePlaces::stack_at(StackId recorded, Nanoseconds time, StackTable& stacks) {
  if (recorded.index == 0) return recorded;
  if (recorded.index >= settled_.size())
    settled_.resize(std::max<std::size_t>(recorded.index + 1, settled_.size() * 2));
  Settled& settled = settled_[recorded.index];
  if (time < settled.from || !(time < settled.until)) settled = settle_stack(recorded, time, stacks);
  return settled.stack;
}

}  // namespace headroom::recording
