// headroom serve with a real Prometheus.
#include "cli/loopback.h"
#include "cli/serve_fixture.h"

namespace headroom::test {
namespace {
using testing::HasSubstr;

TEST(Serve, TheMetricsPassPromtool) {
  if (run({"promtool", "--version"}) != 0) GTEST_SKIP() << absent_message("promtool");
  Served server;
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

// A real Prometheus scrapes the server with the example files and evaluates the rules. An alert fires.
TEST(Serve, PrometheusScrapesAndAlertFires) {
  if (run({"prometheus", "--version"}) != 0) GTEST_SKIP() << absent_message("prometheus");
  TemporaryFolder folder;
  // With this rule, memory counts as nearly full on any machine.
  write_text(folder / "alerts.toml",
             "[[rule]]\nname = \"total_memory\"\nabove = 0.001\nclear = 0\nfor = \"0s\"\n");
  Served server({"--alerts", (folder / "alerts.toml").string()});
  std::string scrape = read_text(std::filesystem::path(test::source_path("packaging/prometheus/scrape.yml")));
  const std::string port = std::to_string(server.port());
  scrape.replace(scrape.find("localhost:9477"), 14, "localhost:" + port);
  scrape.replace(scrape.find("scrape_interval: 5s"), 19, "scrape_interval: 1s");
  std::string config = "global: {evaluation_interval: 1s}\nrule_files: [" +
                       test::source_path("packaging/prometheus/rules.yml") + "]\nscrape_configs:\n";
  for (const std::string_view line : split(scrape, '\n')) config += "  " + std::string(line) + "\n";
  write_text(folder / "prometheus.yml", config);
  const std::string own = "127.0.0.1:" + std::to_string(free_port());
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
}

}  // namespace
}  // namespace headroom::test
