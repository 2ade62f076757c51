// headroom serve: requests with curl, and clients that hang.
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "cli/serve_fixture.h"

namespace headroom::test {
namespace {
using testing::HasSubstr;
using namespace std::chrono_literals;

UniqueFd connect_to(int port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) fd.reset();
  return fd;
}

std::string read_to_end(const UniqueFd& fd) {
  std::string answer;
  char buffer[4096];
  for (ssize_t got; (got = ::recv(fd.get(), buffer, sizeof buffer, 0)) > 0;)
    answer.append(buffer, static_cast<std::size_t>(got));
  return answer;
}

// A folder with a token, for --token-file.
struct TokenFolder : TemporaryFolder {
  TokenFolder() { write_text(path() / "token", "0123456789abcdef\n"); }
  std::string token_file() const { return (path() / "token").string(); }
};

TEST(Serve, ServesPageMetricsAndApi) {
  Served server;
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

TEST(Serve, HangingClientsDoNotBlockOthers) {
  Served server;
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
  std::vector<UniqueFd> hanging;
  for (int i = 0; i < 100; ++i) hanging.push_back(connect_to(server.port()));
  // The server closes silent connections after five seconds.
  EXPECT_EQ(curl(server.url() + "healthz").status, 200);
}

// A proxy sends requests of several clients on one connection. What follows the first request, a body or
// garbage, must not be parsed as another client's request.
TEST(Serve, AConnectionAnswersOneRequest) {
  const TokenFolder folder;
  Served server({"--token-file", folder.token_file()});
  const std::string next = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
  const struct {
    std::string request, answer;
  } cases[] = {
      {"GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer 0123456789abcdef\r\n\r\n", "HTTP/1.1 200"},
      {"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 401"},
      {"GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n", "HTTP/1.1 403"},
      {"POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(next.size()) +
           "\r\n\r\n",
       "HTTP/1.1 405"},
      {"this is not a request\r\n\r\n", "HTTP/1.1 400"},
      {"GET /" + std::string(9'000, 'a') + " HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 414"},
  };
  for (const auto& each : cases) {
    const UniqueFd fd = connect_to(server.port());
    ASSERT_TRUE(write_all(fd.get(), each.request + next));
    const std::string answer = read_to_end(fd);
    EXPECT_THAT(answer, testing::StartsWith(each.answer));
    EXPECT_THAT(answer, HasSubstr("Connection: close"));
    EXPECT_EQ(answer.find("HTTP/1.1", 1), std::string::npos) << "the server answered the next request";
  }
}

// Clients that send one byte now and then do not keep the server from stopping.
TEST(Serve, StopsWhileClientsSendSlowly) {
  Served server;
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
  const TokenFolder folder;
  Served server({"--token-file", folder.token_file()});
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

TEST(Serve, HandlesUnusualRequests) {
  Served server;
  const std::string metrics = server.url() + "metrics";
  const Answer head = curl(metrics, {"--head"});
  EXPECT_EQ(head.status, 200);
  EXPECT_THAT(head.body, HasSubstr("Accept-Ranges: none"));
  EXPECT_THAT(head.body, testing::Not(HasSubstr("Accept-Ranges: bytes")));
  EXPECT_NE(curl(metrics, {"--header", "X: " + std::string(20'000, 'x')}).status, 200) << "a long header";
  EXPECT_NE(curl(server.url() + std::string(20'000, 'y')).status, 200) << "a long path";
  EXPECT_EQ(curl(server.url() + "healthz").status, 200);
}

TEST(Serve, RemoteAddressesNeedAToken) {
  const auto open = run_headroom({"serve", "--listen", "0.0.0.0:0"});
  EXPECT_EQ(open.exit_code, 2);
  EXPECT_THAT(open.err,
              HasSubstr("makes this machine's data public; use --token-file, or --tls-cert and --tls-key"));
  const TokenFolder folder;
  Served server({"--listen", "0.0.0.0:0", "--token-file", folder.token_file()});
  const std::string url = "http://127.0.0.1:" + std::to_string(server.port()) + "/";
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
