// The interface of the HTTP server. The implementation is a plug-in (libheadroom_serve_httplib.so), because
// only `headroom serve` needs the HTTP library and OpenSSL.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
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
  std::vector<std::pair<std::string, std::string>> headers;
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
  // Limits: 64 connections at once, more wait. At most 16 connections for each remote address; the server
  // closes further ones. A request's head may have 16 KiB and take 5 s. A response may take 5 s plus its size
  // at 64 KiB/s. Request bodies are not read.
  virtual Result<int> start(const HttpAddress& address, HttpHandler handler) = 0;
  // Returns false if some connections did not end in time. Their threads are still running, so the process
  // must exit without destroying anything.
  virtual bool stop(Nanoseconds patience) = 0;
};

using HttpServerFunction = HttpServer* (*)();
inline constexpr const char* kHttpServerSymbol = "headroom_http_server_v1";

Result<std::unique_ptr<HttpServer>> load_http_server();

}  // namespace headroom::serve
