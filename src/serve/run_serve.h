// `headroom serve`: this machine's samples over HTTP.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "ros2/publisher.h"
#include "serve/http_server.h"
#include "serve/router.h"
#include "watch/watch_options.h"

namespace headroom::serve {

struct ServeOptions {
  HttpAddress address;
  std::string token;
  watch::WatchOptions watch;  // interval, sysroot, alerts, how many processes
  Nanoseconds history{3600'000'000'000};
  std::optional<ros2::PublisherOptions> ros2;  // also publish diagnostics for ROS 2
  std::string ros2_publisher = "auto";         // which plug-in does
};

// Until a signal comes. Prints where it listens. Errors: an address of other machines without token and TLS,
// an address that is taken, files of TLS that cannot be used, no way to publish for ROS 2.
Result<int> run_serve(const ServeOptions& options);

}  // namespace headroom::serve
