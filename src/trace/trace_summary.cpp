#include "trace/trace_summary.h"
#include "base/text.h"

#include <fmt/format.h>
#include <signal.h>

#include "report/recording/recording_words.h"
#include "trace/summary_lines.h"

namespace headroom::trace {
namespace {

std::string how_it_ended(const CommandEnd& end) {
  std::string text =
      fmt::format("ended with {} after {}", end.status.describe(), format_duration(end.duration));
  if (end.out_of_memory) text += "; the kernel's out-of-memory killer was active meanwhile";
  return text;
}

std::string program_of(const std::vector<std::string>& command) {
  return command.empty() ? "a process" : shortened(command[0]);
}

std::string recording_line(const TraceOutcome& outcome) {
  std::string text = fmt::format("{}, {}", outcome.recording.string(),
                                 format_bytes(Bytes{static_cast<std::int64_t>(outcome.disk_bytes)}));
  if (outcome.events) text += fmt::format(", {} events", grouped(*outcome.events));
  if (outcome.info->segments_overwritten > 0) text += ", latest ones only (ring)";
  if (!outcome.info->closed) text += ", not closed by the process";
  return line("recording", text);
}

}  // namespace

std::string trace_summary(const TraceOutcome& outcome) {
  std::string text = fmt::format("headroom: {} {}\n", program_of(outcome.command), how_it_ended(outcome.end));
  if (outcome.of_descendant && outcome.info)
    text += line("process", fmt::format("{} {} ({})", program_of(outcome.info->command), outcome.info->pid,
                                        outcome.by_memory ? "largest peak" : "most events"));
  if (outcome.end.status.signal == SIGSYS)
    text += line(
        "sandbox",
        "if this happens only while tracing, its seccomp filter forbids system calls that recording needs");
  text += outcome.figures;
  if (outcome.info) text += recording_line(outcome);
  // The folder's existence proves nothing: it also contains runtime profiles.
  if (outcome.programs > 1)
    text += line("programs", fmt::format("{}, {} in total; other recordings: {}", outcome.programs,
                                         format_bytes(Bytes{static_cast<std::int64_t>(outcome.tree_bytes)}),
                                         outcome.tree.string()));
  if (outcome.still_running > 0)
    text += line("running",
                 fmt::format("{} of its processes; their recordings keep growing", outcome.still_running));
  if (!outcome.problems.empty()) {
    const std::size_t more = outcome.problems.size() - 1;
    text += line("problem", outcome.problems[0] + (more > 0 ? fmt::format(" (and {} more)", more) : ""));
  }
  if (outcome.info) text += fmt::format("next: headroom report {}\n", shell_word(outcome.recording.string()));
  if (outcome.info && !outcome.refused_in.empty())
    text += fmt::format("next: headroom doctor {}  # which process was refused, and where the memory went\n",
                        shell_word(outcome.refused_in.string()));
  return text;
}

}  // namespace headroom::trace
