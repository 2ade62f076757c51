// The server on cpp-httplib (Debian's, with OpenSSL).
#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include "base/files.h"
#include "serve/http_server.h"
#include "serve/httplib/connection.h"
#include "serve/httplib/growing_pool.h"
#include "serve/httplib/visitors.h"

namespace headroom::serve {
namespace {

constexpr int kMostRequests = 100;  // of a connection

class TaskQueue final : public httplib::TaskQueue {
 public:
  TaskQueue(const std::atomic<bool>& is_ending, Crowd& crowd) : pool_(is_ending, crowd) {}
  void enqueue(std::function<void()> job) override { pool_.enqueue(std::move(job)); }
  void shutdown() override { pool_.shutdown(); }

 private:
  GrowingPool pool_;
};

// What a connection looks at beside itself.
struct Surroundings {
  int ending;  // readable once the server is to end
  Crowd crowd;
  Visitors visitors;
};

// One request after the other, as long as the other side behaves. `answer` is process_request of a server.
using AnswerRequest = std::function<bool(httplib::Stream& stream, bool is_last, bool& closed,
                                         const std::function<void(httplib::Request&)>& look_at)>;

bool serve_requests(Connection& connection, const Crowd& crowd, const Visit& visit,
                    const AnswerRequest& answer) {
  for (int left = kMostRequests; left > 0; --left) {
    const bool is_kept = left < kMostRequests;
    if (!connection.wait_for_request(is_kept ? crowd.fd() : -1)) return false;
    const bool is_last = left == 1 || crowd.is_there() || !visit.may_be_kept();
    bool closed = false, has_body = false;
    const auto look_at = [&has_body](httplib::Request& request) {
      const std::string length = request.get_header_value("Content-Length");
      has_body = request.has_header("Transfer-Encoding") || (!length.empty() && length != "0");
    };
    const bool answered = answer(connection, is_last, closed, look_at);
    // A body is not read, so what comes next would be taken for a request; so is what follows something that
    // was none. And whoever has no token is to give room to those who have.
    if (!answered || has_body || connection.has_refused()) {
      connection.refuse_the_rest();
      return false;
    }
    if (closed || is_last) return true;
  }
  return true;
}

class PlainServer final : public httplib::Server {
 public:
  explicit PlainServer(Surroundings& around) : around_(around) {}

 private:
  bool process_and_close_socket(socket_t socket) override {
    const Visit visit(around_.visitors, socket);
    Connection connection(socket, around_.ending);
    if (visit.is_one_too_many()) return false;
    return serve_requests(connection, around_.crowd, visit,
                          [this](auto& stream, bool is_last, bool& closed, const auto& look_at) {
                            return process_request(stream, is_last, closed, look_at);
                          });
  }
  Surroundings& around_;
};

class TlsServer final : public httplib::SSLServer {
 public:
  TlsServer(const TlsFiles& files, Surroundings& around)
      : SSLServer(files.certificate.c_str(), files.key.c_str()), around_(around) {}

 private:
  bool process_and_close_socket(socket_t socket) override {
    const Visit visit(around_.visitors, socket);
    Connection connection(socket, around_.ending);
    if (visit.is_one_too_many() || !connection.start_tls(ssl_context())) return false;
    return serve_requests(connection, around_.crowd, visit,
                          [this](auto& stream, bool is_last, bool& closed, const auto& look_at) {
                            return process_request(stream, is_last, closed, look_at);
                          });
  }
  Surroundings& around_;
};

HttpRequest request_of(const httplib::Request& from) {
  HttpRequest request;
  request.method = from.method;
  request.path = from.path;
  for (const auto& [name, value] : from.params) request.query.emplace(name, value);
  request.host = from.get_header_value("Host");
  request.authorization = from.get_header_value("Authorization");
  return request;
}

class HttplibServer : public HttpServer {
 public:
  ~HttplibServer() override {
    if (stop(kPatience)) return;
    thread_.detach();
    static_cast<void>(server_.release());  // its threads are still at it
  }

  Result<int> start(const HttpAddress& address, HttpHandler handler) override {
    if (!ending_) return internal_error("cannot serve", errno_text(errno));
    if (address.tls)
      server_ = std::make_unique<TlsServer>(*address.tls, around_);
    else
      server_ = std::make_unique<PlainServer>(around_);
    if (!server_->is_valid())
      return input_error(fmt::format("cannot use the certificate {} with the key {}",
                                     address.tls->certificate.string(), address.tls->key.string()),
                         "they are no pair of PEM files", "check the files");
    server_->new_task_queue = [this] { return new TaskQueue(is_ending_, around_.crowd); };
    server_->set_payload_max_length(0);
    server_->set_tcp_nodelay(true);
    // The library's own options let two servers share a port, each with half of the answers.
    server_->set_socket_options([](socket_t socket) {
      const int yes = 1;
      ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    // All is answered here: what the library does for unknown paths and methods, too.
    server_->set_pre_routing_handler([handler](const httplib::Request& from, httplib::Response& to) {
      // A part of an answer for each of a thousand ranges would be made at once.
      const_cast<httplib::Request&>(from).ranges.clear();
      HttpResponse response = handler(request_of(from));
      to.status = response.status;
      for (const auto& [name, value] : response.headers) to.set_header(name, value);
      to.body = std::move(response.body);      // set_content would copy it
      to.set_header("Accept-Ranges", "none");  // the library would say "bytes" to HEAD
      to.set_header("Content-Type", response.content_type);
      return httplib::Server::HandlerResponse::Handled;
    });
    // As serve_requests does it, also for what the library answers by itself.
    server_->set_post_routing_handler([](const httplib::Request&, httplib::Response& to) {
      if (to.status < 400 || to.status >= 500) return;
      to.headers.erase("Keep-Alive");
      to.headers.erase("Connection");
      to.set_header("Connection", "close");
    });
    int port = address.port;
    if (port == 0)
      port = server_->bind_to_any_port(address.host);
    else if (!server_->bind_to_port(address.host, port))
      port = -1;
    if (port <= 0)
      return failure(fmt::format("cannot listen on {}:{}", address.host, address.port), errno_text(errno),
                     "choose another with --listen HOST:PORT");
    thread_ = std::thread([this] {
      server_->listen_after_bind();
      ended_.set_value();
    });
    // Told to stop before it has begun, it would not hear it.
    while (!server_->is_running() &&
           has_ended_.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) {
    }
    return port;
  }

  bool stop(Nanoseconds patience) override {
    if (!thread_.joinable()) return true;
    is_ending_ = true;
    ::eventfd_write(ending_.get(), 1);  // it is never read: every wait of a connection sees it
    server_->stop();
    if (has_ended_.wait_for(std::chrono::nanoseconds(patience.count)) != std::future_status::ready)
      return false;
    thread_.join();
    return true;
  }

 private:
  std::atomic<bool> is_ending_ = false;
  UniqueFd ending_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  Surroundings around_{ending_.get(), {}, {}};
  std::promise<void> ended_;
  std::future<void> has_ended_ = ended_.get_future();
  std::unique_ptr<httplib::Server> server_;
  std::thread thread_;
};

}  // namespace
}  // namespace headroom::serve

extern "C" __attribute__((visibility("default"))) headroom::serve::HttpServer* headroom_http_server_v1() {
  return new headroom::serve::HttplibServer;
}
