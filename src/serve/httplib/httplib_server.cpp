// The HTTP server on cpp-httplib (Debian's package, with OpenSSL).
#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>
#include <type_traits>

#include "base/files.h"
#include "serve/http_server.h"
#include "serve/httplib/connection.h"
#include "serve/httplib/growing_pool.h"

namespace headroom::serve {
namespace {

constexpr int kMaxRequests = 100;  // per connection

class TaskQueue final : public httplib::TaskQueue {
 public:
  TaskQueue(const std::atomic<bool>& is_ending, HighLoad& high_load) : pool_(is_ending, high_load) {}
  void enqueue(std::function<void()> job) override { pool_.enqueue(std::move(job)); }
  void shutdown() override { pool_.shutdown(); }

 private:
  GrowingPool pool_;
};

// State that all connections share.
struct ServerState {
  int shutdown_fd;  // readable when the server shuts down
  HighLoad high_load;
  ConnectionCounts counts;
};

// cpp-httplib's plain or TLS server, with connections of our own.
template <class Base>
class GuardedServer final : public Base {
 public:
  template <class... Arguments>
  explicit GuardedServer(ServerState& state, Arguments... arguments) : Base(arguments...), state_(state) {}

 private:
  bool process_and_close_socket(socket_t socket) override {
    const CountedConnection counted(state_.counts, socket);
    Connection connection(socket, state_.shutdown_fd);
    if (counted.is_over_limit()) return false;
    if constexpr (std::is_same_v<Base, httplib::SSLServer>)
      if (!connection.start_tls(this->ssl_context())) return false;
    return serve_requests(connection, counted);
  }

  // Serves the requests of one connection until an error, a timeout or the limit of requests.
  bool serve_requests(Connection& connection, const CountedConnection& counted) {
    for (int left = kMaxRequests; left > 0; --left) {
      const bool is_kept = left < kMaxRequests;
      if (!connection.wait_for_request(is_kept ? state_.high_load.fd() : -1)) return false;
      const bool is_last = left == 1 || state_.high_load.is_high() || !counted.may_keep_alive();
      bool closed = false, has_body = false;
      const auto look_at = [&has_body](httplib::Request& request) {
        const std::string length = request.get_header_value("Content-Length");
        has_body = request.has_header("Transfer-Encoding") || (!length.empty() && length != "0");
      };
      const bool answered = this->process_request(connection, is_last, closed, look_at);
      // Close after a request with a body: bodies are not read, so the body would be parsed as the next
      // request. Close after an invalid request for the same reason. Close after a client error, so that
      // clients without a token do not occupy connections.
      if (!answered || has_body || connection.sent_client_error()) {
        connection.drain_input();
        return false;
      }
      if (closed || is_last) return true;
    }
    return true;
  }
  ServerState& state_;
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
    static_cast<void>(server_.release());  // its threads are still running
  }

  Result<int> start(const HttpAddress& address, HttpHandler handler) override {
    if (!ending_) return internal_error("cannot serve", errno_text(errno));
    if (address.tls)
      server_ = std::make_unique<GuardedServer<httplib::SSLServer>>(state_, address.tls->certificate.c_str(),
                                                                    address.tls->key.c_str());
    else
      server_ = std::make_unique<GuardedServer<httplib::Server>>(state_);
    if (!server_->is_valid())
      return input_error(fmt::format("cannot use the certificate {} with the key {}",
                                     address.tls->certificate.string(), address.tls->key.string()),
                         "they are not a matching pair of PEM files", "check --tls-cert and --tls-key");
    server_->new_task_queue = [this] { return new TaskQueue(is_ending_, state_.high_load); };
    server_->set_payload_max_length(0);
    server_->set_tcp_nodelay(true);
    // The library's default options let two servers share a port, and each would answer half of the requests.
    server_->set_socket_options([](socket_t socket) {
      const int yes = 1;
      ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    // This handler answers all requests, also those with unknown paths and methods.
    server_->set_pre_routing_handler([handler](const httplib::Request& from, httplib::Response& to) {
      // Ignore ranges: for a thousand ranges the library would build a thousand parts at once.
      const_cast<httplib::Request&>(from).ranges.clear();
      HttpResponse response = handler(request_of(from));
      to.status = response.status;
      for (const auto& [name, value] : response.headers) to.set_header(name, value);
      to.body = std::move(response.body);      // set_content() would copy it
      to.set_header("Accept-Ranges", "none");  // the library would answer "bytes" to HEAD
      to.set_header("Content-Type", response.content_type);
      return httplib::Server::HandlerResponse::Handled;
    });
    // serve_requests() closes the connection after a client error. Announce that, also in the library's own
    // responses.
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
    // Wait until the server runs: a stop() before that would have no effect.
    while (!server_->is_running() &&
           has_ended_.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) {
    }
    return port;
  }

  bool stop(Nanoseconds patience) override {
    if (!thread_.joinable()) return true;
    is_ending_ = true;
    ::eventfd_write(ending_.get(), 1);  // never read, so it wakes every wait
    server_->stop();
    if (has_ended_.wait_for(std::chrono::nanoseconds(patience.count)) != std::future_status::ready)
      return false;
    thread_.join();
    return true;
  }

 private:
  std::atomic<bool> is_ending_ = false;
  UniqueFd ending_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  ServerState state_{ending_.get(), {}, {}};
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
