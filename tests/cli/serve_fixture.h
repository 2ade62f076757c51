// A running `headroom serve`, and requests with curl.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/subprocess.h"
#include "base/text.h"
#include "cli/command.h"

namespace headroom::test {

struct Answer {
  int status = 0;
  std::string body;
};

inline Answer curl(const std::string& url, std::vector<std::string> more = {}) {
  auto pipe = Pipe::create();
  SpawnOptions options;
  options.command = {"curl", "--silent", "--max-time", "20", "--write-out", "\n%{http_code}", url};
  options.command.insert(options.command.end(), more.begin(), more.end());
  options.stdout_fd = pipe->write_end.get();
  auto process = Subprocess::spawn(options);
  pipe->write_end.reset();
  Answer answer;
  char buffer[65536];
  for (ssize_t length; (length = ::read(pipe->read_end.get(), buffer, sizeof buffer)) > 0;)
    answer.body.append(buffer, static_cast<std::size_t>(length));
  if (process) process->wait();
  const std::size_t line = answer.body.rfind('\n');
  if (line == std::string::npos) return {};
  answer.status = parse_number<int>(answer.body.substr(line + 1)).value_or(0);
  answer.body.resize(line);
  return answer;
}

inline bool eventually(const std::function<bool()>& is_so) {
  for (int i = 0; i < 600; ++i) {
    if (is_so()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return false;
}

// A server on a free port that has its first sample. It ends with the test.
class Served {
 public:
  explicit Served(std::vector<std::string> arguments = {}) {
    auto pipe = Pipe::create();
    SpawnOptions options;
    options.command = {test::built_path("bin/headroom"), "serve"};
    if (std::find(arguments.begin(), arguments.end(), "--listen") == arguments.end())
      options.command.insert(options.command.end(), {"--listen", "127.0.0.1:0"});
    options.command.insert(options.command.end(), {"--interval", "200ms"});
    options.command.insert(options.command.end(), arguments.begin(), arguments.end());
    options.stdout_fd = pipe->write_end.get();
    auto process = Subprocess::spawn(options);
    pipe->write_end.reset();
    if (!process) return;
    process_ = std::move(*process);
    char c = 0;
    while (::read(pipe->read_end.get(), &c, 1) == 1 && c != '\n') url_ += c;
    const bool is_https = url_.starts_with("https");
    const std::string health =
        (is_https ? "https" : "http") + std::string("://127.0.0.1:") + std::to_string(port()) + "/healthz";
    if (!eventually([&] { return curl(health, {"--insecure"}).status == 200; }))
      ADD_FAILURE() << "no sample from " << url_;
  }
  const std::string& url() const { return url_; }
  int port() const {
    const std::size_t begin = url_.rfind(':') + 1;  // "http://127.0.0.1:9477/"
    return parse_number<int>(url_.substr(begin, url_.size() - begin - 1)).value_or(0);
  }
  Subprocess& process() { return process_; }

 private:
  Subprocess process_;
  std::string url_;
};

inline int run(const std::vector<std::string>& command) {
  SpawnOptions options;
  options.command = command;
  auto process = Subprocess::spawn(options);
  return process ? process->wait().exit_code : -1;
}

}  // namespace headroom::test
