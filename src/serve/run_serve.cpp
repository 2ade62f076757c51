#include "serve/run_serve.h"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <cstdlib>

#include "base/log.h"
#include "base/terminal.h"
#include "bench/interrupt.h"
#include "serve/ros2/diagnostics_feed.h"
#include "sources/host_info.h"
#include "watch/alert_watch.h"
#include "watch/live_input.h"

namespace headroom::serve {
namespace {

constexpr std::size_t kMostPoints = 36'000;
constexpr Nanoseconds kPatience{2'000'000'000};  // for responses in progress at shutdown

bool is_loopback_address(const std::string& host) { return is_loopback_name(host) || host == "::1"; }

std::string url_of(const HttpAddress& address, int port) {
  const bool is_ipv6 = address.host.find(':') != std::string::npos;
  return fmt::format("{}://{}:{}/", address.tls ? "https" : "http",
                     is_ipv6 ? fmt::format("[{}]", address.host) : address.host, port);
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

}  // namespace

Result<int> run_serve(const ServeOptions& options) {
  if (auto sound = watch::check_sysroot(options.watch.sysroot); !sound) return forward_error(sound);
  const bool is_local = is_loopback_address(options.address.host);
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

}  // namespace headroom::serve
