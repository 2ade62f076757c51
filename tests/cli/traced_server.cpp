// A server of eight threads with clients in the same process, for tests that attach to it. Each request has a
// number and bytes that the answer must repeat. The program gets no signals, so a system call that ends with
// EINTR is counted. It runs until its standard input ends, and then prints what it counted.
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int kThreads = 8;
constexpr std::size_t kLargest = 6000;

std::atomic<bool> stopping{false};
std::atomic<std::uint64_t> answered{0}, wrong{0}, interrupted{0};

struct Message {
  std::uint64_t number = 0;
  std::uint32_t bytes = 0;
};

// Blocking, with a time limit so that the threads end.
bool transfer_all(ssize_t (*transfer)(int, void*, std::size_t), int fd, void* data, std::size_t bytes) {
  auto* at = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t moved = transfer(fd, at, bytes);
    if (moved < 0 && errno == EINTR) {
      ++interrupted;
      continue;
    }
    if (moved < 0 && errno == EAGAIN && !stopping) continue;
    if (moved <= 0) return false;
    at += moved;
    bytes -= static_cast<std::size_t>(moved);
  }
  return true;
}
bool receive_all(int fd, void* data, std::size_t bytes) {
  return transfer_all([](int f, void* d, std::size_t b) { return ::recv(f, d, b, 0); }, fd, data, bytes);
}
bool send_all(int fd, void* data, std::size_t bytes) {
  return transfer_all([](int f, void* d, std::size_t b) { return ::send(f, d, b, MSG_NOSIGNAL); }, fd, data,
                      bytes);
}

// Answers with the same bytes, after some work on a map that lives across requests.
void serve(int fd) {
  const int poll = ::epoll_create1(0);
  epoll_event wanted{};
  wanted.events = EPOLLIN;
  ::epoll_ctl(poll, EPOLL_CTL_ADD, fd, &wanted);
  std::map<std::uint64_t, std::string> known;
  for (;;) {
    epoll_event event{};
    const int ready = ::epoll_wait(poll, &event, 1, 200);
    if (ready < 0 && errno == EINTR) {
      ++interrupted;
      continue;
    }
    if (ready <= 0) {
      if (stopping) break;
      continue;
    }
    Message message;
    if (!receive_all(fd, &message, sizeof message)) break;
    std::string body(message.bytes, '\0');
    if (!receive_all(fd, body.data(), body.size())) break;
    known[message.number % 64] = body;
    auto* copy = static_cast<char*>(std::malloc(body.size() + 1));
    std::memcpy(copy, known[message.number % 64].data(), body.size());
    copy = static_cast<char*>(std::realloc(copy, body.size() * 2 + 1));
    const bool is_sent = send_all(fd, &message, sizeof message) && send_all(fd, copy, body.size());
    std::free(copy);
    if (!is_sent) break;
  }
  ::close(poll);
}

void ask(int fd, unsigned seed) {
  for (std::uint64_t number = 1; !stopping; ++number) {
    seed = seed * 1103515245 + 12345;
    Message message{number, static_cast<std::uint32_t>(seed / 65536 % kLargest)};
    std::vector<char> body(message.bytes, static_cast<char>(seed >> 8));
    if (!send_all(fd, &message, sizeof message) || !send_all(fd, body.data(), body.size())) break;
    Message answer;
    if (!receive_all(fd, &answer, sizeof answer)) break;
    std::vector<char> same(answer.bytes);
    if (!receive_all(fd, same.data(), same.size())) break;
    if (answer.number != number || same != body) ++wrong;
    ++answered;
    if (number % 64 == 0) ::usleep(1000);
  }
}

}  // namespace

int main() {
  std::vector<std::thread> threads;
  std::vector<int> sockets;
  for (int i = 0; i < kThreads; ++i) {
    int pair[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) return 1;
    const timeval limit{1, 0};
    for (const int fd : pair) ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    sockets.insert(sockets.end(), pair, pair + 2);
    threads.emplace_back(serve, pair[0]);
    threads.emplace_back(ask, pair[1], static_cast<unsigned>(i));
  }
  std::puts("ready");
  std::fflush(stdout);
  char byte = 0;
  for (ssize_t got = 1; got != 0;) {
    got = ::read(STDIN_FILENO, &byte, 1);
    if (got < 0 && errno == EINTR) ++interrupted;
    // "?": how far it is
    if (got == 1 && byte == '?') {
      std::printf("%llu\n", static_cast<unsigned long long>(answered.load()));
      std::fflush(stdout);
    }
  }
  stopping = true;
  for (std::thread& thread : threads) thread.join();
  for (const int fd : sockets) ::close(fd);
  std::printf("{\"done\": %llu, \"wrong\": %llu, \"interrupted\": %llu}\n",
              static_cast<unsigned long long>(answered.load()), static_cast<unsigned long long>(wrong.load()),
              static_cast<unsigned long long>(interrupted.load()));
  return 0;
}
