// Runs the actions of an alert without delaying samples. Commands, webhooks and MQTT messages run as child
// processes (the latter two with curl and mosquitto_pub), which are killed after 15 s.
#pragma once

#include <deque>
#include <set>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/subprocess.h"
#include "watch/alert_rules_file.h"
#include "watch/mqtt_options.h"

namespace headroom::watch {

// {"alert": "total_memory", "state": "fired", "severity": "critical", "text": "…", …} (docs/alerts.md)
Json to_json(const AlertEvent& event);

class AlertActions {
 public:
  explicit AlertActions(std::vector<AlertAction> actions) : actions_(std::move(actions)) {}
  ~AlertActions();
  AlertActions(const AlertActions&) = delete;
  AlertActions& operator=(const AlertActions&) = delete;

  // Starts or queues the actions for an event. At most kMostRunning processes run at once and kMostWaiting
  // actions wait; further ones are skipped. Logs a warning for the first failure of each action, and for the
  // first skipped action.
  void act_on(const AlertEvent& event);
  // Reaps finished processes and starts queued actions; to be called with every sample.
  void poll();
  // Waits up to `timeout` for running and queued actions.
  void finish(Nanoseconds timeout);

 private:
  static constexpr std::size_t kMostRunning = 4, kMostWaiting = 64;
  struct Job {
    std::size_t action = 0;
    AlertEvent event;
  };
  struct Running {
    std::size_t action = 0;
    Subprocess process;
    Nanoseconds deadline;
    MqttOptions options;
  };
  void start(const Job& job);
  void warn(std::size_t action, const std::string& why);
  void append_to_file(std::size_t action, const AlertEvent& event);

  std::vector<AlertAction> actions_;
  std::deque<Job> waiting_;
  std::vector<Running> running_;
  std::set<std::size_t> warned_;
  std::int64_t dropped_ = 0;
};

}  // namespace headroom::watch
