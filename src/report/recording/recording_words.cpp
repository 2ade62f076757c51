#include "report/recording/recording_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "base/display_width.h"
#include "report/words.h"

namespace headroom::report {

std::string grouped(std::int64_t count) {
  std::string digits = std::to_string(count);
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > (count < 0 ? 1 : 0); at -= 3)
    digits.insert(static_cast<std::size_t>(at), 1, ',');
  return digits;
}

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

std::string words_for_count(const attribution::Figure& count, std::string_view noun) {
  return fmt::format("{}{} {}{}", count.standard_error ? "≈ " : "", grouped(count.value), noun,
                     count.value == 1 ? "" : "s");
}

std::string cure_for_drops(const recording::RecordingInfo& info) {
  const auto notes_hold = [&](std::string_view words) {
    return std::any_of(info.notes.begin(), info.notes.end(),
                       [&](const std::string& note) { return note.find(words) != std::string::npos; });
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
  if (analysis.unknown_releases > 0 && analysis.unseen_blocks == 0)  // those are a problem
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

}  // namespace headroom::report
