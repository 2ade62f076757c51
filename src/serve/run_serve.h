// `headroom serve`: publishes this machine's samples over HTTP.
#pragma once

#include <optional>
#include <string>

#include "serve/http_server.h"
#include "serve/live_state.h"
#include "serve/ros2/publisher.h"
#include "watch/watch_options.h"

namespace headroom::serve {

struct ServeOptions {
  HttpAddress address;
  std::string token;
  watch::WatchOptions watch;                   // interval, sysroot, alerts, number of processes
  Nanoseconds history{3600'000'000'000};       // how long the server keeps points for the page's charts
  std::optional<ros2::PublisherOptions> ros2;  // also publish diagnostics for ROS 2
  std::string ros2_publisher = "auto";         // name of the plug-in
};

// Runs until a signal arrives. Prints its URL. Errors: a non-loopback address without token and TLS, an
// address in use, invalid TLS files, no working ROS 2 publisher.
Result<int> run_serve(const ServeOptions& options);

// Routes a request to its response, and checks access.
struct Access {
  // If not empty, every request except /healthz must contain it: "Authorization: Bearer TOKEN", or
  // ?token=TOKEN for a browser.
  std::string token;
  // Answer only requests whose host is a loopback name, so that a foreign web page cannot read the metrics
  // through the user's browser (DNS rebinding).
  bool loopback_names_only = true;
};

// True for localhost, 127.x.y.z and [::1], with or without a port.
bool is_loopback_name(const std::string& host);

// `interval`: the sampling interval. If no sample arrived for ten intervals (at least 5 s), /healthz returns
// 503. `host_name`: the title of the live page; if empty, the page shows the host of its address.
HttpResponse respond(const HttpRequest& request, LiveState& state, const Access& access, Nanoseconds interval,
                     const std::string& host_name = {});

}  // namespace headroom::serve
