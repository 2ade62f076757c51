// Which answer a request gets, and whether it may have one.
#pragma once

#include <string>

#include "base/units.h"
#include "serve/http_server.h"
#include "serve/live_state.h"

namespace headroom::serve {

struct Access {
  // If not empty, every request but /healthz needs it: "Authorization: Bearer TOKEN", or ?token=TOKEN for a
  // browser.
  std::string token;
  // Only requests to this machine's own names are answered, so that a page of elsewhere cannot read the
  // metrics through a visitor's browser (DNS rebinding).
  bool loopback_names_only = true;
};

// True for localhost, 127.x.y.z and [::1], with or without a port.
bool is_loopback_name(const std::string& host);

// Compares in a time that does not tell how much of it is right.
bool is_same_secret(const std::string& a, const std::string& b);

// `interval`: of the samples; if none came for ten of them, /healthz says 503.
HttpResponse respond(const HttpRequest& request, LiveState& state, const Access& access,
                     Nanoseconds interval);

}  // namespace headroom::serve
