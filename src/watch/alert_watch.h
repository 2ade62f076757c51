// Evaluates the alert rules on each sample, logs alerts on standard error, and runs their actions without
// delaying samples.
#pragma once

#include <deque>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "base/json.h"
#include "base/subprocess.h"
#include "base/unfinished.h"
#include "monitoring/alerts.h"
#include "watch/alert_rules_file.h"

namespace headroom::watch {

// {"alert": "total_memory", "state": "fired", "severity": "critical", "text": "…", …} (docs/alerts.md)
Json to_json(const AlertEvent& event);

// Commands, webhooks and MQTT messages run as child processes (the latter two with curl and mosquitto_pub),
// which are killed after 15 s.
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
    std::shared_ptr<const ScratchFolder> options_folder;  // for a program that reads its options there
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

class AlertWatch {
 public:
  AlertWatch(AlertSettings settings, Nanoseconds interval, bool with_log = true)
      : risk_(interval),
        alerts_(std::move(settings.rules)),
        actions_(std::move(settings.actions)),
        with_log_(with_log) {}

  // Returns the alerts that began or ended with this sample; valid until the next call.
  std::span<const AlertEvent> add(const SystemSample& sample);
  const monitoring::MemoryRisk& risk() const { return risk_; }
  std::vector<AlertEvent> active() const { return alerts_.active(); }
  // Waits up to five seconds for running actions.
  void finish() { actions_.finish({5'000'000'000}); }

 private:
  monitoring::MemoryRisk risk_;
  monitoring::Alerts alerts_;
  AlertActions actions_;
  bool with_log_;
};

}  // namespace headroom::watch
