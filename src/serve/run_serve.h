// `headroom serve`: publishes this machine's samples over HTTP.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "serve/http_server.h"
#include "serve/ros2/publisher.h"
#include "serve/router.h"
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

}  // namespace headroom::serve
