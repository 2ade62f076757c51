// Publishers and subscribers in one process, as the nodes of a robot are: many small messages through queues,
// each with a number and a sum that the subscriber checks. It runs until its standard input ends, and then
// prints what it counted. For tests that attach to it.
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace {

struct Message {
  std::uint64_t number = 0;
  std::string frame;
  std::vector<float> ranges;
  std::map<std::string, double> fields;
  double sum = 0;
};

class Topic {
 public:
  void publish(std::shared_ptr<const Message> message) {
    const std::lock_guard<std::mutex> locked(mutex_);
    if (queue_.size() >= 50) space_.notify_all();
    queue_.push_back(std::move(message));
    filled_.notify_one();
  }
  std::shared_ptr<const Message> take() {
    std::unique_lock<std::mutex> locked(mutex_);
    filled_.wait(locked, [&] { return !queue_.empty(); });
    auto message = std::move(queue_.front());
    queue_.pop_front();
    if (queue_.size() < 50) space_.notify_all();
    return message;
  }
  void wait_for_space() {
    std::unique_lock<std::mutex> locked(mutex_);
    space_.wait(locked, [&] { return queue_.size() < 50; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable filled_, space_;
  std::deque<std::shared_ptr<const Message>> queue_;
};

constexpr int kTopics = 4;
Topic topics[kTopics];
std::atomic<bool> stopping{false};
std::atomic<std::uint64_t> received{0}, wrong{0};
constexpr std::uint64_t kLast = ~std::uint64_t{0};

void publish(Topic& topic) {
  for (std::uint64_t number = 1; !stopping; ++number) {
    auto message = std::make_shared<Message>();
    message->number = number;
    message->frame = "base_link/sensor/" + std::to_string(number % 100);
    message->ranges.assign(20 + number % 40, static_cast<float>(number % 7));
    for (int i = 0; i < 4; ++i)
      message->fields["field" + std::to_string(i)] = static_cast<double>(number % 11);
    message->sum = std::accumulate(message->ranges.begin(), message->ranges.end(), 0.0);
    topic.wait_for_space();
    topic.publish(message);
    if (number % 20 == 0) ::usleep(500);
  }
  auto last = std::make_shared<Message>();
  last->number = kLast;
  topic.publish(last);
}

void subscribe(Topic& topic) {
  std::unordered_map<std::string, std::shared_ptr<const Message>> latest;
  for (std::uint64_t expected = 1;; ++expected) {
    auto message = topic.take();
    if (message->number == kLast) return;
    const double sum = std::accumulate(message->ranges.begin(), message->ranges.end(), 0.0);
    if (message->number != expected || sum != message->sum || message->fields.size() != 4) ++wrong;
    latest[message->frame] = message;
    ++received;
  }
}

}  // namespace

int main() {
  std::vector<std::thread> threads;
  for (Topic& topic : topics) {
    threads.emplace_back(publish, std::ref(topic));
    threads.emplace_back(subscribe, std::ref(topic));
  }
  std::puts("ready");
  std::fflush(stdout);
  std::uint64_t interrupted = 0;
  char byte = 0;
  for (ssize_t got = 1; got != 0;) {
    got = ::read(STDIN_FILENO, &byte, 1);
    if (got < 0 && errno == EINTR) ++interrupted;
    if (got == 1 && byte == '?') {
      std::printf("%llu\n", static_cast<unsigned long long>(received.load()));
      std::fflush(stdout);
    }
  }
  stopping = true;
  for (std::thread& thread : threads) thread.join();
  std::printf("{\"done\": %llu, \"wrong\": %llu, \"interrupted\": %llu}\n",
              static_cast<unsigned long long>(received.load()), static_cast<unsigned long long>(wrong.load()),
              static_cast<unsigned long long>(interrupted));
  return 0;
}
