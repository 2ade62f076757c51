// systemd, systemd-oomd, earlyoom, Docker, Kubernetes, Slurm and YARN tell of a process that was killed for
// want of memory.
#include <fmt/format.h>

#include "base/text.h"
#include "doctor/log/message_text.h"
#include "doctor/log/oom_kill_cures.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

constexpr const char *kOomd = "systemd-oomd", *kEarlyOom = "earlyoom", *kKubernetes = "Kubernetes";
constexpr const char* kYarn = "YARN";

// "detector.service: A process of this unit has been killed by the OOM killer.", "session-2.scope: Failed
// with result 'oom-kill'."
std::optional<LogMessage> read_systemd(std::string_view line) {
  if (!has(line, "Failed with result 'oom-kill'") && !has(line, "killed by the OOM killer"))
    return std::nullopt;
  LogMessage message;
  for (const std::string_view kind : {".service", ".scope", ".slice"}) {
    const std::size_t end = line.find(std::string(kind) + ": ");
    if (end == line.npos) continue;
    // Titles call a service one.
    const std::string_view before = line.substr(0, end + (kind == ".service" ? 0 : kind.size()));
    message.subject = before.substr(before.rfind(' ') + 1);
    break;
  }
  message.add("unit", message.subject);
  message.add("who", "systemd");
  message.part = has(line, "Failed with result") ? "result" : "killed";
  return message;
}

// "reason: OOMKilled", "\"reason\": \"OOMKilled\",", "reason=OOMKilled" and "Reason:       OOMKilled": a key
// and its value, not words that name it. A metric has the reason as a label, and counts.
bool is_reason(std::string_view line) {
  const std::size_t at = line.find("OOMKilled");
  std::string_view before = line.substr(0, at);
  const std::string_view rest = line.substr(at + std::string_view("OOMKilled").size());
  if (before.ends_with('"')) before.remove_suffix(1);
  before = trim(before);
  if (!before.ends_with(':') && !before.ends_with('=')) return false;
  before.remove_suffix(1);
  if (before.ends_with('"')) before.remove_suffix(1);
  if (!before.ends_with("eason")) return false;
  const auto value = rest.starts_with("\"") ? text_after(rest, "} ") : std::nullopt;
  return !has(line, "{") || !value || !has(line, "_reason{") || trim(*value) == "1";
}

// "detector-7d9f-abcde     0/1     OOMKilled   3 (25s ago)   2m11s": a row of `kubectl get pods`, or of
// `kubectl get all` with "pod/" before the name, which `kubectl describe pod` refuses; with --all-namespaces
// the namespace stands before it.
struct PodRow {
  std::string_view pod, name_space;
};
std::optional<PodRow> pod_of_row(std::string_view line) {
  const auto words = split_words(line);
  for (std::size_t i = 2; i < words.size(); ++i) {
    if (words[i] != "OOMKilled") continue;
    const std::string_view ready = words[i - 1];
    const std::size_t slash = ready.find('/');
    const bool is_ready = slash != ready.npos && slash > 0 && slash + 1 < ready.size() &&
                          ready.find_first_not_of("0123456789/") == ready.npos;
    if (!is_ready) continue;
    PodRow row{words[i - 2], {}};
    constexpr std::string_view kKind = "pod/", kOfNames = "abcdefghijklmnopqrstuvwxyz0123456789-";
    if (row.pod.starts_with(kKind)) row.pod.remove_prefix(kKind.size());
    // What a logger puts before a row has other letters in it.
    if (i == 3 && words[0].find_first_not_of(kOfNames) == words[0].npos) row.name_space = words[0];
    return row;
  }
  return std::nullopt;
}

std::optional<LogMessage> read_kubernetes(std::string_view line) {
  LogMessage message;
  // kubelet's: "System OOM encountered, victim process: infer, pid: 99123"
  if (const auto name = text_after(line, "System OOM encountered, victim process: ")) {
    message.add("who", kKubernetes);
    message.subject = name->substr(0, name->find(','));
    message.add("victim", message.subject);
    message.add("pid", integer_after(line, ", pid: "));
    return message;
  }
  // "The node was low on resource: memory. Threshold quantity: 100Mi, available: 92112Ki. Container detector
  // was using 3012340Ki, request is 0, has larger consumption of memory."
  if (const auto evicted = text_after(line, "The node was low on resource: memory")) {
    message.add("who", kKubernetes);
    message.add("eviction", "node");
    if (const auto container = text_after(*evicted, "Container ")) {
      message.subject = container->substr(0, container->find(' '));
      message.add("victim", message.subject);
    }
    message.add("threshold_bytes", size_after(*evicted, "Threshold quantity: "));
    message.add("available_bytes", size_after(*evicted, "available: "));
    message.add("resident_bytes", size_after(*evicted, " was using "));
    return message;
  }
  // False, with a reason of its own.
  if (has(line, "OOMKilled=false") || has(line, "OOMKilled: false")) return std::nullopt;
  const auto pod = has(line, "OOMKilled") ? pod_of_row(line) : std::nullopt;
  const bool is_told = has(line, "OOMKilled") && is_reason(line);
  if (!pod && !is_told) return std::nullopt;
  message.add("who", kKubernetes);
  if (pod) {
    message.subject = pod->pod;
    message.add("pod", pod->pod);
    message.add("namespace", pod->name_space);
  }
  return message;
}

// Slurm's: "Detected 1 oom-kill event(s) in StepId=191.batch cgroup.", "Detected 1 oom_kill event in …".
std::optional<LogMessage> read_slurm(std::string_view line) {
  const auto rest = text_after(line, "error: Detected ");
  const auto count = rest ? integer_after(*rest, "") : std::nullopt;
  if (!count || *count == 0 || (!has(*rest, " oom-kill event") && !has(*rest, " oom_kill event")))
    return std::nullopt;
  LogMessage message;
  message.add("who", "Slurm");
  std::string_view step = text_after(*rest, " in ").value_or("");
  for (const std::string_view word : {"StepId=", "step "})
    if (step.starts_with(word)) step.remove_prefix(word.size());
  step = step.substr(0, step.find(' '));
  if (step.ends_with('.')) step.remove_suffix(1);
  message.subject = step;
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

std::optional<LogMessage> read(std::string_view line) {
  for (const auto& read_form : {read_systemd, read_kubernetes, read_slurm, read_yarn})
    if (auto message = read_form(line)) return message;
  LogMessage message;
  // "Killed /user.slice/…/app-x.scope due to memory pressure for /user.slice/… being 62.10% > 50.00% for …"
  if (const auto path = text_after(line, "Killed ");
      path && has(line, "systemd-oomd") && has(*path, " due to ")) {
    const std::string_view group = path->substr(0, path->find(" due to "));
    message.subject = group.substr(group.rfind('/') + 1);
    message.add("unit", message.subject);
    message.add("user_id", user_of(group));
    if (const auto pressure = text_after(*path, " being "); pressure && has(*pressure, " for "))
      message.add("pressure", pressure->substr(0, pressure->find(" for ")));
    message.add("who", kOomd);
    return message;
  }
  // "sending SIGTERM to process 4321 uid 1000 "python3": badness 800, VmRSS 3456 MiB"
  if (has(line, "sending SIG") && has(line, "badness ")) {
    message.add("who", kEarlyOom);
    message.add("pid", integer_after(line, " to process "));
    if (const auto name = text_after(line, " \""); name && name->find("\": badness") != name->npos)
      message.subject = name->substr(0, name->find("\": badness"));
    message.add("victim", message.subject);
    message.add("resident_bytes", size_after(line, "VmRSS "));
    return message;
  }
  // `docker events` and `docker inspect`, its words without quotation marks where a format was asked for.
  if (has(line, "container oom ") || has(line, "\"OOMKilled\": true") || has(line, "\"OOMKilled\":true") ||
      has(line, "OOMKilled=true") || has(line, "OOMKilled: true")) {
    message.add("who", "Docker");
    return message;
  }
  return std::nullopt;
}

// For a regular expression: a name from a log may hold what has a meaning in one, or in a shell.
std::string escaped(std::string_view name) {
  std::string text;
  for (const char letter : name) {
    if (std::string_view(".[]{}()*+?^$|\\").find(letter) != std::string_view::npos) text += '\\';
    text += letter;
  }
  return text;
}

// A pod has more names than its container; what it asked for is what the scheduler keeps free for it.
Finding explain_eviction(const LogMessage& message, Finding finding) {
  const auto held = message.bytes("resident_bytes"), available = message.bytes("available_bytes");
  const std::string victim = message.text("victim");
  finding.title = fmt::format("Kubernetes evicted a pod{}: its node was short of memory",
                              victim.empty() ? "" : fmt::format(" (container {})", victim));
  finding.cause = fmt::format("The node had {} available{}. Who used more than it requested goes first.",
                              words_for(available, "too little"),
                              held ? fmt::format(", and the container held {}", format_bytes(*held)) : "");
  finding.confidence = Confidence::certain;
  const std::string size =
      held && !is_impossible(*held) ? fmt::format("{}Mi", held->count / 4 * 5 / mebibytes(1).count) : "SIZE";
  finding.cures = {
      {"request what it needs, so that it is placed where that is free",
       fmt::format("kubectl set resources deployment NAME --requests=memory={}", size),
       {}},
      {"see which pods hold the node's memory", "kubectl top pods --all-namespaces --sort-by=memory", {}}};
  return finding;
}

std::string describe_pod(const LogMessage& message) {
  const std::string name_space = message.text("namespace");
  return fmt::format("kubectl describe pod {}{}",
                     name_space.empty() ? "" : fmt::format("--namespace {} ", shell_word(name_space)),
                     shell_word(message.text("pod")));
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
  const std::string unit = message.text("unit"), victim = message.text("victim"), who = message.text("who");
  Finding finding;
  finding.id = "process-killed-for-memory";
  finding.severity = Severity::severe;
  if (!message.text("eviction").empty()) return explain_eviction(message, finding);
  if (who == kYarn) return explain_yarn(message, finding);
  const auto pid = message.number("pid");
  const std::string pod = message.text("pod"), step = message.text("step");
  const std::string name = !victim.empty() && pid ? fmt::format("{} (process {})", victim, *pid)
                           : !pod.empty()         ? "A container of the pod " + pod
                           : !step.empty()        ? "A process of the step " + step
                           : unit.empty()         ? "A process"
                           : who == kOomd || unit.ends_with(".scope") || unit.ends_with(".slice")
                               ? unit
                               : "The service " + unit;
  finding.title = fmt::format("{} was killed for want of memory (told by {})", name, who);
  finding.cause = "The machine or the control group had no memory left; this line does not tell who held it.";
  finding.confidence = Confidence::possible;
  finding.cures = {{"read the kernel's own report of it", "journalctl -k | headroom doctor -", {}},
                   {"see who holds the memory", "headroom top", {}}};
  if (!pod.empty())
    finding.cures.push_back({"see its limit, and what it was told", describe_pod(message), {}});
  if (!step.empty()) {
    finding.cause =
        "The step reached the memory that its job asked for; this line does not tell who held it.";
    finding.cures = {{"see how much it held",
                      fmt::format("sacct -j {} --format=JobID,MaxRSS,ReqMem", shell_word(step)),
                      {}},
                     {"ask for more", "sbatch --mem=SIZE SCRIPT", {}},
                     {"measure what it needs", "headroom trace -- COMMAND", {}}};
  }
  // These two act before the kernel has to, which writes no report then.
  if (who != kOomd && who != kEarlyOom) return finding;
  finding.cures.erase(finding.cures.begin());
  const std::string pressure = message.text("pressure");
  if (who == kOomd) {
    finding.cause = fmt::format(
        "Memory was short, not gone: systemd-oomd ends a group when its tasks wait for memory "
        "too long{}.",
        pressure.empty() ? "" : fmt::format(" ({})", pressure));
    finding.cures.push_back(set_property("let it choose another first", message.text("user_id"),
                                         unit.empty() ? "UNIT" : unit, "ManagedOOMPreference=avoid"));
  } else {
    finding.cause =
        "Little memory and swap were left: earlyoom ends the largest process before the kernel has to.";
    finding.cures.push_back(
        {"let it choose another first",
         "earlyoom --avoid " + shell_word(fmt::format("^{}$", victim.empty() ? "NAME" : escaped(victim))),
         {}});
  }
  return finding;
}

}  // namespace

LogRule oom_daemon_rule() {
  LogRule rule{"oom-daemon",
               {"System OOM encountered", "container oom ", "result 'oom-kill'", "by the OOM killer",
                "systemd-oomd", ": badness ", "OOMKilled", "low on resource: memory", "rror: Detected ",
                "killed by YARN for", "is running beyond physical memory", "beyond the 'PHYSICAL' memory"},
               read,
               explain};
  rule.from_outside = rule.repeats_kills = true;
  return rule;
}

}  // namespace headroom::doctor
