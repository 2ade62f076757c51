// An HTTP server. It is a plug-in (libheadroom_serve_httplib.so): the library and OpenSSL under it are of no
// use to any other verb.
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
  std::string host, authorization;  // of the headers; empty if absent
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
  int port = 9477;  // 0: any that is free
  std::optional<TlsFiles> tls;
};

// Called from several threads at once.
using HttpHandler = std::function<HttpResponse(const HttpRequest&)>;

class HttpServer {
 public:
  virtual ~HttpServer() = default;
  // Binds and serves in threads of its own; returns the port. At most 64 connections are served at once; more
  // wait, and more than 16 of one address of elsewhere are hung up on. A request's head has at most 16 KiB
  // and 5 s, an answer 5 s and what 64 KiB/s take; requests have no body.
  virtual Result<int> start(const HttpAddress& address, HttpHandler handler) = 0;
  // False if there are clients that do not come to an end; their threads go on, so the process must end
  // without destroying anything.
  virtual bool stop(Nanoseconds patience) = 0;
};

using HttpServerFunction = HttpServer* (*)();
inline constexpr const char* kHttpServerSymbol = "headroom_http_server_v1";

Result<std::unique_ptr<HttpServer>> load_http_server();

}  // namespace headroom::serve
