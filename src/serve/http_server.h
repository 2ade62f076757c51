// The interface of the HTTP server. The implementation is a plug-in (libheadroom_serve_httplib.so), because
// only `headroom serve` needs the HTTP library.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/units.h"

namespace headroom::serve {

struct HttpRequest {
  std::string method, path;
  std::map<std::string, std::string> query;
  std::string host, authorization;  // headers; empty if absent
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers{};
};

struct TlsFiles {
  std::filesystem::path certificate, key;  // PEM
};

struct HttpAddress {
  std::string host = "127.0.0.1";
  int port = 9477;  // 0: any free port
  std::optional<TlsFiles> tls;
};

// Called from several threads at once.
using HttpHandler = std::function<HttpResponse(const HttpRequest&)>;

class HttpServer {
 public:
  virtual ~HttpServer() = default;
  // Binds the address and serves in its own threads. Returns the port.
  //
  // Limits:
  //   - 64 connections at once, one request each; further ones wait in the kernel
  //   - 16 connections of one client's address at once; further ones are closed
  //   - 16 KiB and 5 s for a request's head; request bodies are not read
  //   - 5 s for a response, plus the time for its size at 64 KiB/s
  virtual Result<int> start(const HttpAddress& address, HttpHandler handler) = 0;
  // Stops serving and waits up to `patience` for the connections to end. Returns false if some did not end.
  // Their threads are then still running, so the process must exit without destroying anything.
  virtual bool stop(Nanoseconds patience) = 0;
};

using HttpServerFunction = HttpServer* (*)();
inline constexpr const char* kHttpServerSymbol = "headroom_http_server_v1";

}  // namespace headroom::serve
