#include "report/recording/leak_words.h"

#include <fmt/format.h>

#include <cmath>

#include "base/units.h"
#include "report/recording/recording_words.h"

namespace headroom::report {

using attribution::LeakVerdict;
using monitoring::Growth;

std::string words_for_slow_growth(double bytes) {
  return bytes < 1 ? "under 1 B" : format_bytes(Bytes{std::llround(bytes)});
}

namespace {

// What the end of the recording adds to a verdict on the ends of cycles; begins with a space.
std::string words_for_the_end(const LeakVerdict& leaks) {
  std::string words;
  if (leaks.released_bytes > 0)
    words = fmt::format(" After the last cycle, {} of the growth was released.",
                        format_bytes({leaks.released_bytes}));
  if (leaks.is_cut_off) words += " The recording ends before the program did, so later releases are unknown.";
  return words;
}

std::string words_for_release(const LeakVerdict& leaks) {
  if (leaks.same_places)
    return fmt::format("The same places grew over the {} cycles of {}.", grouped(leaks.cycles), leaks.cycle);
  return fmt::format(
      "Memory grew and was released later: {} left {} more with each of {} cycles, and all of it was "
      "released{}.",
      leaks.cycle, words_for_slow_growth(leaks.bytes_per_cycle), grouped(leaks.cycles),
      leaks.released_at ? " by " + format_duration(*leaks.released_at) : " by the end");
}

}  // namespace

std::string words_for_leaks(const LeakVerdict& leaks) {
  switch (leaks.growth) {
    case Growth::unknown:
      break;
    case Growth::none:
      if (leaks.smallest_visible > 0)
        return fmt::format(
            "No leak seen over {} cycles of {}. Samples cannot show a leak of less than {} per cycle.",
            grouped(leaks.cycles), leaks.cycle, words_for_slow_growth(leaks.smallest_visible));
      return fmt::format("No leak: the memory live at the end of {} does not grow over {} cycles.",
                         leaks.cycle, grouped(leaks.cycles));
    case Growth::grew_then_stayed:
      if (leaks.last_step > 0)
        return fmt::format(
            "No leak: memory grew until cycle {} of {} and then stayed the same, over {} cycles.",
            grouped(leaks.last_step), leaks.cycle, grouped(leaks.cycles));
      return fmt::format(
          "No leak: after {} cycles of {}, more memory is live than after the first ones, but it no longer "
          "grows.",
          grouped(leaks.cycles), leaks.cycle);
    case Growth::grew_then_released:
      return words_for_release(leaks);
    case Growth::grew_late:
      return fmt::format(
                 "Unclear: {} holds {} more than after its warm-up, and last grew at cycle {} of {}. Record "
                 "more cycles to see whether it stays.",
                 leaks.cycle, format_bytes({leaks.late_bytes}), grouped(leaks.last_step),
                 grouped(leaks.cycles)) +
             words_for_the_end(leaks);
    case Growth::leak:
      if (leaks.same_places)
        return fmt::format("The same places grow over the {} cycles of {}.", grouped(leaks.cycles),
                           leaks.cycle);
      if (leaks.last_step > 0)
        return fmt::format(
                   "Leak: {} leaves {} more memory with each of {} cycles on average. It grows in steps, "
                   "like a container that is never emptied (last step at cycle {}).",
                   leaks.cycle, words_for_slow_growth(leaks.bytes_per_cycle), grouped(leaks.cycles),
                   grouped(leaks.last_step)) +
               words_for_the_end(leaks);
      return fmt::format("Leak: {} leaves {} more memory with each of {} cycles.", leaks.cycle,
                         words_for_slow_growth(leaks.bytes_per_cycle), grouped(leaks.cycles)) +
             words_for_the_end(leaks);
  }
  return fmt::format(
      "{}, so there is no verdict. Memory that is live at exit is not always a leak: caches stay on purpose.",
      leaks.cycles_left_out > 0
          ? "No repeated layer was monitored"
          : fmt::format("No layer was entered and left {} times", attribution::kFewestEnds));
}

std::string words_for_cycles_left_out(const LeakVerdict& leaks) {
  return fmt::format("{} more repeated layer{} not monitored: leaks there are unknown.",
                     grouped(leaks.cycles_left_out), leaks.cycles_left_out == 1 ? " was" : "s were");
}

}  // namespace headroom::report
