// Alerts of headroom watch, with the real programs that receive them.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "base/subprocess.h"
#include "base/text.h"
#include "cli/loopback.h"
#include "cli/watch_fixture.h"

namespace headroom::test {
namespace {
using testing::HasSubstr;
using testing::Not;

// A log of a Jetson, one line per second: memory grows by 20 MiB per second until it is full, and the GPU
// gets warmer.
std::string log_of_a_leak() {
  std::string log;
  for (int second = 0; second < 180; ++second)
    log += "11-22-2026 10:0" + std::to_string(second / 60) + ":" + (second % 60 < 10 ? "0" : "") +
           std::to_string(second % 60) + " RAM " + std::to_string(4000 + 20 * second) +
           "/7620MB (lfb 4x4MB) SWAP 0/0MB (cached 0MB) CPU [12%@1190,off] GR3D_FREQ 41% gpu@" +
           std::to_string(60 + second / 10) + "C\n";
  return log;
}

class Alerts : public Watch {
 protected:
  Alerts() { write("stats.log", log_of_a_leak()); }

  CommandResult watch_with(const std::string& alerts, CommandOptions options = {}) const {
    return watch({"--from", "tegrastats:stats.log", "--alerts", alerts}, std::move(options));
  }
  CommandResult watch_with_rules(const std::string& rules, CommandOptions options = {}) const {
    write("rules.toml", rules);
    return watch_with("rules.toml", std::move(options));
  }
};

TEST_F(Alerts, FiresOnDefaultLimitsAndForecast) {
  const auto result = watch_with("default");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const std::size_t forecast = result.err.find("memory_runs_out: memory will be exhausted in");
  const std::size_t full = result.err.find("total_memory: 86.");
  EXPECT_NE(forecast, std::string::npos) << result.err;
  EXPECT_NE(full, std::string::npos) << result.err;
  EXPECT_LT(forecast, full) << "the forecast must come before memory is short";
  EXPECT_THAT(result.err, HasSubstr("gpu_memory: 8"));
  EXPECT_THAT(result.err, HasSubstr("of unified memory is used (limit 80.0 %)"));
  EXPECT_THAT(watch_with("off").err, Not(HasSubstr("alert")));
}

TEST_F(Alerts, JsonLineListsNewAlerts) {
  const auto result = watch({"--from", "tegrastats:stats.log", "--alerts", "default", "--jsonl"});
  int lines = 0, events = 0;
  for (const std::string_view line : split(trim(result.out), '\n')) {
    const auto sample = parse_json(line);
    ASSERT_TRUE(sample) << line;
    ++lines;
    if (!sample->contains("alerts")) continue;
    for (const Json& event : (*sample)["alerts"]) {
      ++events;
      EXPECT_EQ(get_text(event, "state"), "fired");
      EXPECT_EQ(get_integer(event, "time_ns"), get_integer(*sample, "time_ns"));
    }
  }
  EXPECT_EQ(lines, 180);
  EXPECT_GE(events, 4);
}

TEST_F(Alerts, RunsACommandAndWritesAFile) {
  const auto result = watch_with_rules(
      "defaults = false\n"
      "[[rule]]\nname = \"hot\"\nfigure = \"temperature_celsius\"\nabove = 70\nfor = \"2s\"\n"
      "[[action]]\ncommand = [\"sh\", \"-c\", \"cat > " +
      path("input") + "; echo \\\"$HEADROOM_ALERT $HEADROOM_ALERT_STATE $HEADROOM_ALERT_VALUE: $0\\\" > " +
      path("words") + "\"]\n[[action]]\nfile = \"alerts.jsonl\"\n");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(trim(read("words")), "hot fired 71: hot: gpu is at 71.0 °C (limit 70.0 °C)");
  const auto input = parse_json(read("input")), line = parse_json(read("alerts.jsonl"));
  ASSERT_TRUE(input && line);
  EXPECT_EQ(*input, *line);
  EXPECT_EQ(get_text(*line, "alert"), "hot");
  EXPECT_EQ(get_text(*line, "detail"), "gpu");
  EXPECT_FALSE(get_text(*line, "host").empty());
}

// A watch that was killed may leave half a line. The next alert gets a line of its own.
TEST_F(Alerts, AppendsAfterACutLine) {
  write("alerts.jsonl", "{\"alert\":\"ho");
  const auto result = watch_with_rules(
      "defaults = false\n"
      "[[rule]]\nname = \"hot\"\nfigure = \"temperature_celsius\"\nabove = 70\nfor = \"2s\"\n"
      "[[action]]\nfile = \"alerts.jsonl\"\n");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const std::string text = read("alerts.jsonl");
  const std::size_t second = text.find('\n') + 1;
  EXPECT_EQ(text.substr(0, second), "{\"alert\":\"ho\n");
  const auto line = parse_json(text.substr(second));
  ASSERT_TRUE(line) << text;
  EXPECT_EQ(get_text(*line, "alert"), "hot");
}

TEST_F(Alerts, ReportsAFailedActionOnceAndRunsTheOthers) {
  const auto result = watch_with_rules(
      "[[action]]\ncommand = [\"false\"]\n[[action]]\ncommand = [\"/no/such/program\"]\n"
      "[[action]]\nfile = \"/no/such/folder/file\"\n[[action]]\nwebhook = \"http://127.0.0.1:1/hook\"\n");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  for (const char* said : {"alert action failed: command false: it ended with exit code 1",
                           "alert action failed: command /no/such/program", "file /no/such/folder/file",
                           "alert action failed: webhook"}) {
    const std::size_t first = result.err.find(said);
    EXPECT_NE(first, std::string::npos) << said << "\n" << result.err;
    EXPECT_EQ(result.err.find(said, first + 1), std::string::npos) << said;
  }
  EXPECT_GE(split(trim(result.out), '\n').size(), 180u);
}

// A message may be longer than a pipe's capacity, and the reader may not read it.
TEST_F(Alerts, AnUnreadPipeDoesNotBlock) {
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  CommandOptions options;
  int calls = 0;
  options.while_running = [&calls](int pid) {  // 60 s, which only end a hang
    if (++calls == 3000) ::kill(pid, SIGKILL);
    return calls < 3000;
  };
  const auto result = watch_with_rules(
      "[[rule]]\nname = \"used\"\nfigure = \"ram_used_percent\"\nabove = 60\nseverity = \"critical\"\n"
      "[[action]]\nfile = \"fifo\"\n",
      options);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("no process reads this pipe"));
}

TEST_F(Alerts, EscapesControlCharactersOfLoggedNames) {
  write("log.jsonl",
        "{\"time_ns\":0,\"temperature_celsius\":{\"a\\u001b[31mb\":99},\"process_table\":[]}\n"
        "{\"time_ns\":9000000000,\"temperature_celsius\":{\"a\\u001b[31mb\":99}}\n");
  const auto result = watch({"--from", "headroom:log.jsonl", "--alerts", "default"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("99 °C"));
  EXPECT_THAT(result.out + result.err, Not(HasSubstr("\x1b")));
}

bool answers(int port) {
  for (int i = 0; i < 500; ++i) {
    if (connect_to(port)) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return false;
}

Subprocess start(std::vector<std::string> command, int stdout_fd = -1) {
  SpawnOptions options;
  options.command = std::move(command);
  options.stdout_fd = stdout_fd;
  auto process = Subprocess::spawn(options);
  EXPECT_TRUE(process) << process.error().sentence();
  return process ? std::move(*process) : Subprocess();
}

const std::string kRuleOfHeat =
    "defaults = false\n[[rule]]\nname = \"hot\"\nfigure = \"temperature_celsius\"\nabove = 70\n";

// mosquitto_sub, which prints the first message.
class Subscriber {
 public:
  Subscriber(int port, const std::vector<std::string>& more) : pipe_(*Pipe::create()) {
    std::vector<std::string> command{"mosquitto_sub", "-p", std::to_string(port), "-C", "1", "-W", "30"};
    command.insert(command.end(), more.begin(), more.end());
    process_ = start(command, pipe_.write_end.get());
    pipe_.write_end.reset();
    // mosquitto_sub does not report when it is subscribed. It would receive a retained message later too, but
    // alerts are not retained.
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
  std::string heard() {
    std::string text(4096, '\0');
    const ssize_t length = ::read(pipe_.read_end.get(), text.data(), text.size());
    return text.substr(0, static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
  }

 private:
  Pipe pipe_;
  Subprocess process_;
};

TEST_F(Alerts, PostsAWebhook) {
  const int port = free_port();
  write("server.py",
        "import http.server, sys\n"
        "class H(http.server.BaseHTTPRequestHandler):\n"
        "  def do_POST(self):\n"
        "    body = self.rfile.read(int(self.headers['Content-Length']))\n"
        "    open(sys.argv[2], 'wb').write(self.path.encode() + b'\\n' + "
        "self.headers['Content-Type'].encode() + b'\\n' + body)\n"
        "    self.send_response(204); self.end_headers()\n"
        "http.server.HTTPServer(('127.0.0.1', int(sys.argv[1])), H).serve_forever()\n");
  const Subprocess server = start({"python3", path("server.py"), std::to_string(port), path("posted")});
  ASSERT_TRUE(answers(port));
  const auto result =
      watch_with_rules(kRuleOfHeat + "[[action]]\nwebhook = \"http://127.0.0.1:" + std::to_string(port) +
                       "/hook?token=a\\\"b\"\n");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, Not(HasSubstr("failed")));
  const std::string text = read("posted");
  const auto posted = split(text, '\n');
  ASSERT_EQ(posted.size(), 3u);
  EXPECT_THAT(std::string(posted[0]), HasSubstr("/hook?token=a"));
  EXPECT_EQ(posted[1], "application/json");
  const auto body = parse_json(posted[2]);
  ASSERT_TRUE(body) << posted[2];
  EXPECT_EQ(get_text(*body, "text"), "hot: gpu is at 71.0 °C (limit 70.0 °C)");
}

// A broker with a password. The password must not appear in the arguments of mosquitto_pub.
TEST_F(Alerts, KeepsTheMqttPasswordOutOfTheArguments) {
  const int port = free_port();
  const std::string passwords = path("passwords");
  ASSERT_TRUE(
      start({"mosquitto_passwd", "-b", "-c", passwords, "robot", "secret-of-robot"}).wait().success());
  // If started as root, the broker switches to another user, which must be able to read these files.
  std::filesystem::permissions(folder_.path(), std::filesystem::perms::all);
  std::filesystem::permissions(passwords, std::filesystem::perms(0644));
  write("broker.conf", "listener " + std::to_string(port) +
                           " 127.0.0.1\nallow_anonymous false\npassword_file " + passwords + "\n");
  const Subprocess broker = start({"/usr/sbin/mosquitto", "-c", path("broker.conf")});
  ASSERT_TRUE(answers(port));
  Subscriber subscriber(port, {"-u", "robot", "-P", "secret-of-robot", "-t", "#"});
  // Replace mosquitto_pub with a script that prints its arguments.
  write("bin/mosquitto_pub", "#!/bin/sh\necho \"$@\" > " + path("arguments") +
                                 "\necho \"$XDG_CONFIG_HOME\" > " + path("options") +
                                 "\nexec /usr/bin/mosquitto_pub \"$@\"\n");
  std::filesystem::permissions(folder_ / "bin/mosquitto_pub", std::filesystem::perms(0755));
  CommandOptions options;
  options.environment = {{"PATH", path("bin") + ":" + std::getenv("PATH")}};
  const auto result = watch_with_rules(
      kRuleOfHeat + "[[action]]\nmqtt = \"mqtt://robot:secret-of-robot@127.0.0.1:" + std::to_string(port) +
          "/robots/7\"\n",
      options);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(subscriber.heard(), HasSubstr("{\"alert\":\"hot\""));
  EXPECT_THAT(read("arguments"), Not(HasSubstr("secret")));
  const std::string folder_of_options(trim(read("options")));
  EXPECT_FALSE(folder_of_options.empty());
  EXPECT_FALSE(std::filesystem::exists(folder_of_options)) << "it goes with the message";
}

}  // namespace
}  // namespace headroom::test
