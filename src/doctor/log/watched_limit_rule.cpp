// Who starts programs and watches their memory acts at a limit of its own, before the machine is out of it:
// PM2 starts a program anew, Dask lets a worker wait and then ends it.
#include <fmt/format.h>

#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

constexpr std::string_view kPm2 = "PM2", kDask = "Dask";

// "[PM2][WORKER] Process 0 restarted because it exceeds --max-memory-restart value (current_memory=39677952
// max_memory_limit=250 [octets])", without the figures in 2015.
std::optional<LogMessage> read_pm2(std::string_view line) {
  const std::size_t end = line.find(" restarted because it exceeds --max-memory-restart");
  const auto process = end == line.npos ? std::nullopt : text_after(line.substr(0, end), "Process ");
  if (!process) return std::nullopt;
  LogMessage message;
  message.subject = fmt::format("{} {}", kPm2, *process);
  message.add("who", kPm2);
  message.add("program", *process);
  message.add("resident_bytes", size_after(line, "current_memory="));
  message.add("limit_bytes", size_after(line, "max_memory_limit="));
  return message;
}

// "Worker exceeded 95% memory budget. Restarting", since 2022 "Worker tcp://127.0.0.1:43243 (pid=4312)
// exceeded 95% memory budget. Restarting...".
std::optional<LogMessage> read_dask_end(std::string_view line) {
  const std::size_t end = line.find("% memory budget. Restarting");
  const auto share = end == line.npos ? std::nullopt : text_after(line.substr(0, end), " exceeded ");
  if (!share || !has(line, "Worker ")) return std::nullopt;
  LogMessage message;
  message.subject = kDask;
  message.add("who", kDask);
  message.add("share_percent", integer_after(*share, ""));
  message.add("pid", integer_after(line, "(pid="));
  return message;
}

// "Worker is at 89% memory usage. Pausing worker.  Process memory: 2.09 GiB -- Worker memory limit: 2.33
// GiB".
std::optional<LogMessage> read_dask_pause(std::string_view line) {
  const auto share = text_after(line, "Worker is at ");
  if (!share || !has(*share, "% memory usage. Pausing worker")) return std::nullopt;
  LogMessage message;
  message.subject = fmt::format("{} pauses", kDask);
  message.add("who", kDask);
  message.add("state", "paused");
  message.add("share_percent", integer_after(*share, ""));
  message.add("resident_bytes", size_after(*share, "Process memory: "));
  message.add("limit_bytes", size_after(*share, "Worker memory limit: "));
  return message;
}

std::optional<LogMessage> read(std::string_view line) {
  for (const auto& read_form : {read_pm2, read_dask_end, read_dask_pause})
    if (auto message = read_form(line)) return message;
  return std::nullopt;
}

// "37.8 MiB of 250 B"
std::string words_of_both(const LogMessage& message) {
  const auto held = message.bytes("resident_bytes"), limit = message.bytes("limit_bytes");
  return held && limit ? fmt::format("{} of {}", format_bytes(*held), format_bytes(*limit)) : "";
}

Finding explain_pm2(const LogMessage& message, Finding finding) {
  const std::string both = words_of_both(message);
  const auto limit = message.bytes("limit_bytes"), held = message.bytes("resident_bytes");
  finding.severity = Severity::warning;
  finding.title = fmt::format("PM2 restarted the program {} at its memory limit{}", message.text("program"),
                              both.empty() ? "" : fmt::format(": it held {}", both));
  finding.cause =
      "This is PM2's own limit (max_memory_restart), not the machine's. Either the limit is too small for "
      "the program, or the program keeps growing.";
  // A number without a letter is bytes.
  if (limit && *limit < mebibytes(1))
    finding.cause +=
        fmt::format(" No program fits in {}: the number probably lacks an 'M' or 'G'.", format_bytes(*limit));
  finding.confidence = Confidence::certain;
  const std::string larger =
      held && !is_impossible(*held)
          ? fmt::format("{}M", (held->count + held->count / 4) / mebibytes(1).count + 1)
          : "SIZE";
  finding.cures = {{"raise the limit", fmt::format("pm2 start SCRIPT --max-memory-restart {}", larger), {}},
                   {"check whether its memory keeps growing", "headroom watch -- COMMAND", {}}};
  return finding;
}

Finding explain_dask(const LogMessage& message, Finding finding) {
  const bool is_paused = message.text("state") == "paused";
  const auto limit = message.bytes("limit_bytes");
  const std::string both = words_of_both(message);
  if (is_paused) {
    finding.id = "worker-paused-for-memory";
    finding.severity = Severity::warning;
    finding.title = fmt::format("Dask paused a worker: it held {}",
                                both.empty() ? "most of its memory limit" : both + ", its limit");
    finding.cause =
        "A paused worker starts no new task until it holds less. Stored data or large tasks fill it. If its "
        "memory does not shrink, Dask ends it at 95 %.";
  } else {
    finding.title = fmt::format("Dask ended a worker: it held more than {} % of its memory limit",
                                message.number("share_percent").value_or(95));
    finding.cause =
        "This is the worker's own limit, by default its share of the machine. Another worker runs its tasks "
        "again and may fail in the same way.";
  }
  finding.confidence = Confidence::certain;
  const std::string larger =
      limit && !is_impossible(*limit)
          ? fmt::format("{}MiB", (limit->count + limit->count / 2) / mebibytes(1).count)
          : "SIZE";
  finding.cures = {
      {"run fewer workers, with more memory each",
       fmt::format("dask worker SCHEDULER --nworkers 1 --memory-limit {}", larger),
       {}},
      {"process the data in smaller pieces", "dataframe.repartition(partition_size='100MB')", {}},
      {"see which tasks hold the memory", "http://SCHEDULER:8787/status", {}}};
  return finding;
}

Finding explain(const LogMessage& message) {
  Finding finding;
  finding.id = "process-killed-for-memory";
  finding.severity = Severity::severe;
  return message.text("who") == kPm2 ? explain_pm2(message, std::move(finding))
                                     : explain_dask(message, std::move(finding));
}

}  // namespace

LogRule watched_limit_rule() {
  LogRule rule{"watched-limit",
               {"exceeds --max-memory-restart", "% memory budget. Restarting", "ng worker."},
               read,
               explain};
  rule.from_outside = true;
  return rule;
}

}  // namespace headroom::doctor
