// Slurm and YARN tell of a job that was killed for want of the memory that it had asked for.
#include <fmt/format.h>

#include <string>

#include "base/text.h"
#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

constexpr const char *kSlurm = "Slurm", *kYarn = "YARN";

// Slurm's: "Detected 1 oom-kill event(s) in StepId=191.batch cgroup.", "Detected 1 oom_kill event in …".
std::optional<LogMessage> read_slurm(std::string_view line) {
  const auto rest = text_after(line, "error: Detected ");
  const auto count = rest ? integer_after(*rest, "") : std::nullopt;
  if (!count || *count == 0 || (!has(*rest, " oom-kill event") && !has(*rest, " oom_kill event")))
    return std::nullopt;
  LogMessage message;
  message.add("who", kSlurm);
  std::string_view step = text_after(*rest, " in ").value_or("");
  for (const std::string_view word : {"StepId=", "step "})
    if (step.starts_with(word)) step.remove_prefix(word.size());
  step = step.substr(0, step.find(' '));
  if (step.ends_with('.')) step.remove_suffix(1);
  message.subject = step;
  message.part = "detected";
  message.add("step", step);
  return message;
}

// YARN's, and Spark's of it: "Container killed by YARN for exceeding memory limits. 5.5 GB of 5.5 GB physical
// memory used.", "Container [pid=4733,containerID=container_1] is running beyond physical memory limits.
// Current usage: 1.0 GB of 1 GB physical memory used", since Hadoop 3 "… is running 3145728B beyond the
// 'PHYSICAL' memory limit. Current usage: …".
std::optional<LogMessage> read_yarn(std::string_view line) {
  if (!has(line, "killed by YARN for exceeding") && !has(line, "is running beyond physical memory") &&
      !has(line, "beyond the 'PHYSICAL' memory limit"))
    return std::nullopt;
  LogMessage message;
  message.add("who", kYarn);
  const std::size_t end = line.find(" physical memory used");
  if (end == line.npos) return message;
  const std::string_view before = line.substr(0, end);
  const std::size_t limit = before.rfind(" of ");
  if (limit == before.npos) return message;
  const std::string_view usage = before.substr(0, limit);  // "… 5.5 GB"
  const std::size_t unit = usage.find_last_of(' '), number = usage.substr(0, unit).find_last_of(' ');
  if (number != usage.npos) message.add("resident_bytes", leading_size(usage.substr(number)));
  message.add("limit_bytes", size_after(before.substr(limit), " of "));
  return message;
}

// Slurm's where it watches the memory itself, in several lines: "slurmstepd: error: Job 1234 exceeded memory
// limit (4194504 > 4194304), being killed", in KiB; "slurmstepd: error: *** JOB 1234 ON n1 CANCELLED AT
// 2026-03-01T10:00:00 DUE TO MEMORY LIMIT ***"; "slurmstepd: error: Exceeded job memory limit at some
// point.", which alone may be said of a job that went on, as page cache counts.
std::optional<LogMessage> read_limit_of_slurm(std::string_view line) {
  LogMessage message;
  message.add("who", kSlurm);
  if (has(line, "Exceeded job memory limit at some point")) {
    message.is_vague = true;
    message.part = "at some point";
    return message;
  }
  const auto job_after = [&](std::string_view words) {
    if (const auto rest = text_after(line, words); rest && message.subject.empty())
      message.subject = rest->substr(0, rest->find(' '));
  };
  if (has(line, " DUE TO MEMORY LIMIT")) {
    job_after("*** JOB ");
    job_after("*** STEP ");
    message.part = "cancelled";
  } else if (const auto sizes = text_after(line, " exceeded memory limit (");
             sizes && has(line, ", being killed")) {
    job_after("error: Job ");
    job_after("error: Step ");
    message.part = "exceeded";
    const auto kibibytes = [](const std::optional<std::int64_t>& number) {
      constexpr std::int64_t kMost = std::int64_t{1} << 40;
      return number && *number > 0 && *number < kMost ? std::optional(Bytes{*number * 1024}) : std::nullopt;
    };
    message.add("resident_bytes", kibibytes(integer_after(*sizes, "")));
    message.add("limit_bytes", kibibytes(integer_after(*sizes, " > ")));
  } else {
    return std::nullopt;
  }
  message.add("step", message.subject);
  return message;
}

std::optional<LogMessage> read(std::string_view line) {
  for (const auto& read_form : {read_slurm, read_limit_of_slurm, read_yarn})
    if (auto message = read_form(line)) return message;
  return std::nullopt;
}

// What it asks for is its heap and, by default, a tenth of that beside it.
Finding explain_yarn(const LogMessage& message, Finding finding) {
  const auto held = message.bytes("resident_bytes"), limit = message.bytes("limit_bytes");
  finding.title = fmt::format("A container was killed for want of memory (told by YARN){}",
                              limit ? fmt::format(": it had asked for {}", format_bytes(*limit)) : "");
  finding.cause = fmt::format(
      "It held {}, and had asked for no more: beside the heap of Java there are Python's workers and what "
      "libraries allocate.",
      words_for(held, "all of it"));
  finding.confidence = Confidence::likely;
  const std::string size =
      limit && !is_impossible(*limit)
          ? fmt::format("{}m", (limit->count / 10 + limit->count / 4) / mebibytes(1).count)
          : "SIZE";
  finding.cures = {
      {"ask for a quarter more, beside the heap",
       fmt::format("spark-submit --conf spark.executor.memoryOverhead={} APPLICATION", size),
       {}},
      {"run fewer tasks at once in it", "spark-submit --conf spark.executor.cores=1 APPLICATION", {}}};
  return finding;
}

Finding explain(const LogMessage& message) {
  Finding finding;
  finding.id = "process-killed-for-memory";
  finding.severity = Severity::severe;
  if (message.text("who") == kYarn) return explain_yarn(message, finding);
  const std::string step = message.text("step");
  const auto limit = message.bytes("limit_bytes");
  finding.title = fmt::format("{} was killed for want of memory (told by Slurm)",
                              step.empty() ? "A process" : "A process of the step " + step);
  finding.cause =
      limit ? fmt::format(
                  "The step reached the {} that its job asked for; this line does not tell who held it.",
                  format_bytes(*limit))
            : "The step reached the memory that its job asked for; this line does not tell who held it.";
  finding.confidence = Confidence::possible;
  if (message.is_vague && step.empty()) {
    finding.severity = Severity::warning;
    finding.title = "A job reached the memory that it had asked for (told by Slurm)";
    finding.cause = "Slurm counts page cache, too: if nothing of the job was killed, nothing failed.";
  }
  const std::string size = limit && !is_impossible(*limit)
                               ? fmt::format("{}M", limit->count / 4 * 5 / mebibytes(1).count)
                               : "SIZE";
  finding.cures = {
      {"see how much it held",
       fmt::format("sacct -j {} --format=JobID,MaxRSS,ReqMem", step.empty() ? "JOB" : shell_word(step)),
       {}},
      {"ask for more", fmt::format("sbatch --mem={} SCRIPT", size), {}},
      {"measure what it needs", "headroom trace -- COMMAND", {}}};
  return finding;
}

}  // namespace

LogRule scheduler_kill_rule() {
  LogRule rule{"scheduler-kill",
               {"rror: Detected ", "job memory limit", "DUE TO MEMORY LIMIT", "exceeded memory limit (",
                "killed by YARN for", "is running beyond physical memory", "beyond the 'PHYSICAL' memory"},
               read,
               explain};
  rule.from_outside = rule.repeats_kills = true;
  return rule;
}

}  // namespace headroom::doctor
