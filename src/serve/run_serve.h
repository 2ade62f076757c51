// `headroom serve`: this machine's samples over HTTP.
#pragma once

#include <string>

#include "base/result.h"
#include "serve/http_server.h"
#include "serve/router.h"
#include "watch/watch_options.h"

namespace headroom::serve {

struct ServeOptions {
  HttpAddress address;
  std::string token;
  watch::WatchOptions watch;  // interval, sysroot, alerts, how many processes
  Nanoseconds history{3600'000'000'000};
};

// Until a signal comes. Prints where it listens. Errors: an address of other machines without token and TLS,
// an address that is taken, files of TLS that cannot be used.
Result<int> run_serve(const ServeOptions& options);

}  // namespace headroom::serve
