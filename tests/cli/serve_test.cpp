// headroom serve: requests with curl, and clients that hang.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "cli/diff_matchers.h"
#include "cli/loopback.h"
#include "cli/serve_fixture.h"

namespace headroom::test {
namespace {
using testing::HasSubstr;
using namespace std::chrono_literals;

// A server accepts 16 connections of an address. curl uses 127.0.0.1.
std::vector<UniqueFd> connect_many(int port, std::size_t count) {
  std::vector<UniqueFd> all;
  for (std::size_t i = 0; i < count; ++i) all.push_back(connect_to(port, 2 + i / 16));
  return all;
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
  const Json sample = json_of(curl(server.url() + "api/v1/sample").body);
  EXPECT_GT(get_integer(sample, "ram_total_bytes").value_or(0), 0);
  EXPECT_FALSE(json_of(curl(server.url() + "api/v1/history").body)["unix_ms"].empty());
  EXPECT_EQ(curl(server.url() + "nothing").status, 404);
  EXPECT_EQ(curl(server.url() + "metrics", {"--data", "x"}).status, 405);
  EXPECT_EQ(curl(server.url() + "metrics", {"--header", "Host: evil.example"}).status, 403);
  const Answer head = curl(server.url() + "metrics", {"--head"});
  EXPECT_EQ(head.status, 200);
  EXPECT_THAT(head.body, HasSubstr("Accept-Ranges: none"));
  EXPECT_THAT(head.body, testing::Not(HasSubstr("Accept-Ranges: bytes")));
  server.process().signal(SIGTERM);
  EXPECT_EQ(server.process().wait().exit_code, 0);
}

TEST(Serve, AnAddressHoldsSixteenConnections) {
  Served server;
  std::vector<UniqueFd> hanging;
  for (int i = 0; i < 16; ++i) hanging.push_back(connect_to(server.port(), 2));
  std::this_thread::sleep_for(500ms);  // until they are counted
  const UniqueFd refused = connect_to(server.port(), 2);
  EXPECT_EQ(read_to_end(refused), "");
  char byte = 0;
  EXPECT_EQ(::recv(hanging.front().get(), &byte, 1, MSG_DONTWAIT), -1) << "the earlier ones stay open";
  EXPECT_EQ(curl(server.url() + "healthz").status, 200) << "from another address";
}

TEST(Serve, ExcessConnectionsWait) {
  Served server;
  const std::vector<UniqueFd> hanging = connect_many(server.port(), 100);
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
  const std::vector<UniqueFd> slow_clients = connect_many(server.port(), 80);
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
  const std::vector<UniqueFd> slow_clients = connect_many(server.port(), 64);
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

TEST(Serve, RemoteAddressesNeedAToken) {
  EXPECT_THAT(run_headroom({"serve", "--listen", "0.0.0.0:0"}),
              IsRefused(HasSubstr(
                  "makes this machine's data public; use --token-file, or --tls-cert and --tls-key")));
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
  EXPECT_THAT(run_headroom({"serve", "--listen", "127.0.0.1:0", "--tls-cert", certificate, "--tls-key", key}),
              IsRefused(HasSubstr("cannot use the certificate " + certificate)));
  EXPECT_THAT(run_headroom({"serve", "--listen", "127.0.0.1:0", "--tls-cert", certificate, "--tls-key",
                            key + ".none"}),
              IsRefused(HasSubstr(key + ".none: No such file or directory; check --tls-key")));
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
  for (const auto& each : cases)
    EXPECT_THAT(run_headroom(joined({{"serve"}, each.arguments})), IsRefused(HasSubstr(each.message)));
  Served first;
  EXPECT_THAT(run_headroom({"serve", "--listen", "127.0.0.1:" + std::to_string(first.port())}),
              Ends(1, testing::_, HasSubstr("cannot listen on 127.0.0.1:")));
}

}  // namespace
}  // namespace headroom::test
