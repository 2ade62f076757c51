// Routes a request to its response, and checks access.
#pragma once

#include <string>

#include "base/units.h"
#include "serve/http_server.h"
#include "serve/live_state.h"

namespace headroom::serve {

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

// Compares in constant time, so that the duration does not reveal matching characters.
bool is_same_secret(const std::string& a, const std::string& b);

// `interval`: the sampling interval. If no sample arrived for ten intervals (at least 5 s), /healthz returns
// 503. `host_name`: the title of the live page; if empty, the page shows the host of its address.
HttpResponse respond(const HttpRequest& request, LiveState& state, const Access& access, Nanoseconds interval,
                     const std::string& host_name = {});

}  // namespace headroom::serve
