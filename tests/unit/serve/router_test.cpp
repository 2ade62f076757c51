#include "serve/run_serve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/json.h"
#include "monitoring/alerts.h"

namespace headroom::serve {
namespace {
using testing::HasSubstr;

constexpr Nanoseconds kSecond{1'000'000'000};

class Router : public ::testing::Test {
 protected:
  Router()
      : state_(monitoring::default_alert_rules(), 100), alerts_(watch::default_alert_settings(), kSecond) {}

  void feed(std::int64_t second, Bytes used = gibibytes(2)) {
    SystemSample sample;
    sample.time = Nanoseconds{second * kSecond.count};
    sample.unix_time = Nanoseconds{1'700'000'000'000'000'000 + second * kSecond.count};
    sample.ram_total = gibibytes(8);
    sample.ram_used = used;
    const auto events = alerts_.add(sample);
    state_.update(sample, alerts_, events);
  }
  HttpResponse get(const std::string& path, std::map<std::string, std::string> query = {}) {
    HttpRequest request;
    request.method = "GET";
    request.path = path;
    request.query = std::move(query);
    request.host = "localhost:9477";
    request.authorization = authorization_;
    return respond(request, state_, access_, kSecond);
  }

  LiveState state_;
  watch::AlertWatch alerts_;
  Access access_;
  std::string authorization_;
};

TEST_F(Router, HealthDependsOnSamples) {
  EXPECT_EQ(get("/healthz").status, 503);
  feed(0);
  EXPECT_EQ(get("/healthz").status, 200);
}

TEST_F(Router, AnswersEveryPathBeforeTheFirstSample) {
  for (const char* path : {"/", "/metrics", "/api/v1/sample", "/api/v1/history", "/api/v1/alerts"})
    EXPECT_EQ(get(path).status, 200) << path;
  EXPECT_EQ(get("/etc/passwd").status, 404);
}

TEST_F(Router, PutsTheHostNameIntoTheLivePage) {
  HttpRequest request;
  request.method = "GET";
  request.path = "/";
  request.host = "localhost";
  const std::string page = respond(request, state_, access_, kSecond, "board</script>7").body;
  EXPECT_THAT(page, HasSubstr("id=\"host\">\"board\\u003c/script>7\""));
  EXPECT_THAT(get("/").body, testing::Not(HasSubstr("id=\"host\"")));
}

TEST_F(Router, ServesTheLastSampleAndItsMetrics) {
  feed(0);
  const auto sample = parse_json(get("/api/v1/sample").body);
  ASSERT_TRUE(sample);
  EXPECT_EQ(get_integer(*sample, "ram_used_bytes"), gibibytes(2).count);
  EXPECT_THAT(get("/metrics").body, HasSubstr("headroom_memory_used_bytes 2147483648"));
  feed(1, gibibytes(3));
  EXPECT_THAT(get("/metrics").body, HasSubstr("headroom_memory_used_bytes 3221225472"));
  EXPECT_EQ(get("/metrics").content_type, "text/plain; version=0.0.4; charset=utf-8");
}

TEST_F(Router, HistoryContinuesAfterSince) {
  for (int second = 0; second < 150; ++second) feed(second);
  const auto all = parse_json(get("/api/v1/history").body);
  ASSERT_TRUE(all);
  EXPECT_EQ((*all)["unix_ms"].size(), 100u) << "the oldest points are dropped";
  EXPECT_EQ((*all)["used_bytes"].size(), 100u);
  EXPECT_TRUE((*all)["gpu_percent"][0].is_null()) << "absent is not zero";
  const auto more = parse_json(get("/api/v1/history", {{"since", "1700000147000"}}).body);
  ASSERT_TRUE(more);
  EXPECT_EQ((*more)["unix_ms"], Json({1'700'000'148'000, 1'700'000'149'000}));
  EXPECT_EQ(get("/api/v1/history", {{"since", "yesterday"}}).status, 400);
}

// Many clients may request an hour of ten samples per second at once, from a server with 64 MB.
TEST_F(Router, ThinsALongHistory) {
  LiveState state(monitoring::default_alert_rules(), 36'000);
  SystemSample sample;
  for (std::int64_t i = 0; i < 36'000; ++i) {
    sample.unix_time = Nanoseconds{(1'700'000'000'000 + 100 * i) * 1'000'000};
    sample.ram_total = sample.ram_used = gibibytes(8);
    state.update(sample, alerts_, {});
  }
  const auto all = parse_json(state.history_json(-1));
  ASSERT_TRUE(all);
  const Json& times = (*all)["unix_ms"];
  ASSERT_EQ(times.size(), 3'600u);
  EXPECT_EQ(times.back(), 1'700'000'000'000 + 100 * 35'999) << "the newest point is included";
  for (std::size_t i = 1; i < times.size(); ++i)
    ASSERT_EQ(times[i].get<std::int64_t>() - times[i - 1].get<std::int64_t>(), 1'000) << i;
  EXPECT_EQ((*all)["used_bytes"].size(), 3'600u);
  EXPECT_LT(state.history_json(-1).size(), 500'000u);
  // 3,601 points: every second one.
  const auto half = parse_json(state.history_json(1'700'000'000'000 + 100 * (35'999 - 3'601)));
  ASSERT_TRUE(half);
  EXPECT_EQ((*half)["unix_ms"].size(), 1'801u);
  const auto last = parse_json(state.history_json(1'700'000'000'000 + 100 * (35'999 - 3'600)));
  ASSERT_TRUE(last);
  EXPECT_EQ((*last)["unix_ms"].size(), 3'600u) << "all points";
}

TEST_F(Router, ClearsHistoryWhenTheClockIsSetBack) {
  for (int second = 100; second < 110; ++second) feed(second);
  feed(20);
  feed(21);
  for (const char* since : {"-1", "1700000109000"}) {
    const auto history = parse_json(get("/api/v1/history", {{"since", since}}).body);
    ASSERT_TRUE(history);
    EXPECT_EQ((*history)["unix_ms"], Json({1'700'000'020'000, 1'700'000'021'000})) << since;
  }
}

TEST_F(Router, ListsActiveAndPastAlerts) {
  for (int second = 0; second < 20; ++second) feed(second, gibibytes(7));
  const auto during = parse_json(get("/api/v1/alerts").body);
  ASSERT_TRUE(during);
  ASSERT_EQ((*during)["active"].size(), 1u) << get("/api/v1/alerts").body;
  EXPECT_EQ(get_text((*during)["active"][0], "alert"), "total_memory");
  for (int second = 20; second < 40; ++second) feed(second);
  const auto after = parse_json(get("/api/v1/alerts").body);
  EXPECT_EQ((*after)["active"].size(), 0u);
  EXPECT_EQ((*after)["events"].size(), 2u);
}

TEST_F(Router, RequiresTheTokenExceptForHealth) {
  access_.token = "0123456789abcdef";
  feed(0);
  EXPECT_EQ(get("/healthz").status, 200);
  EXPECT_EQ(get("/metrics").status, 401);
  EXPECT_EQ(get("/", {{"token", "0123456789abcdeF"}}).status, 401);
  EXPECT_EQ(get("/", {{"token", ""}}).status, 401);
  EXPECT_EQ(get("/", {{"token", "0123456789abcdef"}}).status, 200);
  authorization_ = "Bearer 0123456789abcdef";
  EXPECT_EQ(get("/metrics").status, 200);
  authorization_ = "Bearer 0123456789abcdef0";
  EXPECT_EQ(get("/metrics").status, 401);
  authorization_ = "Basic 0123456789abcdef";
  EXPECT_EQ(get("/metrics").status, 401);
}

TEST_F(Router, RejectsOtherMethodsThanGetAndHead) {
  HttpRequest request{"POST", "/metrics", {}, "localhost", ""};
  EXPECT_EQ(respond(request, state_, access_, kSecond).status, 405);
}

// DNS rebinding: a foreign page whose host name resolves to this machine must not get an answer.
TEST_F(Router, RejectsForeignHostNamesOnLoopback) {
  HttpRequest request{"GET", "/metrics", {}, "evil.example:9477", ""};
  EXPECT_EQ(respond(request, state_, access_, kSecond).status, 403);
  access_.loopback_names_only = false;
  EXPECT_EQ(respond(request, state_, access_, kSecond).status, 200);
}

TEST(LoopbackName, AcceptsOnlyLoopback) {
  for (const char* name :
       {"localhost", "localhost:1", "127.0.0.1", "127.0.0.1:9477", "127.1.2.3", "[::1]", "[::1]:80"})
    EXPECT_TRUE(is_loopback_name(name)) << name;
  for (const char* name : {"", "0.0.0.0", "127.0.0.1.evil.example", "127.evil.0.1", "localhost.evil", "[::2]",
                           "::1", "128.0.0.1"})
    EXPECT_FALSE(is_loopback_name(name)) << name;
}

}  // namespace
}  // namespace headroom::serve
