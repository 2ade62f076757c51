// The names of pods and containers around a kill in kubectl's output: before it in `kubectl describe pod`,
// before or behind it in JSON and YAML.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "doctor/log/log_place.h"
#include "doctor/log/log_rule.h"

namespace headroom::doctor {

// LogMessage::part of lines about a kill.
inline constexpr std::string_view kPodReason = "reason", kPodExitCode = "exit code";

// Reads a line that belongs to a pod without doubt, and a line behind it (LogRule::read_behind), which alone
// would be too common to search for.
std::optional<LogMessage> read_pod_names(std::string_view line);
std::optional<LogMessage> read_names_behind(std::string_view line);

// LogMessage::subject of a container, "pod det-0 detector ", or of an unknown container of a pod, "pod det-0
// ". With the space, no subject is the begin of another name.
inline constexpr std::string_view kOfPod = "pod ";
std::string subject_of_pod(std::string_view pod, std::string_view container);

class PodNames {
 public:
  // Whether the line has names only.
  static bool are_told_by(const LogMessage& message);
  // Reads such a line. Returns the group of an earlier message about container(), if it waited for the name.
  std::optional<std::size_t> read(const LogMessage& line, const LogPlace& at);
  const std::string& container() const { return container_; }

  // Adds the known names to a message about a kill.
  void explain(LogMessage& message, const LogPlace& at) const;
  // The container's name may follow this message of that group.
  void wait_for_container(const LogMessage& message, std::size_t group);

 private:
  void begin(const LogMessage& line, const LogPlace& at);
  void read_name(const std::string& name, std::int64_t line);
  void read_namespace(const std::string& name, std::int64_t line);
  void set_container(const std::string& name, std::int64_t line);
  bool knows_container(const LogPlace& at) const;

  std::string file_, pod_, namespace_, container_;
  std::string last_name_;  // of any object
  std::int64_t last_name_line_ = 0, container_line_ = 0;
  bool has_headings_ = false, waits_for_pod_ = false, is_of_kubernetes_ = false;
  std::optional<std::size_t> waiting_;
};

}  // namespace headroom::doctor
