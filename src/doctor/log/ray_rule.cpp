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
  for (const std::string_view before : {", name=", "(name="})
    if (const auto name = text_after(line, before)) {
      message.add("task", name->substr(0, name->find(',')));
      break;
    }
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

// Of "… at node (ID: 28f2, IP: 172.31.105.218)", "… with IP 172.17.0.2.".
void add_address(LogMessage& message, std::string_view line) {
  for (const std::string_view words : {"IP: ", " with IP "})
    if (const auto rest = text_after(line, words)) {
      std::string_view address = rest->substr(0, rest->find_first_not_of("0123456789abcdef.:"));
      while (address.ends_with('.') || address.ends_with(':')) address.remove_suffix(1);
      message.add("node", address);
      return;
    }
}

// Ray 2.0 and 2.1: "System memory low at node with IP 172.17.0.2. Used memory (23.63GB) / total capacity
// (33.28GB) (0.709971) exceeds threshold 0.7, killing latest task with name f and actor ID … to avoid running
// out of memory."
std::optional<LogMessage> read_first(std::string_view line) {
  const auto used = text_after(line, "Used memory (");
  if (!used || !has(line, "System memory low at node") || !has(*used, "killing latest task"))
    return std::nullopt;
  LogMessage message;
  message.part = "node";
  add_address(message, line);
  if (const auto name = text_after(*used, " with name "))
    message.add(
        "task",
        name->substr(0, std::min({name->find(" and actor "), name->find(" to avoid "), name->find(", ")})));
  message.add("used_bytes", leading_size(*used));
  message.add("total_bytes", size_after(*used, "total capacity ("));
  if (const auto threshold = text_after(*used, "exceeds threshold "))
    message.add("threshold", threshold->substr(0, threshold->find(',')));
  return message;
}

// "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.", on the next line
// "Memory on the node (IP: …) where the task (task ID: …, name=f, pid=1234, memory used=1.23GB) was running
// was 7.20GB / 7.60GB (0.947368), which exceeds …"; "(raylet) 2 Workers (tasks / actors) killed due to memory
// pressure (OOM), …", which Ray says with 0 of them, too.
std::optional<LogMessage> read(std::string_view line) {
  if (auto message = read_first(line)) return message;
  LogMessage message;
  if (has(line, "ray.exceptions.OutOfMemoryError: ") &&
      has(line, " killed due to the node running low on memory")) {
    message.part = "exception";
  } else if (has(line, "Memory on the node (") && has(line, " where the ")) {
    message.part = "node";
    read_node(line, message);
    add_address(message, line);
    message.may_go_on = message.text("threshold").empty();
    return message;
  } else if (const std::size_t at =
                 line.find(" Workers (tasks / actors) killed due to memory pressure (OOM)");
             at != line.npos) {
    const std::string_view before = line.substr(0, at);
    const auto workers = integer_after(before.substr(before.rfind(' ') + 1), "");
    if (workers.value_or(0) <= 0) return std::nullopt;
    message.part = "raylet";
    message.add("workers", workers);
    add_address(message, line);
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
  const auto workers = message.number("workers").value_or(1);
  const std::string node = message.text("node");
  finding.title = fmt::format(
      "Ray killed {}: {} ran low on memory",
      !task.empty() ? fmt::format("the task {}", task)
      : workers > 1 ? fmt::format("{} workers", workers)
                    : std::string("a task or an actor"),
      node.empty() ? (workers > 1 ? "their node" : "its node") : fmt::format("the node {}", node));
  finding.cause = used && total ? fmt::format("{} of {} of the node's memory were used", format_bytes(*used),
                                              format_bytes(*total))
                                : std::string("More of the node's memory was used");
  finding.cause += threshold.empty() ? (used && total ? ", more than Ray allows" : " than Ray allows")
                                     : fmt::format(", above the share of {} that Ray allows", threshold);
  finding.cause += fmt::format(
      ". {}. Ray then kills the most recent task that it can restart, and retries it. That task is not "
      "always "
      "the one that grew.",
      held ? fmt::format("The task held {}", format_bytes(*held))
           : "Another log line lists the memory of each task");
  finding.confidence = Confidence::certain;
  const std::string memory = held && !is_impossible(*held) ? fmt::format("{}", held->count / 4 * 5) : "BYTES";
  finding.cures = {{"declare the memory of a task, so that Ray runs fewer at once",
                    fmt::format("@ray.remote(memory={})", memory),
                    {}},
                   {"run fewer tasks at once: reserve one more CPU for each", "@ray.remote(num_cpus=2)", {}},
                   {"see which processes hold the memory", "headroom top", {}},
                   {"raise Ray's threshold, if no other program needs the rest",
                    "RAY_memory_usage_threshold=0.98 ray start --head",
                    {}}};
  return finding;
}

}  // namespace

LogRule ray_rule() {
  LogRule rule{"ray",
               {"ray.exceptions.OutOfMemoryError", "Memory on the node (",
                "killed due to memory pressure (OOM)", "System memory low at node"},
               read,
               explain};
  rule.from_outside = rule.repeats_kills = true;
  return rule;
}

}  // namespace headroom::doctor
