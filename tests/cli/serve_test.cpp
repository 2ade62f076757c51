// headroom serve: requests with curl, scraping by a real Prometheus, and clients that hang.
#include <gmock/gmock.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "base/subprocess.h"
#include "base/text.h"
#include "command.h"

namespace headroom::test {
namespace {
using testing::HasSubstr;
using namespace std::chrono_literals;

// A server on a free port. It ends with the test.
class Served {
 public:
  explicit Served(std::vector<std::string> arguments = {}) {
    auto pipe = Pipe::create();
    SpawnOptions options;
    options.command = {HEADROOM_BINARY_DIR "/bin/headroom", "serve"};
    if (std::find(arguments.begin(), arguments.end(), "--listen") == arguments.end())
      options.command.insert(options.command.end(), {"--listen", "127.0.0.1:0"});
    options.command.insert(options.command.end(), {"--interval", "200ms"});
    options.command.insert(options.command.end(), arguments.begin(), arguments.end());
    options.stdout_fd = pipe->write_end.get();
    auto process = Subprocess::spawn(options);
    pipe->write_end.reset();
    if (!process) return;
    process_ = std::move(*process);
    char c = 0;
    while (::read(pipe->read_end.get(), &c, 1) == 1 && c != '\n') url_ += c;
  }
  const std::string& url() const { return url_; }
  int port() const { return parse_number<int>(trim(url_.substr(url_.rfind(':') + 1), "/")).value_or(0); }
  Subprocess& process() { return process_; }

 private:
  static std::string trim(std::string text, const char* what) {
    while (!text.empty() && text.back() == *what) text.pop_back();
    return text;
  }
  Subprocess process_;
  std::string url_;
};

struct Answer {
  int status = 0;
  std::string body;
};

Answer curl(const std::string& url, std::vector<std::string> more = {}) {
  auto pipe = Pipe::create();
  SpawnOptions options;
  options.command = {"curl", "--silent", "--max-time", "20", "--write-out", "\n%{http_code}", url};
  options.command.insert(options.command.end(), more.begin(), more.end());
  options.stdout_fd = pipe->write_end.get();
  auto process = Subprocess::spawn(options);
  pipe->write_end.reset();
  Answer answer;
  char buffer[65536];
  for (ssize_t length; (length = ::read(pipe->read_end.get(), buffer, sizeof buffer)) > 0;)
    answer.body.append(buffer, static_cast<std::size_t>(length));
  if (process) process->wait();
  const std::size_t line = answer.body.rfind('\n');
  if (line == std::string::npos) return {};
  answer.status = parse_number<int>(answer.body.substr(line + 1)).value_or(0);
  answer.body.resize(line);
  return answer;
}

bool eventually(const std::function<bool()>& is_so) {
  for (int i = 0; i < 600; ++i) {
    if (is_so()) return true;
    std::this_thread::sleep_for(50ms);
  }
  return false;
}

UniqueFd connect_to(int port, in_addr host = {htonl(INADDR_LOOPBACK)}) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr = host;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) fd.reset();
  return fd;
}

int run(const std::vector<std::string>& command) {
  SpawnOptions options;
  options.command = command;
  auto process = Subprocess::spawn(options);
  return process ? process->wait().exit_code : -1;
}

TEST(Serve, ServesPageMetricsAndApi) {
  Served server;
  ASSERT_FALSE(server.url().empty());
  ASSERT_TRUE(eventually([&] { return curl(server.url() + "healthz").status == 200; }));
  EXPECT_THAT(curl(server.url()).body, HasSubstr("<title>Headroom live</title>"));
  const auto sample = parse_json(curl(server.url() + "api/v1/sample").body);
  ASSERT_TRUE(sample);
  EXPECT_GT(get_integer(*sample, "ram_total_bytes").value_or(0), 0);
  const auto history = parse_json(curl(server.url() + "api/v1/history").body);
  ASSERT_TRUE(history);
  EXPECT_FALSE((*history)["unix_ms"].empty());
  EXPECT_EQ(curl(server.url() + "nothing").status, 404);
  EXPECT_EQ(curl(server.url() + "metrics", {"--data", "x"}).status, 405);
  EXPECT_EQ(curl(server.url() + "metrics", {"--header", "Host: evil.example"}).status, 403);
  server.process().signal(SIGTERM);
  EXPECT_EQ(server.process().wait().exit_code, 0);
}

TEST(Serve, TheMetricsPassPromtool) {
  if (run({"promtool", "--version"}) != 0) GTEST_SKIP() << absent_message("promtool");
  Served server;
  ASSERT_TRUE(eventually([&] { return curl(server.url() + "healthz").status == 200; }));
  auto pipe = Pipe::create();
  ASSERT_TRUE(pipe);
  const std::string metrics = curl(server.url() + "metrics").body;
  ASSERT_THAT(metrics, HasSubstr("headroom_memory_total_bytes"));
  ASSERT_LT(metrics.size(), 60'000u) << "a pipe holds 64 KiB";
  ASSERT_TRUE(write_all(pipe->write_end.get(), metrics + "\n"));
  pipe->write_end.reset();
  SpawnOptions options;
  options.command = {"promtool", "check", "metrics"};
  options.stdin_fd = pipe->read_end.get();
  auto promtool = Subprocess::spawn(options);
  ASSERT_TRUE(promtool);
  EXPECT_EQ(promtool->wait().exit_code, 0) << "its output is above";
}

// The queries of the dashboard's panels, for all instances.
std::vector<std::string> dashboard_queries() {
  std::vector<std::string> queries;
  const auto dashboard = parse_json(read_text(HEADROOM_SOURCE_DIR "/packaging/grafana/headroom.json"));
  if (!dashboard) return queries;
  for (const Json& panel : dashboard->value("panels", Json::array()))
    for (const Json& target : panel.value("targets", Json::array())) {
      std::string query = get_text(target, "expr");
      if (const std::size_t at = query.find("$instance"); at != std::string::npos) query.replace(at, 9, ".+");
      queries.push_back(std::move(query));
    }
  return queries;
}

// Prometheus accepts the dashboard's queries. It returns data for each figure that this machine exports
// (forecasts only sometimes).
void expect_answers_for_the_dashboard(const std::string& ask, const std::string& server_url) {
  const std::vector<std::string> queries = dashboard_queries();
  EXPECT_FALSE(queries.empty());
  for (const std::string& query : queries) {
    const std::size_t name = query.find("headroom_");
    const std::string series = "\n" + query.substr(name, query.find('{') - name);
    Json answer;
    const bool is_answered = eventually([&] {  // a rate needs two scrapes
      auto parsed = parse_json(curl(ask + "query", {"--get", "--data-urlencode", "query=" + query}).body);
      if (!parsed) return false;
      answer = std::move(*parsed);
      const bool is_exported = curl(server_url + "metrics").body.find(series) != std::string::npos;
      return get_text(answer, "status") == "success" && (!is_exported || !answer["data"]["result"].empty());
    });
    EXPECT_TRUE(is_answered) << query << ": " << answer.dump();
  }
}

// A real Prometheus scrapes the server with the example files and evaluates the rules. An alert fires, and
// the dashboard's queries return data.
TEST(Serve, PrometheusScrapesAndAlertFires) {
  if (run({"prometheus", "--version"}) != 0) GTEST_SKIP() << absent_message("prometheus");
  TemporaryFolder folder;
  // With this rule, memory counts as nearly full on any machine.
  write_text(folder / "alerts.toml",
             "[[rule]]\nname = \"total_memory\"\nabove = 0.001\nclear = 0\nfor = \"0s\"\n");
  Served server({"--alerts", (folder / "alerts.toml").string()});
  ASSERT_TRUE(eventually([&] { return curl(server.url() + "healthz").status == 200; }));
  std::string scrape =
      read_text(std::filesystem::path(HEADROOM_SOURCE_DIR) / "packaging/prometheus/scrape.yml");
  const std::string port = std::to_string(server.port());
  scrape.replace(scrape.find("localhost:9477"), 14, "localhost:" + port);
  scrape.replace(scrape.find("scrape_interval: 5s"), 19, "scrape_interval: 1s");
  std::string config = "global: {evaluation_interval: 1s}\nrule_files: [" HEADROOM_SOURCE_DIR
                       "/packaging/prometheus/rules.yml]\nscrape_configs:\n";
  for (const std::string_view line : split(scrape, '\n')) config += "  " + std::string(line) + "\n";
  write_text(folder / "prometheus.yml", config);
  const UniqueFd taken(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(taken.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  socklen_t length = sizeof address;
  ::getsockname(taken.get(), reinterpret_cast<sockaddr*>(&address), &length);
  const std::string own = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  ::close(const_cast<UniqueFd&>(taken).release());
  SpawnOptions options;
  options.command = {"prometheus", "--config.file=" + (folder / "prometheus.yml").string(),
                     "--storage.tsdb.path=" + (folder / "data").string(), "--web.listen-address=" + own,
                     "--log.level=error"};
  auto prometheus = Subprocess::spawn(options);
  ASSERT_TRUE(prometheus);
  const std::string ask = "http://" + own + "/api/v1/";
  EXPECT_TRUE(eventually([&] {
    return curl(ask + "query?query=headroom_memory_total_bytes").body.find("\"value\"") != std::string::npos;
  })) << "it never scraped";
  EXPECT_TRUE(eventually([&] {
    const std::string alerts = curl(ask + "alerts").body;
    return alerts.find("HeadroomAlert") != std::string::npos &&
           alerts.find("\"firing\"") != std::string::npos;
  })) << curl(ask + "alerts").body;
  expect_answers_for_the_dashboard(ask, server.url());
}

TEST(Serve, HangingClientsDoNotBlockOthers) {
  Served server;
  ASSERT_TRUE(eventually([&] { return curl(server.url() + "healthz").status == 200; }));
  std::vector<UniqueFd> hanging;
  for (int i = 0; i < 32; ++i) {
    hanging.push_back(connect_to(server.port()));
    ASSERT_TRUE(hanging.back());
    // Every second client starts a request but does not finish it.
    const std::string_view begun = i % 2 == 0 ? "GET /metrics HTTP/1.1\r\nHost: loc" : "";
    ASSERT_TRUE(write_all(hanging.back().get(), begun));
  }
  for (int i = 0; i < 20; ++i) EXPECT_EQ(curl(server.url() + "metrics").status, 200);
  EXPECT_EQ(curl(server.url() + "healthz").status, 200) << "sampling continued";
}

TEST(Serve, ExcessConnectionsWait) {
  Served server;
  ASSERT_TRUE(eventually([&] { return curl(server.url() + "healthz").status == 200; }));
  std::vector<UniqueFd> hanging;
  for (int i = 0; i < 100; ++i) hanging.push_back(connect_to(server.port()));
  // The server closes silent connections after five seconds.
  EXPECT_EQ(curl(server.url() + "healthz").status, 200);
}

// The maximum number of clients sends requests without a token again and again. Each could keep its
// connection for 100 requests.
TEST(Serve, KeptConnectionsDoNotLockOutOthers) {
  Served server;
  ASSERT_TRUE(eventually([&] { return curl(server.url() + "healthz").status == 200; }));
  const std::string_view request = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
  std::vector<UniqueFd> kept;
  for (int i = 0; i < 64; ++i) {
    kept.push_back(connect_to(server.port()));
    ASSERT_TRUE(write_all(kept.back().get(), request));
    char answer[4096];
    ASSERT_GT(::recv(kept.back().get(), answer, sizeof answer, 0), 0);
  }
  std::atomic<bool> stop = false;
  std::thread asking([&] {
    for (; !stop; std::this_thread::sleep_for(500ms))
      for (const UniqueFd& fd : kept)
        static_cast<void>(::send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL));
  });
  EXPECT_EQ(curl(server.url() + "metrics").status, 200);
  stop = true;
  asking.join();
}

// A non-loopback address of this machine, if it has one.
std::optional<in_addr> non_loopback_address() {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return std::nullopt;
  std::optional<in_addr> found;
  for (const ifaddrs* each = all; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET) continue;
    const in_addr address = reinterpret_cast<const sockaddr_in*>(each->ifa_addr)->sin_addr;
    if (ntohl(address.s_addr) >> 24 != 127) found = address;
  }
  ::freeifaddrs(all);
  return found;
}

// One machine cannot occupy all connections.
TEST(Serve, LimitsConnectionsPerRemoteAddress) {
  const auto elsewhere = non_loopback_address();
  if (!elsewhere) GTEST_SKIP() << "this machine has only loopback addresses; skipped";
  TemporaryFolder folder;
  write_text(folder / "token", "0123456789abcdef\n");
  Served server({"--listen", "0.0.0.0:0", "--token-file", (folder / "token").string()});
  const std::string here = "http://127.0.0.1:" + std::to_string(server.port()) + "/healthz";
  ASSERT_TRUE(eventually([&] { return curl(here).status == 200; }));
  const auto answer_on = [](const UniqueFd& fd) {
    constexpr std::string_view kRequest = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    if (::send(fd.get(), kRequest.data(), kRequest.size(), MSG_NOSIGNAL) < 0) return std::string();
    char answer[4096];
    const ssize_t got = ::recv(fd.get(), answer, sizeof answer, 0);
    return std::string(answer, static_cast<std::size_t>(std::max<ssize_t>(0, got)));
  };
  std::vector<UniqueFd> open;
  const auto one_more = [&]() -> const UniqueFd& {
    open.push_back(connect_to(server.port(), *elsewhere));
    return open.back();
  };
  for (int kept = 0; kept < 8; ++kept) {
    const std::string answer = answer_on(one_more());
    EXPECT_THAT(answer, HasSubstr("200 OK"));
    EXPECT_THAT(answer, testing::Not(HasSubstr("Connection: close")));
  }
  // A busy machine may need longer than five seconds for these connections, and the server closes silent ones
  // after five seconds. So each attempt opens all the connections that it needs.
  EXPECT_TRUE(eventually([&] {
    const std::string ninth = answer_on(one_more());
    EXPECT_THAT(ninth, HasSubstr("200 OK"));
    return ninth.find("Connection: close") != std::string::npos;
  }));
  EXPECT_TRUE(eventually([&] {
    open.clear();
    for (int silent = 0; silent < 16; ++silent) one_more();
    return answer_on(one_more()).empty();
  }));
  EXPECT_EQ(curl(here).status, 200) << "loopback connections are not counted";
  open.clear();
  EXPECT_TRUE(eventually([&] { return !answer_on(one_more()).empty(); }))
      << "ended connections are not counted";
}

TEST(Serve, ARefusedRequestClosesTheConnection) {
  TemporaryFolder folder;
  write_text(folder / "token", "0123456789abcdef\n");
  Served server({"--token-file", (folder / "token").string()});
  ASSERT_TRUE(eventually([&] { return curl(server.url() + "healthz").status == 200; }));
  const std::string next = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
  const struct {
    std::string request, answer;
  } cases[] = {
      {"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 401"},
      {"GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n", "HTTP/1.1 403"},
      {"this is not a request\r\n\r\n", "HTTP/1.1 400"},
      {"GET /" + std::string(9'000, 'a') + " HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 414"},
  };
  for (const auto& each : cases) {
    const UniqueFd fd = connect_to(server.port());
    ASSERT_TRUE(write_all(fd.get(), each.request + next));
    std::string answer;
    char buffer[4096];
    for (ssize_t got; (got = ::recv(fd.get(), buffer, sizeof buffer, 0)) > 0;)
      answer.append(buffer, static_cast<std::size_t>(got));
    EXPECT_THAT(answer, HasSubstr(each.answer));
    EXPECT_THAT(answer, HasSubstr("Connection: close"));
    EXPECT_THAT(answer, testing::Not(HasSubstr("200 OK"))) << "the server answered the next request";
  }
}

// Clients that send one byte now and then do not keep the server from stopping.
TEST(Serve, StopsWhileClientsSendSlowly) {
  Served server;
  ASSERT_TRUE(eventually([&] { return curl(server.url() + "healthz").status == 200; }));
  std::vector<UniqueFd> slow_clients;
  for (int i = 0; i < 80; ++i) slow_clients.push_back(connect_to(server.port()));
  for (const UniqueFd& fd : slow_clients) ASSERT_TRUE(write_all(fd.get(), "GET / HTTP"));
  server.process().signal(SIGTERM);
  std::optional<ExitStatus> end;
  for (int i = 0; i < 60 && !end; ++i) {
    for (const UniqueFd& fd : slow_clients) static_cast<void>(::send(fd.get(), "x", 1, MSG_NOSIGNAL));
    end = server.process().wait_for({500'000'000});
  }
  ASSERT_TRUE(end) << "it did not end in 30 s";
  EXPECT_EQ(end->exit_code, 0);
}

// The timeout does not restart at each byte: the server never answers such a slow request. The maximum number
// of slow clients does not block others.
TEST(Serve, LimitsTheTotalTimeOfARequest) {
  Served server;
  ASSERT_TRUE(eventually([&] { return curl(server.url() + "healthz").status == 200; }));
  std::vector<UniqueFd> slow_clients;
  for (int i = 0; i < 64; ++i) slow_clients.push_back(connect_to(server.port()));
  const std::string_view request = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
  for (const char c : request) {
    for (const UniqueFd& fd : slow_clients) static_cast<void>(::send(fd.get(), &c, 1, MSG_NOSIGNAL));
    std::this_thread::sleep_for(200ms);  // 9 s in all
  }
  EXPECT_EQ(curl(server.url() + "healthz").status, 200);
  for (const UniqueFd& fd : slow_clients) {
    char answer[64];
    const ssize_t got = ::recv(fd.get(), answer, sizeof answer, 0);
    EXPECT_THAT(std::string(answer, static_cast<std::size_t>(std::max<ssize_t>(got, 0))),
                testing::Not(HasSubstr("200 OK")));
  }
}

// VmHWM: the peak of resident memory.
std::int64_t peak_bytes(const Subprocess& process) {
  const std::string status = read_text("/proc/" + std::to_string(process.pid()) + "/status");
  const auto words = split_words(std::string_view(status).substr(status.find("VmHWM:")));
  return 1024 * parse_number<std::int64_t>(words.at(1)).value_or(0);
}

// Sends until the server closes the connection, or until `most` bytes are sent. Returns the bytes sent.
std::size_t pour(const Served& server, std::string_view begin, std::string_view again, std::size_t most) {
  const UniqueFd fd = connect_to(server.port());
  std::string piece;
  while (piece.size() < 65536) piece += again;
  if (::send(fd.get(), begin.data(), begin.size(), MSG_NOSIGNAL) < 0) return 0;
  std::size_t sent = 0;
  while (sent < most) {
    const ssize_t taken = ::send(fd.get(), piece.data(), piece.size(), MSG_NOSIGNAL);
    if (taken <= 0) break;
    sent += static_cast<std::size_t>(taken);
  }
  return sent;
}

TEST(Serve, LimitsTheMemoryOfARequest) {
  TemporaryFolder folder;
  write_text(folder / "token", "0123456789abcdef\n");
  Served server({"--token-file", (folder / "token").string()});
  ASSERT_TRUE(eventually([&] { return curl(server.url() + "healthz").status == 200; }));
  const std::int64_t before = peak_bytes(server.process());
  constexpr std::size_t kMuch = 64 << 20;
  EXPECT_LT(pour(server, "GET /", "a", kMuch), kMuch) << "a line";
  EXPECT_LT(pour(server, "GET / HTTP/1.1\r\n", "a: b\r\n", kMuch), kMuch) << "headers";
  EXPECT_LT(pour(server, "GET / HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n", "a", kMuch), kMuch)
      << "a body";
  std::string ranges = "Range: bytes=0-";
  for (int i = 0; i < 500; ++i) ranges += ",0-";
  for (int i = 0; i < 8; ++i)
    curl(server.url(), {"--header", "Authorization: Bearer 0123456789abcdef", "--header", ranges});
#ifdef HEADROOM_SANITIZED
  constexpr std::int64_t kMost = 24 << 20;  // the sanitizer keeps freed memory in quarantine
#else
  constexpr std::int64_t kMost = 8 << 20;
#endif
  EXPECT_LT(peak_bytes(server.process()) - before, kMost);
  EXPECT_EQ(curl(server.url() + "healthz").status, 200);
}

// A proxy sends requests of several clients on one connection. A body must not be parsed as another client's
// request.
TEST(Serve, ABodyIsNotReadAsARequest) {
  Served server;
  ASSERT_TRUE(eventually([&] { return curl(server.url() + "healthz").status == 200; }));
  const UniqueFd fd = connect_to(server.port());
  const std::string inner = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
  ASSERT_TRUE(write_all(fd.get(), "POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
                                      std::to_string(inner.size()) + "\r\n\r\n" + inner));
  std::string answer;
  char buffer[4096];
  for (ssize_t got; (got = ::recv(fd.get(), buffer, sizeof buffer, 0)) > 0;)
    answer.append(buffer, static_cast<std::size_t>(got));
  EXPECT_THAT(answer, HasSubstr("405"));
  EXPECT_THAT(answer, testing::Not(HasSubstr("200 OK")));
}

TEST(Serve, ManyRangesGiveOneResponse) {
  Served server;
  ASSERT_TRUE(eventually([&] { return curl(server.url() + "healthz").status == 200; }));
  std::string ranges = "Range: bytes=0-";
  for (int i = 0; i < 500; ++i) ranges += ",0-";
  EXPECT_LT(curl(server.url(), {"--header", ranges}).body.size(), 300'000u);
}

TEST(Serve, HeadReportsThatRangesAreNotSupported) {
  Served server;
  ASSERT_TRUE(eventually([&] { return curl(server.url() + "healthz").status == 200; }));
  const Answer head = curl(server.url() + "metrics", {"--head"});
  EXPECT_EQ(head.status, 200);
  EXPECT_THAT(head.body, HasSubstr("Accept-Ranges: none"));
  EXPECT_THAT(head.body, testing::Not(HasSubstr("Accept-Ranges: bytes")));
}

TEST(Serve, RejectsLargeRequests) {
  Served server;
  ASSERT_TRUE(eventually([&] { return curl(server.url() + "healthz").status == 200; }));
  const Answer header = curl(server.url() + "metrics", {"--header", "X: " + std::string(20'000, 'x')});
  EXPECT_NE(header.status, 200);
  const Answer path = curl(server.url() + std::string(20'000, 'y'));
  EXPECT_NE(path.status, 200);
  EXPECT_EQ(curl(server.url() + "healthz").status, 200);
}

TEST(Serve, RemoteAddressesNeedAToken) {
  const auto open = run_headroom({"serve", "--listen", "0.0.0.0:0"});
  EXPECT_EQ(open.exit_code, 2);
  EXPECT_THAT(open.err,
              HasSubstr("makes this machine's data public; use --token-file, or --tls-cert and --tls-key"));
  TemporaryFolder folder;
  write_text(folder / "token", "0123456789abcdef\n");
  Served server({"--listen", "0.0.0.0:0", "--token-file", (folder / "token").string()});
  const std::string url = "http://127.0.0.1:" + std::to_string(server.port()) + "/";
  ASSERT_TRUE(eventually([&] { return curl(url + "healthz").status == 200; }));
  EXPECT_EQ(curl(url + "metrics").status, 401);
  EXPECT_EQ(curl(url + "metrics", {"--header", "Authorization: Bearer 0123456789abcdef"}).status, 200);
}

TEST(Serve, ServesHttps) {
  TemporaryFolder folder;
  const std::string key = (folder / "key.pem").string(), certificate = (folder / "cert.pem").string();
  ASSERT_EQ(run({"openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
                 "/CN=localhost", "-keyout", key, "-out", certificate}),
            0);
  Served server({"--tls-cert", certificate, "--tls-key", key});
  const std::string url = "https://localhost:" + std::to_string(server.port()) + "/";
  ASSERT_TRUE(eventually([&] { return curl(url + "healthz", {"--insecure"}).status == 200; }));
  write_text(folder / "cert.pem", "no certificate");
  const auto wrong =
      run_headroom({"serve", "--listen", "127.0.0.1:0", "--tls-cert", certificate, "--tls-key", key});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("they are not a matching pair of PEM files"));
}

TEST(Serve, ReportsWrongUsage) {
  TemporaryFolder folder;
  write_text(folder / "short", "secret\n");
  const struct {
    std::vector<std::string> arguments;
    const char* message;
  } cases[] = {
      {{"--listen", "localhost:http"}, "invalid --listen address localhost:http; use HOST:PORT"},
      {{"--listen", "[::1"}, "invalid --listen address"},
      {{"--listen", "foo"},
       "invalid --listen address foo: no port; use HOST:PORT, such as 127.0.0.1:9477 or [::1]:9477"},
      {{"--listen", "0.0.0.0"}, "makes this machine's data public"},
      {{"--listen", "a:99999"}, "invalid --listen address a:99999: the port is above 65535; use HOST:PORT"},
      {{"--listen", "a:99999999999"}, "the port is above 65535"},
      {{"--token-file", (folder / "short").string()}, "has no valid token"},
      {{"--token-file", "/no/such/file"}, "cannot open /no/such/file"},
      {{"--tls-cert", "a.pem"}, "--tls-cert and --tls-key need each other"},
      {{"--alerts", "/no/such/rules.toml"}, "cannot open /no/such/rules.toml"},
      {{"--interval", "1ms"}, "interval"},
      {{"--", "ls"}, "headroom serve cannot run a command"},
      {{"--sysroot", "/no/such/tree"}, "has neither proc nor sys"},
  };
  for (const auto& each : cases) {
    std::vector<std::string> arguments{"serve"};
    arguments.insert(arguments.end(), each.arguments.begin(), each.arguments.end());
    const auto result = run_headroom(arguments);
    EXPECT_EQ(result.exit_code, 2) << each.message;
    EXPECT_THAT(result.err, HasSubstr(each.message));
  }
  Served first;
  const auto second = run_headroom({"serve", "--listen", "127.0.0.1:" + std::to_string(first.port())});
  EXPECT_EQ(second.exit_code, 1);
  EXPECT_THAT(second.err, HasSubstr("cannot listen on 127.0.0.1:"));
}

}  // namespace
}  // namespace headroom::test
