// The names of pods and containers that stand around what kubectl prints of a kill: before it in
// `kubectl describe pod`, before or behind it in JSON and YAML.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "doctor/log/log_place.h"
#include "doctor/log/log_rule.h"

namespace headroom::doctor {

// Parts of what is told of a kill: LogMessage::part.
inline constexpr std::string_view kPodReason = "reason", kPodExitCode = "exit code";

// A line that shows by itself that it is of a pod, and one behind such a line (LogRule::read_behind), which
// alone would be too common to look for.
std::optional<LogMessage> read_pod_names(std::string_view line);
std::optional<LogMessage> read_names_behind(std::string_view line);

// LogMessage::subject of what tells of a pod, and of one of its containers: "pod det-0 detector ", "pod det-0
// " where it may be any of them; no name is the begin of another.
inline constexpr std::string_view kOfPod = "pod ";
std::string subject_of_pod(std::string_view pod, std::string_view container);

class PodNames {
 public:
  // Whether it is a line of names, and no message.
  static bool are_told_by(const LogMessage& message);
  // Reads such a line. What it returns is the group of a message before it, of the container() that it names.
  std::optional<std::size_t> read(const LogMessage& line, const LogPlace& at);
  const std::string& container() const { return container_; }

  // Adds the names that are known to what was told of a kill.
  void explain(LogMessage& message, const LogPlace& at) const;
  // Of this message in that group the container's name may still follow.
  void wait_for_container(const LogMessage& message, std::size_t group);

 private:
  void begin(const LogMessage& line, const LogPlace& at);
  void read_name(const std::string& name, std::int64_t line);
  void read_namespace(const std::string& name, std::int64_t line);
  void set_container(const std::string& name, std::int64_t line);
  bool knows_container(const LogPlace& at) const;

  std::string file_, pod_, namespace_, container_;
  std::string last_name_;  // of whatever it is
  std::int64_t last_name_line_ = 0, container_line_ = 0;
  bool has_headings_ = false, waits_for_pod_ = false, is_of_kubernetes_ = false;
  std::optional<std::size_t> waiting_;
};

}  // namespace headroom::doctor
