#include "serve/router.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"
#include "base/text.h"
#include "report/page.h"

namespace headroom::serve {
namespace {

constexpr std::string_view kBearer = "Bearer ";
constexpr const char* kJson = "application/json";

HttpResponse answer(int status, std::string text) {
  HttpResponse response;
  response.status = status;
  response.body = std::move(text) + "\n";
  return response;
}

HttpResponse content(std::string content_type, std::string body) {
  HttpResponse response;
  response.content_type = std::move(content_type);
  response.body = std::move(body);
  return response;
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

bool is_loopback_name(const std::string& host) {
  std::string name = host;
  if (name.starts_with('[')) {
    name = name.substr(0, name.find(']') + 1);
  } else {
    name = name.substr(0, name.find(':'));
  }
  if (name == "localhost" || name == "[::1]") return true;
  const bool is_number = name.starts_with("127.") && name.find_first_not_of("0123456789.") == name.npos;
  return is_number && std::count(name.begin(), name.end(), '.') == 3;
}

bool is_same_secret(const std::string& a, const std::string& b) {
  unsigned different = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size(); ++i)
    different |=
        static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b.empty() ? 0 : b[i % b.size()]);
  return different == 0;
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
