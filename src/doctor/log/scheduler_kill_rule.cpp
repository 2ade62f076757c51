// Slurm, YARN, LSF and PBS tell of a job that was killed for want of the memory that it had asked for.
#include <fmt/format.h>

#include <string>
#include <utility>

#include "base/text.h"
#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

constexpr const char *kSlurm = "Slurm", *kYarn = "YARN", *kLsf = "LSF", *kPbs = "PBS";
constexpr std::string_view kVirtual = "virtual";

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
  if (*count > 1) message.add("kills", count);
  message.is_of_unnamed = true;
  return message;
}

// srun's: "srun: error: nid001277: tasks 1-3: Out Of Memory", "srun: error: n1: task 0: Out Of Memory".
std::optional<LogMessage> read_srun(std::string_view line) {
  const std::size_t end = line.find(": Out Of Memory");
  const auto node = end == line.npos ? std::nullopt : text_after(line.substr(0, end), "srun: error: ");
  const std::size_t tasks = node ? node->find(": task") : line.npos;
  if (tasks == line.npos) return std::nullopt;
  LogMessage message;
  message.is_vague = true;
  message.part = "srun";
  message.add("who", kSlurm);
  message.add("node", node->substr(0, tasks));
  const std::string_view numbers = node->substr(tasks + 2);  // "task 0", "tasks 1-3"
  message.add("tasks", numbers.substr(numbers.find(' ') + 1));
  return message;
}

// "… 5.5 GB of 5.5 GB physical memory used", and of virtual memory.
bool add_usage(LogMessage& message, std::string_view line, std::string_view end_words) {
  const std::size_t end = line.find(end_words);
  if (end == line.npos) return false;
  const std::string_view before = line.substr(0, end);
  const std::size_t limit = before.rfind(" of ");
  if (limit == before.npos) return false;
  const std::string_view usage = before.substr(0, limit);  // "… 5.5 GB"
  const std::size_t unit = usage.find_last_of(' '), number = usage.substr(0, unit).find_last_of(' ');
  if (number != usage.npos) message.add("resident_bytes", leading_size(usage.substr(number)));
  message.add("limit_bytes", size_after(before.substr(limit), " of "));
  return true;
}

// YARN's, and Spark's of it: "Container killed by YARN for exceeding memory limits. 5.5 GB of 5.5 GB physical
// memory used.", "Container [pid=4733,containerID=container_1] is running beyond physical memory limits.
// Current usage: 1.0 GB of 1 GB physical memory used; 2.7 GB of 2.1 GB virtual memory used.", since Hadoop 3
// "… is running 3145728B beyond the 'PHYSICAL' memory limit. Current usage: …"; and of virtual memory, which
// has a limit, too. Spark's driver says it of the executor and of the task.
std::optional<LogMessage> read_yarn(std::string_view line) {
  const bool is_virtual =
      has(line, "is running beyond virtual memory") || has(line, "beyond the 'VIRTUAL' memory limit");
  if (!is_virtual && !has(line, "killed by YARN for exceeding") &&
      !has(line, "is running beyond physical memory") && !has(line, "beyond the 'PHYSICAL' memory limit"))
    return std::nullopt;
  LogMessage message;
  message.add("who", kYarn);
  constexpr std::string_view kUsed = " virtual memory used";
  if ((is_virtual || !add_usage(message, line, " physical memory used")) &&
      (add_usage(message, line, kUsed) || is_virtual))
    message.add("memory", kVirtual);
  if (const auto executor = integer_after(line, "xecutor "))
    message.event = fmt::format("executor {}", *executor);
  return message;
}

// "TERM_MEMLIMIT: job killed after reaching LSF memory usage limit."
std::optional<LogMessage> read_lsf(std::string_view line) {
  if (!has(line, "TERM_MEMLIMIT: job killed")) return std::nullopt;
  LogMessage message;
  message.add("who", kLsf);
  message.is_of_unnamed = true;
  return message;
}

// "=>> PBS: job killed: mem 38427376kb exceeded limit 33554432kb", "vmem" likewise. Torque's "Job exceeded a
// memory resource limit (vmem, pvmem, etc.). Job was aborted", with what it used in a mail's later lines:
// "resources_used.vmem=286793240kb", "req_information.total_memory.0=209715200kb".
std::optional<LogMessage> read_pbs(std::string_view line) {
  LogMessage message;
  if (const auto killed = text_after(line, "PBS: job killed: ");
      killed && has(*killed, "mem ") && has(*killed, " exceeded limit ")) {
    message.add("who", kPbs);
    message.add("resident_bytes", size_after(*killed, "mem "));
    message.add("limit_bytes", size_after(*killed, " exceeded limit "));
    if (killed->starts_with("vmem ")) message.add("memory", kVirtual);
    message.is_of_unnamed = true;
    return message;
  }
  if (has(line, "Job exceeded a memory resource limit (")) {
    message.add("who", kPbs);
    message.part = "exceeded";
    message.is_of_unnamed = true;
    return message;
  }
  message.is_addition = true;
  if (const auto used = size_after(line, "resources_used.vmem=")) {
    message.part = "used";
    message.add("resident_bytes", used);
    message.add("memory", kVirtual);
    return message;
  }
  const auto limit = size_after(line, "req_information.total_memory.0=");
  if (!limit) return std::nullopt;
  message.part = "limit";
  message.add("limit_bytes", limit);
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
  for (const auto& read_form : {read_slurm, read_srun, read_limit_of_slurm, read_yarn, read_lsf, read_pbs})
    if (auto message = read_form(line)) return message;
  return std::nullopt;
}

// Virtual memory is what a process has mapped, and not what it holds: YARN allows 2.1 times as much of it.
Finding explain_virtual_of_yarn(const LogMessage& message, Finding finding) {
  const auto mapped = message.bytes("resident_bytes"), limit = message.bytes("limit_bytes");
  finding.title = fmt::format(
      "YARN killed a container for its virtual memory{}",
      mapped && limit ? fmt::format(": {} of {}", format_bytes(*mapped), format_bytes(*limit)) : "");
  finding.cause =
      "Virtual memory is mapped, not used: Java, Python and their threads map much more than they use. YARN "
      "allows 2.1 times the requested memory, so the machine need not be full.";
  finding.confidence = Confidence::likely;
  finding.cures = {
      {"disable the check of virtual memory (yarn-site.xml)",
       "yarn.nodemanager.vmem-check-enabled=false",
       {}},
      {"or allow more virtual memory (yarn-site.xml)", "yarn.nodemanager.vmem-pmem-ratio=5", {}}};
  return finding;
}

// What it asks for is its heap and, by default, a tenth of that beside it.
Finding explain_yarn(const LogMessage& message, Finding finding) {
  if (message.text("memory") == kVirtual) return explain_virtual_of_yarn(message, std::move(finding));
  const auto held = message.bytes("resident_bytes"), limit = message.bytes("limit_bytes");
  finding.title = fmt::format("YARN killed a container for its memory use{}",
                              limit ? fmt::format(": it had requested {}", format_bytes(*limit)) : "");
  finding.cause = fmt::format(
      "The container held {}. Python workers and libraries also allocate memory outside the Java heap.",
      held ? fmt::format("{} and had requested no more", format_bytes(*held))
           : std::string("more than it had requested"));
  finding.confidence = Confidence::likely;
  const std::string size =
      limit && !is_impossible(*limit)
          ? fmt::format("{}m", (limit->count / 10 + limit->count / 4) / mebibytes(1).count)
          : "SIZE";
  finding.cures = {{"request a quarter more memory outside the heap",
                    fmt::format("spark-submit --conf spark.executor.memoryOverhead={} APPLICATION", size),
                    {}},
                   {"run fewer tasks at once in the container",
                    "spark-submit --conf spark.executor.cores=1 APPLICATION",
                    {}}};
  return finding;
}

// LSF and PBS: the job's own request is the limit.
Finding explain_job(const LogMessage& message, Finding finding) {
  const std::string who = message.text("who");
  const auto held = message.bytes("resident_bytes"), limit = message.bytes("limit_bytes");
  const std::string kind = message.text("memory") == kVirtual ? " of virtual memory" : "";
  finding.title = fmt::format(
      "A job was killed because it reached its memory limit (reported by {}){}", who,
      held && limit ? fmt::format(": it used {} of {}{}", format_bytes(*held), format_bytes(*limit), kind)
                    : "");
  finding.cause =
      "The job used all the memory that it requested. Either its peak is higher, or a process keeps growing.";
  finding.confidence = Confidence::certain;
  const bool is_known = held && !is_impossible(*held);
  const std::string size =
      is_known ? fmt::format("{}mb", held->count / 4 * 5 / mebibytes(1).count) : std::string("SIZE");
  const bool is_lsf = who == kLsf;
  finding.cures = {{"request more memory",
                    is_lsf ? "bsub -M SIZE -R 'rusage[mem=SIZE]' COMMAND"
                           : fmt::format("qsub -l {}={} SCRIPT", kind.empty() ? "mem" : "vmem", size),
                    {}},
                   {"see how much memory it held", is_lsf ? "bjobs -l JOB" : "qstat -xf JOB", {}},
                   {"measure how much memory it needs", "headroom trace -- COMMAND", {}}};
  return finding;
}

Finding explain(const LogMessage& message) {
  Finding finding;
  finding.id = "process-killed-for-memory";
  finding.severity = Severity::severe;
  if (message.text("who") == kYarn) return explain_yarn(message, finding);
  if (message.text("who") != kSlurm) return explain_job(message, finding);
  const std::string step = message.text("step"), node = message.text("node"),
                    command = message.text("command"), tasks = message.text("tasks");
  const auto limit = message.bytes("limit_bytes");
  const std::int64_t kills = message.number("kills").value_or(1);
  const bool are_several = kills > 1;
  const std::string what = are_several ? fmt::format("{} processes", kills) : std::string("A process");
  const std::string others = kills > 2     ? fmt::format(" and {} other processes", kills - 1)
                             : are_several ? " and another process"
                                           : "";
  finding.title = fmt::format("{} {} killed because memory ran out (reported by Slurm)",
                              !command.empty() ? fmt::format("'{}'{}", command, others)
                              : step.empty()   ? what
                                               : fmt::format("{} of the step {}", what, step),
                              are_several ? "were" : "was");
  finding.cause =
      fmt::format("The step used all of the {} that its job requested{}.", words_for(limit, "memory"),
                  command.empty() ? "; the log does not say which process held it" : "");
  if (!node.empty())
    finding.cause += fmt::format(" It ran on the node {}, {} {}.", node,
                                 tasks.find_first_of("-,") == tasks.npos ? "task" : "tasks", tasks);
  finding.confidence = Confidence::likely;
  if (message.is_vague && step.empty() && node.empty()) {
    finding.confidence = Confidence::possible;
    finding.severity = Severity::warning;
    finding.title = "A job reached the memory that it requested (reported by Slurm)";
    finding.cause = "Slurm also counts the page cache. If no process of the job was killed, nothing failed.";
  }
  const std::string size = limit && !is_impossible(*limit)
                               ? fmt::format("{}M", limit->count / 4 * 5 / mebibytes(1).count)
                               : "SIZE";
  finding.cures = {
      {"see how much memory it held",
       fmt::format("sacct -j {} --format=JobID,MaxRSS,ReqMem", step.empty() ? "JOB" : shell_word(step)),
       {}},
      {"request more memory", fmt::format("sbatch --mem={} SCRIPT", size), {}},
      {"measure how much memory it needs", "headroom trace -- COMMAND", {}}};
  return finding;
}

}  // namespace

LogRule scheduler_kill_rule() {
  LogRule rule{"scheduler-kill",
               {"rror: Detected ", ": Out Of Memory", "job memory limit", "DUE TO MEMORY LIMIT",
                "exceeded memory limit (", "killed by YARN for", "is running beyond physical memory",
                "is running beyond virtual memory", "beyond the 'PHYSICAL' memory",
                "beyond the 'VIRTUAL' memory", "TERM_MEMLIMIT: job killed", "PBS: job killed: ",
                "exceeded a memory resource limit", "_used.vmem=", "req_information.total_memory.0="},
               read,
               explain};
  rule.from_outside = rule.repeats_kills = true;
  return rule;
}

}  // namespace headroom::doctor
