#include "serve/run_serve.h"

#include <fmt/format.h>
#include <malloc.h>
#include <algorithm>
#include <cstdlib>

#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "base/terminal.h"
#include "base/text.h"
#include "bench/conductor/child_process.h"
#include "report/page.h"
#include "serve/ros2/diagnostics.h"
#include "sources/host_info.h"
#include "watch/alert_watch.h"
#include "watch/live_input.h"

namespace headroom::serve {
namespace {

constexpr std::size_t kMostPoints = 36'000;
constexpr Nanoseconds kPatience{2'000'000'000};  // for responses in progress at shutdown

std::string url_of(const HttpAddress& address, int port) {
  const bool is_ipv6 = address.host.find(':') != std::string::npos;
  return fmt::format("{}://{}:{}/", address.tls ? "https" : "http",
                     is_ipv6 ? fmt::format("[{}]", address.host) : address.host, port);
}

Result<std::unique_ptr<HttpServer>> load_http_server() {
  constexpr const char* kPluginFile = "libheadroom_serve_httplib.so";
  constexpr const char* kFix =
      "install Headroom's package again; in a build of the sources, build the target headroom_serve_httplib "
      "(apt install libcpp-httplib-dev)";
  const auto file = find_plugin(kPluginFile);
  if (!file)
    return internal_error("cannot serve",
                          fmt::format("{} not found in {}", kPluginFile, plugin_folders_text()), kFix);
  auto create = load_plugin(*file, kHttpServerSymbol, kFix);
  if (!create) return forward_error(create);
  return std::unique_ptr<HttpServer>(reinterpret_cast<HttpServerFunction>(*create)());
}

// Empty if the options do not enable ROS 2.
Result<std::optional<ros2::DiagnosticsFeed>> start_ros2(const ServeOptions& options) {
  if (!options.ros2) return std::nullopt;
  auto publisher = ros2::load_diagnostics_publisher(options.ros2_publisher);
  if (!publisher) return forward_error(publisher);
  if (auto started = (*publisher)->start(*options.ros2); !started) return forward_error(started);
  log::info("publishing {} for ROS 2 in domain {}", options.ros2->topic, options.ros2->domain);
  return ros2::DiagnosticsFeed(std::move(*publisher), sources::read_host_info(options.watch.sysroot).hostname,
                               options.watch.interval);
}

constexpr std::string_view kBearer = "Bearer ";
constexpr const char* kJson = "application/json";

HttpResponse answer(int status, const std::string& text) { return {.status = status, .body = text + "\n"}; }

HttpResponse content(std::string type, std::string body) {
  return {.content_type = std::move(type), .body = std::move(body)};
}

// Compares in constant time, so that the duration does not reveal matching characters.
bool is_same_secret(const std::string& a, const std::string& b) {
  unsigned different = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size(); ++i)
    different |=
        static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b.empty() ? 0 : b[i % b.size()]);
  return different == 0;
}

bool has_token(const HttpRequest& request, const std::string& token) {
  if (request.authorization.starts_with(kBearer))
    return is_same_secret(request.authorization.substr(kBearer.size()), token);
  const auto given = request.query.find("token");
  return given != request.query.end() && is_same_secret(given->second, token);
}

HttpResponse health(LiveState& state, Nanoseconds interval) {
  const auto age = state.age_seconds();
  const double most = std::max(10 * interval.seconds(), 5.0);
  if (!age) return answer(503, "no sample yet");
  if (*age > most) return answer(503, fmt::format("the last sample is {:.1f} s old", *age));
  return answer(200, "ok");
}

HttpResponse live_page_of(const std::string& host_name) {
  constexpr const char* kHtml = "text/html; charset=utf-8";
  std::vector<report::PageData> data;
  if (!host_name.empty()) data.push_back({"host", to_line(Json(host_name))});
  return content(kHtml, report::page_with_data(report::Page::live, data));
}

HttpResponse find_content(const HttpRequest& request, LiveState& state, const std::string& host_name) {
  if (request.path == "/metrics")
    return content("text/plain; version=0.0.4; charset=utf-8", *state.metrics());
  if (request.path == "/api/v1/sample") return content(kJson, *state.sample_json());
  if (request.path == "/api/v1/alerts") return content(kJson, state.alerts_json());
  if (request.path == "/api/v1/history") {
    const auto since = request.query.find("since");
    if (since == request.query.end()) return content(kJson, state.history_json(-1));
    const auto time = parse_number<std::int64_t>(since->second);
    if (!time) return answer(400, "since must be milliseconds since 1970");
    return content(kJson, state.history_json(*time));
  }
  if (request.path == "/") return live_page_of(host_name);
  return answer(
      404,
      "unknown path; valid paths: /, /metrics, /api/v1/sample, /api/v1/history, /api/v1/alerts, /healthz");
}

}  // namespace

Result<int> run_serve(const ServeOptions& options) {
  if (auto sound = watch::check_sysroot(options.watch.sysroot); !sound) return forward_error(sound);
  const bool is_local = is_loopback_name(options.address.host) || options.address.host == "::1";
  if (!is_local && options.token.empty() && !options.address.tls)
    return usage_error(fmt::format("--listen {} makes this machine's data public", options.address.host), "",
                       "use --token-file, or --tls-cert and --tls-key");
  if (!is_local && !options.address.tls)
    log::warning("the token is sent unencrypted; use --tls-cert and --tls-key");
  ::mallopt(M_ARENA_MAX, 2);  // else each of 64 threads' arenas keeps the memory of its largest response
  auto interrupt = bench::Interrupt::listen();
  if (!interrupt) return forward_error(interrupt);
  watch::AlertSettings settings = options.watch.alerts.value_or(watch::AlertSettings{});
  const auto points = static_cast<std::size_t>(options.history.count / options.watch.interval.count);
  LiveState state(settings.rules, std::clamp<std::size_t>(points, 60, kMostPoints));
  watch::AlertWatch alerts(std::move(settings), options.watch.interval);
  const Access access{options.token, is_local};
  const std::string host_name = sources::read_host_info(options.watch.sysroot).hostname;
  auto diagnostics = start_ros2(options);
  if (!diagnostics) return forward_error(diagnostics);
  // Declared after the objects that its threads use, so that it is destroyed first.
  auto server = load_http_server();
  if (!server) return forward_error(server);
  auto port = (*server)->start(options.address, [&](const HttpRequest& request) {
    return respond(request, state, access, options.watch.interval, host_name);
  });
  if (!port) return forward_error(port);
  log::info("serving {}", url_of(options.address, *port));
  print_output(url_of(options.address, *port) + "\n");

  auto end = watch::sample_live(options.watch, *interrupt, [&](SystemSample& sample) {
    const auto events = alerts.add(sample);
    state.update(sample, alerts, events);
    if (*diagnostics) (*diagnostics)->add(sample, alerts.risk(), alerts.active(), !events.empty());
    return true;
  });
  if (*diagnostics) (*diagnostics)->end();
  const bool stopped = (*server)->stop(kPatience);
  alerts.finish();
  if (!stopped) {  // a thread still sends a response and uses objects of this function
    if (!end) log::error("{}", end.error().sentence());
    std::_Exit(end ? 0 : 3);
  }
  if (!end) return forward_error(end);
  return 0;
}

bool is_loopback_name(const std::string& host) {
  const std::string name = host.substr(0, host.starts_with('[') ? host.find(']') + 1 : host.find(':'));
  if (name == "localhost" || name == "[::1]") return true;
  const bool is_number = name.starts_with("127.") && name.find_first_not_of("0123456789.") == name.npos;
  return is_number && std::count(name.begin(), name.end(), '.') == 3;
}

HttpResponse respond(const HttpRequest& request, LiveState& state, const Access& access, Nanoseconds interval,
                     const std::string& host_name) {
  HttpResponse response;
  if (request.method != "GET" && request.method != "HEAD") {
    response = answer(405, "method not allowed; use GET or HEAD");
    response.headers.emplace_back("Allow", "GET, HEAD");
  } else if (access.loopback_names_only && !is_loopback_name(request.host)) {
    response = answer(403, "host not allowed; use localhost");
  } else if (request.path == "/healthz") {
    response = health(state, interval);
  } else if (!access.token.empty() && !has_token(request, access.token)) {
    response = answer(401, "missing or wrong token; send Authorization: Bearer TOKEN");
    response.headers.emplace_back("WWW-Authenticate", "Bearer");
  } else {
    response = find_content(request, state, host_name);
  }
  response.headers.emplace_back("X-Content-Type-Options", "nosniff");
  response.headers.emplace_back("Cache-Control", "no-store");
  response.headers.emplace_back("Referrer-Policy", "no-referrer");
  return response;
}

}  // namespace headroom::serve
