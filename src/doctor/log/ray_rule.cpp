// Ray ends tasks and actors where the node's memory is used up to a threshold of its own, before the kernel
// has to.
#include <fmt/format.h>

#include <algorithm>

#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

// "… was 7.20GB / 7.60GB (0.947368), which exceeds the memory usage threshold of 0.95." Ray's GB are GiB.
void read_node(std::string_view line, LogMessage& message) {
  const auto task = text_after(line, "pid="), node = text_after(line, " was running was ");
  if (const auto name = text_after(line, ", name=")) message.add("task", name->substr(0, name->find(',')));
  if (task) message.add("pid", integer_after(*task, ""));
  message.add("resident_bytes", size_after(line, "memory used="));
  if (node) {
    message.add("used_bytes", leading_size(*node));
    message.add("total_bytes", size_after(*node, " / "));
  }
  if (const auto threshold = text_after(line, "memory usage threshold of ")) {
    std::string_view share = threshold->substr(0, std::min(threshold->find(' '), threshold->size()));
    while (share.ends_with('.') || share.ends_with(',')) share.remove_suffix(1);
    message.add("threshold", share);
  }
}

// "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.", on the next line
// "Memory on the node (IP: …) where the task (task ID: …, name=f, pid=1234, memory used=1.23GB) was running
// was 7.20GB / 7.60GB (0.947368), which exceeds …"; "(raylet) 2 Workers (tasks / actors) killed due to memory
// pressure (OOM), …", which Ray says with 0 of them, too.
std::optional<LogMessage> read(std::string_view line) {
  LogMessage message;
  if (has(line, "ray.exceptions.OutOfMemoryError: ") &&
      has(line, " killed due to the node running low on memory")) {
    message.part = "exception";
  } else if (has(line, "Memory on the node (") && has(line, "exceeds the memory usage threshold of ")) {
    message.part = "node";
    read_node(line, message);
    return message;
  } else if (const std::size_t at =
                 line.find(" Workers (tasks / actors) killed due to memory pressure (OOM)");
             at != line.npos) {
    const std::string_view before = line.substr(0, at);
    if (integer_after(before.substr(before.rfind(' ') + 1), "").value_or(0) == 0) return std::nullopt;
    message.part = "raylet";
  } else {
    return std::nullopt;
  }
  if (has(line, "Memory on the node (")) read_node(line, message);
  return message;
}

Finding explain(const LogMessage& message) {
  Finding finding;
  finding.id = "process-killed-for-memory";
  finding.severity = Severity::severe;
  const std::string task = message.text("task"), threshold = message.text("threshold");
  const auto held = message.bytes("resident_bytes"), used = message.bytes("used_bytes"),
             total = message.bytes("total_bytes");
  finding.title = fmt::format("Ray killed {}: its node was short of memory",
                              task.empty() ? "a task or an actor" : fmt::format("the task {}", task));
  finding.cause = fmt::format(
      "{} of {} of the node's memory were used{}; {}. Ray ends a task then, and tries it again: the latest "
      "one "
      "of those that may be, not always the one that grew.",
      words_for(used, "More"), words_for(total, "what there is"),
      threshold.empty() ? ", more than Ray allows"
                        : fmt::format(", above the share of {} that Ray allows", threshold),
      held ? fmt::format("the task held {}", format_bytes(*held)) : "its own line tells who held how much");
  finding.confidence = Confidence::certain;
  const std::string memory = held && !is_impossible(*held) ? fmt::format("{}", held->count / 4 * 5) : "BYTES";
  finding.cures = {{"tell Ray what a task takes, so that fewer run at once",
                    fmt::format("@ray.remote(memory={})", memory),
                    {}},
                   {"run fewer tasks at once: each takes a processor more", "@ray.remote(num_cpus=2)", {}},
                   {"see who holds the memory", "headroom top", {}},
                   {"let Ray wait longer, if nothing else needs the rest",
                    "RAY_memory_usage_threshold=0.98 ray start --head",
                    {}}};
  return finding;
}

}  // namespace

LogRule ray_rule() {
  LogRule rule{
      "ray",
      {"ray.exceptions.OutOfMemoryError", "Memory on the node (", "killed due to memory pressure (OOM)"},
      read,
      explain};
  rule.from_outside = rule.repeats_kills = true;
  return rule;
}

}  // namespace headroom::doctor
