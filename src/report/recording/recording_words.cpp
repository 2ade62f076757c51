#include "report/recording/recording_words.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <string_view>

#include "base/units.h"
#include "base/utf8.h"
#include "report/recording/recording_views.h"
#include "report/words.h"
#include "types/enum_names.h"

namespace headroom::report {

using attribution::LeakVerdict;
using monitoring::Growth;

std::string error_column(std::optional<double> standard_error) {
  constexpr int kWidth = 11;
  const std::string error =
      standard_error ? fmt::format("± {}", format_bytes({std::llround(*standard_error)})) : "";
  return " " + error + std::string(static_cast<std::size_t>(std::max(0, kWidth - display_width(error))), ' ');
}

std::string words_for(const attribution::Figure& bytes) {
  if (bytes.at_most) return fmt::format("at most {}", format_bytes({*bytes.at_most}));
  const std::string_view bound = bytes.at_least ? "at least " : "";
  if (!bytes.standard_error) return fmt::format("{}{}", bound, format_bytes({bytes.value}));
  return fmt::format("{}≈ {} ± {}", bound, format_bytes({bytes.value}),
                     format_bytes({std::llround(*bytes.standard_error)}));
}

std::string_view words_for_older_blocks(const attribution::Figure& bytes) {
  return bytes.at_least ? "; older blocks are not counted" : "";
}

std::string words_for_memory_before(const recording::RecordingInfo& info,
                                    const attribution::RecordingAnalysis& analysis) {
  if (!info.attached) return "";
  std::string words = fmt::format(
      "{} resident before attaching{}; blocks from then are not counted",
      info.attached->resident_bytes > 0
          ? format_bytes({static_cast<std::int64_t>(info.attached->resident_bytes)})
          : "unknown memory",
      info.attached->process_age.count > 0
          ? fmt::format(", {} after the process's start", format_duration(info.attached->process_age))
          : "");
  if (analysis.unknown_releases > 0)
    words += fmt::format("; {} of the releases freed such blocks", grouped(analysis.unknown_releases));
  return words;
}

std::string words_for_count(const attribution::Figure& count, std::string_view noun) {
  return fmt::format("{}{} {}{}", count.standard_error ? "≈ " : "", grouped(count.value), noun,
                     count.value == 1 ? "" : "s");
}

std::string cure_for_drops(const recording::RecordingInfo& info) {
  const auto notes_hold = [&](std::string_view words) {
    return std::ranges::any_of(
        info.notes, [&](const std::string& note) { return note.find(words) != std::string::npos; });
  };
  // The tracer's own sentences say which bound it was.
  if (notes_hold("bound on its events")) return "record without --max-events, or with a larger value";
  if (notes_hold("ulimit -f")) return "raise the limit on file sizes (ulimit -f)";
  if (notes_hold("no disk space")) return "free some disk space, or record to another disk with --out";
  // A ring is never full: its segments were all in use.
  return info.ring
             ? "record with a larger --ring: 1 MiB for each thread that runs at the same time, plus 5 MiB"
             : "record with a larger --max-size";
}

std::string words_for_end_above_peak(const attribution::RecordingAnalysis& analysis) {
  if (analysis.leaked_bytes.value <= analysis.peak_bytes.value || analysis.leaked_bytes.at_most) return "";
  return "above the peak by chance: two estimates (±) from different samples";
}

std::string words_for_no_fragmentation(const recording::RecordingInfo& info) {
  if (!info.full || !info.host_recorded || !recording::has_unknown_blocks(info)) return "";
  if (info.attached)
    return "Holes are unknown in a process that ran before the recording: its older blocks would look like "
           "holes";
  if (info.forked)
    return "Holes are unknown for a forked child: its parent's blocks are not in its recording and would "
           "look like holes";
  return "Holes are unknown because the ring was overwritten: blocks from before its first event would look "
         "like holes";
}

namespace {

void add_not_closed(std::vector<std::string>& parts, const recording::RecordingInfo& info) {
  if (!info.closed)
    parts.emplace_back("The process did not close its recording: it was killed or is still running");
}

void add_overwritten(std::vector<std::string>& parts, const recording::RecordingInfo& info) {
  if (info.segments_overwritten == 0) return;
  parts.push_back(
      fmt::format("The ring has overwritten {} segment{}: allocations before its first event are not counted",
                  grouped(static_cast<std::int64_t>(info.segments_overwritten)),
                  info.segments_overwritten == 1 ? "" : "s"));
}

void add_dropped(std::vector<std::string>& parts, const recording::RecordingInfo& info,
                 const attribution::RecordingAnalysis& analysis) {
  if (analysis.dropped_events == 0 && analysis.gaps == 0) return;
  parts.push_back(
      fmt::format("{} events were not recorded ({}): figures after them may be too low or too high; {}",
                  grouped(analysis.dropped_events), counted(analysis.gaps, "gap"), cure_for_drops(info)));
}

std::vector<std::string> sentences_of(std::vector<std::string> parts) {
  for (std::string& part : parts) part += '.';
  return parts;
}

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

std::string size_in_words(std::uint64_t size) {
  return size <= std::uint64_t{1} << 62 ? format_bytes({static_cast<std::int64_t>(size)})
                                        : fmt::format("{} B", size);
}

}  // namespace

std::vector<std::string> problems_of(const recording::RecordingInfo& info,
                                     const attribution::RecordingAnalysis& analysis) {
  std::vector<std::string> parts;
  add_not_closed(parts, info);
  add_dropped(parts, info, analysis);
  add_overwritten(parts, info);
  parts.insert(parts.end(), analysis.problems.begin(), analysis.problems.end());
  return parts;
}

std::vector<std::string> missing_parts(const recording::RecordingInfo& info,
                                       const attribution::RecordingAnalysis& analysis) {
  std::vector<std::string> parts;
  add_dropped(parts, info, analysis);
  add_overwritten(parts, info);
  if (analysis.unknown_releases > 0 && analysis.unseen_blocks == 0 && !info.attached)  // those are a problem
    parts.push_back(fmt::format("{} of the releases freed blocks whose allocation was not recorded",
                                grouped(analysis.unknown_releases)));
  for (const auto* list : {&analysis.problems, &info.notes})
    parts.insert(parts.end(), list->begin(), list->end());
  return sentences_of(std::move(parts));
}

std::vector<std::string> missing_parts(const recording::Recording& recording) {
  const recording::RecordingInfo& info = recording.info();
  std::vector<std::string> parts;
  add_not_closed(parts, info);
  if (info.events_dropped > 0)
    parts.push_back(fmt::format("{} events were not recorded: figures may be too low or too high; {}",
                                grouped(static_cast<std::int64_t>(info.events_dropped)),
                                cure_for_drops(info)));
  add_overwritten(parts, info);
  for (const auto* list : {&recording.problems(), &info.notes})
    parts.insert(parts.end(), list->begin(), list->end());
  return sentences_of(std::move(parts));
}

std::string_view words_for(DeviceMemoryKind kind) {
  // In the order of DeviceMemoryKind, which begins at 1.
  return name_in({"", "device memory (cuMemAlloc)", "arrays and mipmaps", "managed memory",
                  "physical memory (cuMemCreate)", "allocated from pools", "memory nodes of graphs",
                  "pinned host memory", "imported from other processes and APIs", "reserved addresses",
                  "mapped addresses", "reserved by pools", "modules, by difference", "reserved for graphs",
                  "contexts, by difference", "other driver memory, by difference",
                  "registered host memory (cuMemHostRegister)"},
                 kind);
}

const recording::Device* find_device(const RecordingReport& report, std::uint32_t ordinal) {
  for (const recording::Device& device : report.info.devices)
    if (device.ordinal == ordinal) return &device;
  return nullptr;
}

std::string command_of(const RecordingReport& report, const attribution::DeviceProcess& process) {
  for (const ProcessFigures& other : report.others)
    if (other.pid == process.pid && !process.is_elsewhere) return other.command;
  return process.name;
}

std::string path_of_layer(const RecordingReport& report, std::uint32_t index) {
  return index < report.analysis.layers.size() ? report.analysis.layers[index].path : "";
}

std::string name_of_layer(const RecordingReport& report, std::uint32_t index) {
  const std::string path = path_of_layer(report, index);
  return path.empty() ? "(outside of any layer)" : path;
}

std::string words_for_slow_growth(double bytes) {
  return bytes < 1 ? "under 1 B" : format_bytes(Bytes{std::llround(bytes)});
}

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

std::string one_line_command(const recording::RecordingInfo& info) {
  std::string text;
  for (const std::string& word : info.command) text += (text.empty() ? "" : " ") + word;
  return text.empty() ? info.executable : text;
}

ProcessFigures figures_of(const std::string& file, const recording::RecordingInfo& info,
                          const attribution::RecordingAnalysis& analysis) {
  ProcessFigures figures;
  figures.file = file;
  figures.command = one_line_command(info);
  figures.pid = info.pid;
  figures.exec_generation = info.exec_generation;
  figures.events = analysis.events;
  figures.allocations = analysis.allocations;
  figures.deallocations = analysis.deallocations;
  figures.total_allocated_bytes = analysis.total_allocated_bytes;
  figures.peak_bytes = analysis.peak_bytes.value;
  figures.peak_standard_error = analysis.peak_bytes.standard_error.value_or(0);
  figures.leaked_bytes = analysis.leaked_bytes.value;
  figures.host_recorded = analysis.host_recorded;
  for (const attribution::DeviceFigures& device : analysis.devices)
    figures.device_peak_bytes = figures.device_peak_bytes.value_or(0) + device.peak_bytes;
  figures.dropped_events = analysis.dropped_events;
  figures.complete = analysis.complete;
  return figures;
}

TreeFigures tree_figures(const RecordingReport& report) {
  TreeFigures tree{1, figures_of(report.file, report.info, report.analysis)};
  for (const ProcessFigures& other : report.others) {
    if (!other.problem.empty()) continue;
    ++tree.processes;
    for (const auto figure :
         {&ProcessFigures::events, &ProcessFigures::allocations, &ProcessFigures::deallocations,
          &ProcessFigures::total_allocated_bytes, &ProcessFigures::peak_bytes, &ProcessFigures::leaked_bytes,
          &ProcessFigures::dropped_events})
      tree.sums.*figure += other.*figure;
    tree.sums.peak_standard_error = std::hypot(tree.sums.peak_standard_error, other.peak_standard_error);
    tree.sums.host_recorded = tree.sums.host_recorded && other.host_recorded;
    if (other.device_peak_bytes)
      tree.sums.device_peak_bytes = tree.sums.device_peak_bytes.value_or(0) + *other.device_peak_bytes;
    tree.sums.complete = tree.sums.complete && other.complete;
  }
  return tree;
}

std::uint64_t smallest_of_class(std::size_t bits) { return bits == 0 ? 0 : std::uint64_t{1} << (bits - 1); }
std::uint64_t largest_of_class(std::size_t bits) { return bits == 0 ? 0 : smallest_of_class(bits) * 2 - 1; }

std::string words_for_size_class(std::size_t bits) {
  return fmt::format("{} to {}", size_in_words(smallest_of_class(bits)),
                     size_in_words(largest_of_class(bits)));
}

std::string words_for_thread(const recording::RecordingInfo& info, std::size_t thread) {
  const bool known = thread < info.threads.size() && info.threads[thread].tid != 0;
  return known ? fmt::format("{} (tid {})", info.threads[thread].name, info.threads[thread].tid)
               : fmt::format("thread {}", thread);
}

}  // namespace headroom::report
