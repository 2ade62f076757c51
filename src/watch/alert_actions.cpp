#include "watch/alert_actions.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "base/log.h"
#include "monitoring/alerts.h"
#include "sources/host_info.h"

namespace headroom::watch {
namespace {

constexpr Nanoseconds kTimeout{15'000'000'000};

std::string_view state_of(const AlertEvent& event) { return event.fired ? "fired" : "ended"; }

std::string describe(const AlertAction& action) {
  switch (action.kind) {
    case AlertAction::Kind::command:
      return "command " + action.command.front();
    case AlertAction::Kind::webhook:
      return "webhook";  // its URL may hold a secret
    case AlertAction::Kind::mqtt:
      return "MQTT message";
    case AlertAction::Kind::file:
      return "file " + action.file.string();
  }
  return "";
}

// The alert as JSON for other programs. It names the host, because they may receive alerts from several.
std::string message_of(const AlertEvent& event) {
  Json document = to_json(event);
  document["host"] = sources::read_host_info().hostname;
  return to_line(document);
}

// The program to run, with the alert on its standard input. URLs may hold secrets and arguments are visible
// to all users, so curl reads its URL from standard input, too.
struct Program {
  std::vector<std::string> command;
  std::string input;
  MqttOptions options = {};
};

std::string quoted_for_curl(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) quoted += c;
  }
  return quoted + "\"";
}

Result<Program> program_for(const AlertAction& action, const AlertEvent& event) {
  const std::string json = message_of(event);
  switch (action.kind) {
    case AlertAction::Kind::webhook:
      return Program{{"curl", "-q", "--globoff", "--config", "-"},
                     fmt::format("url = {}\nheader = \"Content-Type: application/json\"\ndata-binary = {}\n"
                                 "silent\nshow-error\nfail\nmax-time = 10\noutput = \"/dev/null\"\n",
                                 quoted_for_curl(action.url), quoted_for_curl(json))};
    case AlertAction::Kind::mqtt: {
      if (!has_user(action.url)) return Program{{"mosquitto_pub", "-L", action.url, "-q", "1", "-s"}, json};
      auto options = MqttOptions::create(action.url);
      if (!options) return forward_error(options);
      return Program{{"mosquitto_pub", "-q", "1", "-s"}, json, std::move(*options)};
    }
    case AlertAction::Kind::command:
    case AlertAction::Kind::file:
      break;
  }
  Program program{action.command, json + "\n"};
  program.command.push_back(monitoring::sentence_for(event));
  return program;
}

std::vector<std::pair<std::string, std::string>> environment_of(const AlertEvent& event) {
  return {{"HEADROOM_ALERT", event.rule},
          {"HEADROOM_ALERT_STATE", std::string(state_of(event))},
          {"HEADROOM_ALERT_SEVERITY", std::string(name_of(event.severity))},
          {"HEADROOM_ALERT_FIGURE", event.figure},
          {"HEADROOM_ALERT_VALUE", event.value ? fmt::format("{}", *event.value) : ""}};
}

// Headroom may be protected from the kernel's OOM killer; its child processes must not be. Runs after fork,
// so it must not allocate.
int reset_oom_score() {
  const int fd = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  [[maybe_unused]] const ssize_t written = ::write(fd, "0", 1);
  ::close(fd);
  return 0;
}

// An unnamed file. A pipe holds only 64 KiB and would block Headroom if the program did not read it.
Result<UniqueFd> file_with(const std::string& text) {
  UniqueFd file(::memfd_create("headroom-alert", MFD_CLOEXEC));
  if (!file) return internal_error("cannot pass an alert to its action", errno_text(errno));
  if (auto written = write_all(file.get(), text); !written) return forward_error(written);
  ::lseek(file.get(), 0, SEEK_SET);
  return file;
}

}  // namespace

Json to_json(const AlertEvent& event) {
  Json document = {{"alert", event.rule},
                   {"state", state_of(event)},
                   {"severity", name_of(event.severity)},
                   {"text", monitoring::sentence_for(event)},
                   {"figure", event.figure}};
  if (event.value) document["value"] = *event.value;
  document["threshold"] = event.threshold;
  document["direction"] = event.fires_above ? "above" : "below";
  if (!event.detail.empty()) document["detail"] = event.detail;
  document["time_ns"] = event.time.count;
  document["since_ns"] = event.since.count;
  return document;
}

AlertActions::~AlertActions() { finish({}); }

void AlertActions::warn(std::size_t action, const std::string& why) {
  if (!warned_.insert(action).second) return;
  log::warning("alert action failed: {}: {}", describe(actions_[action]), why);
}

void AlertActions::act_on(const AlertEvent& event) {
  for (std::size_t i = 0; i < actions_.size(); ++i) {
    const AlertAction& action = actions_[i];
    if (event.severity < action.min_severity) continue;
    if (!action.rules.empty() &&
        std::find(action.rules.begin(), action.rules.end(), event.rule) == action.rules.end())
      continue;
    if (action.kind == AlertAction::Kind::file) {
      append_to_file(i, event);
    } else if (waiting_.size() < kMostWaiting) {
      waiting_.push_back({i, event});
    } else if (dropped_++ == 0) {
      log::warning("alerts arrive faster than their actions finish: some actions are skipped");
    }
  }
  poll();
}

void AlertActions::append_to_file(std::size_t action, const AlertEvent& event) {
  // A FIFO without a reader must not block the monitor.
  const UniqueFd file(
      ::open(actions_[action].file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0644));
  if (!file) return warn(action, errno == ENXIO ? "no process reads this pipe" : errno_text(errno));
  if (auto written = write_all(file.get(), message_of(event) + "\n"); !written)
    warn(action, written.error().sentence());
}

void AlertActions::start(const Job& job) {
  auto program = program_for(actions_[job.action], job.event);
  if (!program) return warn(job.action, program.error().sentence());
  auto input = file_with(program->input);
  if (!input) return warn(job.action, input.error().sentence());
  SpawnOptions options;
  options.command = std::move(program->command);
  options.environment = environment_of(job.event);
  if (!program->options.folder().empty())
    options.environment.emplace_back("XDG_CONFIG_HOME", program->options.folder().string());
  options.stdin_fd = input->get();
  options.before_exec = reset_oom_score;
  auto process = Subprocess::spawn(options);
  if (!process) {
    const AlertAction::Kind kind = actions_[job.action].kind;
    std::string fix;
    if (kind == AlertAction::Kind::webhook) fix = "; install curl";
    if (kind == AlertAction::Kind::mqtt) fix = "; install mosquitto-clients";
    return warn(job.action, process.error().sentence() + fix);
  }
  running_.push_back(
      {job.action, std::move(*process), monotonic_now() + kTimeout, std::move(program->options)});
}

void AlertActions::poll() {
  std::erase_if(running_, [&](Running& running) {
    if (const auto status = running.process.poll()) {
      if (!status->success()) warn(running.action, "it ended with " + status->describe());
      return true;
    }
    if (monotonic_now() < running.deadline) return false;
    warn(running.action, "killed because it took longer than 15 s");
    return true;  // destroying the Subprocess kills it
  });
  while (!waiting_.empty() && running_.size() < kMostRunning) {
    start(waiting_.front());
    waiting_.pop_front();
  }
}

void AlertActions::finish(Nanoseconds timeout) {
  const Nanoseconds deadline = monotonic_now() + timeout;
  for (poll(); !running_.empty() && monotonic_now() < deadline; poll()) ::usleep(10'000);
}

}  // namespace headroom::watch
