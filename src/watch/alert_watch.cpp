#include "watch/alert_watch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/files.h"
#include "base/log.h"
#include "base/unfinished.h"
#include "sources/host_info.h"

namespace headroom::watch {
namespace fs = std::filesystem;
namespace {

using Kind = AlertAction::Kind;

constexpr Nanoseconds kTimeout{15'000'000'000};
constexpr const char* kMosquittoOptions = "mosquitto_pub";  // the name of its options file

std::string_view state_of(const AlertEvent& event) { return event.fired ? "fired" : "ended"; }

std::string describe(const AlertAction& action) {
  if (action.kind == Kind::command) return "command " + action.command.front();
  if (action.kind == Kind::webhook) return "webhook";  // its URL may hold a secret
  return action.kind == Kind::mqtt ? "MQTT message" : "file " + action.file.string();
}

// The alert as JSON for other programs. It names the host, because they may receive alerts from several.
std::string message_of(const AlertEvent& event) {
  Json document = to_json(event);
  document["host"] = sources::read_host_info().hostname;
  return to_line(document);
}

// "mqtt://user:password@host/topic"
bool has_user(const std::string& mqtt_address) {
  const std::size_t begin = mqtt_address.find("://") + 3;  // the rules file was checked
  return mqtt_address.substr(begin, mqtt_address.find('/', begin) - begin).find('@') != std::string::npos;
}

// The user's own options of mosquitto_pub.
std::string options_of_the_user() {
  const char* config = ::getenv("XDG_CONFIG_HOME");
  const char* home = ::getenv("HOME");
  const bool has_config = config != nullptr && *config != '\0';
  const fs::path folder = has_config ? fs::path(config) : fs::path(home != nullptr ? home : "/") / ".config";
  const std::string text = read_file(folder / kMosquittoOptions, kibibytes(64)).value_or("");
  return text.empty() || text.back() == '\n' ? text : text + "\n";
}

// Hides the address of one mosquitto_pub run from other users. The address may contain a password, and all
// users can see a process's arguments. mosquitto_pub cannot read the address from standard input, so it reads
// an options file. The file lies in a private folder (XDG_CONFIG_HOME), which the last owner removes.
Result<std::shared_ptr<const ScratchFolder>> hidden_options(const std::string& address) {
  constexpr const char* kFailure = "cannot hide the password of an MQTT address";
  auto scratch = ScratchFolder::create("alert");
  if (!scratch) return failure(kFailure, scratch.error().sentence());
  auto folder = std::make_shared<const ScratchFolder>(std::move(*scratch));
  const UniqueFd file(
      ::open((folder->path() / kMosquittoOptions).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file) return failure(kFailure, errno_text(errno));
  if (auto written = write_all(file.get(), options_of_the_user() + "-L " + address + "\n"); !written)
    return forward_error(written);
  return folder;
}

// The program to run, with the alert on its standard input. URLs may hold secrets and arguments are visible
// to all users, so curl reads its URL from standard input, too.
struct Program {
  std::vector<std::string> command;
  std::string input;
  std::shared_ptr<const ScratchFolder> options_folder = nullptr;
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
  if (action.kind == Kind::webhook)
    return Program{{"curl", "-q", "--globoff", "--config", "-"},
                   fmt::format("url = {}\nheader = \"Content-Type: application/json\"\ndata-binary = {}\n"
                               "silent\nshow-error\nfail\nmax-time = 10\noutput = \"/dev/null\"\n",
                               quoted_for_curl(action.url), quoted_for_curl(json))};
  if (action.kind == Kind::mqtt) {
    if (!has_user(action.url)) return Program{{"mosquitto_pub", "-L", action.url, "-q", "1", "-s"}, json};
    auto folder = hidden_options(action.url);
    if (!folder) return forward_error(folder);
    return Program{{"mosquitto_pub", "-q", "1", "-s"}, json, std::move(*folder)};
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

// Whether the file's last line has no end, because its writer was killed.
bool ends_in_a_cut_line(const fs::path& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  const off_t size = file ? ::lseek(file.get(), 0, SEEK_END) : 0;
  char last = '\n';
  return size > 0 && ::pread(file.get(), &last, 1, size - 1) == 1 && last != '\n';
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
  set_if(document, "detail", event.detail);
  document["time_ns"] = event.time.count;
  document["since_ns"] = event.since.count;
  return document;
}

AlertActions::~AlertActions() { finish({}); }

void AlertActions::warn(std::size_t action, const std::string& why) {
  if (warned_.insert(action).second)
    log::warning("alert action failed: {}: {}", describe(actions_[action]), why);
}

void AlertActions::act_on(const AlertEvent& event) {
  for (std::size_t i = 0; i < actions_.size(); ++i) {
    const AlertAction& action = actions_[i];
    if (event.severity < action.min_severity) continue;
    if (!action.rules.empty() && std::ranges::find(action.rules, event.rule) == action.rules.end()) continue;
    if (action.kind == Kind::file)
      append_to_file(i, event);
    else if (waiting_.size() < kMostWaiting)
      waiting_.push_back({i, event});
    else if (dropped_++ == 0)
      log::warning("alerts arrive faster than their actions finish: some actions are skipped");
  }
  poll();
}

void AlertActions::append_to_file(std::size_t action, const AlertEvent& event) {
  // A FIFO without a reader must not block the monitor.
  const UniqueFd file(
      ::open(actions_[action].file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0644));
  if (!file) return warn(action, errno == ENXIO ? "no process reads this pipe" : errno_text(errno));
  struct stat before {};
  const bool is_regular = ::fstat(file.get(), &before) == 0 && S_ISREG(before.st_mode);
  const std::string begin = is_regular && ends_in_a_cut_line(actions_[action].file) ? "\n" : "";
  auto written = write_all(file.get(), begin + message_of(event) + "\n");
  if (written) return;
  if (is_regular) [[maybe_unused]]
    const int cut = ::ftruncate(file.get(), before.st_size);
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
  if (program->options_folder)
    options.environment.emplace_back("XDG_CONFIG_HOME", program->options_folder->path().string());
  options.stdin_fd = input->get();
  options.before_exec = reset_oom_score;
  auto process = Subprocess::spawn(options);
  if (!process) {
    const Kind kind = actions_[job.action].kind;
    return warn(job.action, process.error().sentence() + (kind == Kind::webhook ? "; install curl"
                                                          : kind == Kind::mqtt ? "; install mosquitto-clients"
                                                                               : ""));
  }
  running_.push_back({job.action, std::move(*process), monotonic_now() + kTimeout, program->options_folder});
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

std::span<const AlertEvent> AlertWatch::add(const SystemSample& sample) {
  risk_.add(sample);
  const std::span<const AlertEvent> events = alerts_.update(sample.time, risk_);
  for (const AlertEvent& event : events) {
    const log::Level level = !event.fired                                ? log::Level::info
                             : event.severity == AlertSeverity::critical ? log::Level::error
                                                                         : log::Level::warning;
    if (with_log_)
      log::write(level,
                 fmt::format("alert: {:.1f} s  {}", sample.time.seconds(), monitoring::sentence_for(event)));
    actions_.act_on(event);
  }
  if (events.empty()) actions_.poll();
  return events;
}

}  // namespace headroom::watch
