// The HTTP server on cpp-httplib.
#include <fmt/format.h>
#include <netdb.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <thread>

#include "base/files.h"
#include "serve/http_server.h"
#include "serve/httplib/connection.h"

namespace headroom::serve {
namespace {

// One thread for each open connection. At kMost the accepting thread waits, and new connections wait in the
// kernel.
class TaskQueue final : public httplib::TaskQueue {
 public:
  // `is_ending` must be set before the server stops: the accepting thread may be waiting in enqueue().
  explicit TaskQueue(const std::atomic<bool>& is_ending) : is_ending_(is_ending) {}

  void enqueue(std::function<void()> job) override {
    std::unique_lock lock(mutex_);
    while (!has_ended_.wait_for(lock, std::chrono::milliseconds(100), [&] { return running_ < kMost; }))
      if (is_ending_) return;
    ++running_;
    std::thread([this, job = std::move(job)] {
      job();
      const std::lock_guard held(mutex_);
      --running_;
      has_ended_.notify_all();
    }).detach();
  }

  // Waits for all jobs.
  void shutdown() override {
    std::unique_lock lock(mutex_);
    has_ended_.wait(lock, [&] { return running_ == 0; });
  }

 private:
  static constexpr int kMost = 64;
  const std::atomic<bool>& is_ending_;
  std::mutex mutex_;
  std::condition_variable has_ended_;
  int running_ = 0;
};

// The connections of each client's address.
class Clients {
 public:
  // Returns false if the address holds kMost connections already.
  bool add(const std::string& address) {
    const std::lock_guard lock(mutex_);
    int& count = connections_[address];
    if (count == kMost) return false;
    ++count;
    return true;
  }
  void remove(const std::string& address) {
    const std::lock_guard lock(mutex_);
    if (--connections_[address] == 0) connections_.erase(address);
  }

 private:
  static constexpr int kMost = 16;
  std::mutex mutex_;
  std::map<std::string, int> connections_;
};

std::string address_of_client(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  char text[NI_MAXHOST] = "";
  if (::getpeername(socket, generic, &size) == 0)
    ::getnameinfo(generic, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  return text;
}

// cpp-httplib's server, with connections of our own. Each connection answers one request: no client can
// occupy a connection for long, and a body, which is not read, is never parsed as the next request.
class GuardedServer final : public httplib::Server {
 public:
  GuardedServer(int shutdown_fd, std::unique_ptr<TlsServer> tls)
      : shutdown_fd_(shutdown_fd), tls_(std::move(tls)) {}

 private:
  bool process_and_close_socket(socket_t socket) override {
    Connection connection(socket, shutdown_fd_);
    const std::string client = address_of_client(socket);
    if (!clients_.add(client)) return false;
    const bool answered = answer(connection);
    clients_.remove(client);
    return answered;
  }

  bool answer(Connection& connection) {
    if (tls_ && !connection.start_tls(*tls_)) return false;
    if (!connection.wait_for_request()) return false;
    bool closed = false;
    const bool answered = process_request(connection, true, closed, nullptr);
    connection.drain_input();
    return answered;
  }

  int shutdown_fd_;                 // readable when the server shuts down
  std::unique_ptr<TlsServer> tls_;  // empty: HTTP
  Clients clients_;
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
    std::unique_ptr<TlsServer> tls;
    if (address.tls) {
      auto opened = TlsServer::open(*address.tls);
      if (!opened) return forward_error(opened);
      tls = std::move(*opened);
    }
    server_ = std::make_unique<GuardedServer>(ending_.get(), std::move(tls));
    server_->new_task_queue = [this] { return new TaskQueue(is_ending_); };
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
