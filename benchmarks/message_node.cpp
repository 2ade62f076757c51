// A program that behaves like a ROS 2 node with many small messages, without ROS:
//
//     message_node [MESSAGES]      default: 300,000
//
// A timer thread publishes four topics in turn. Each message is built, serialized into a growing buffer and
// queued. Two executor threads take buffers from the queues, deserialize them, and call the topic's
// subscriptions, which keep the last messages. Prints the number of callbacks and a checksum.
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

struct Message {
  std::string frame, source;
  std::vector<float> values;
  std::vector<std::string> labels;
  std::uint64_t number = 0;
};
using Buffer = std::vector<std::uint8_t>;

class Writer {
 public:
  explicit Writer(Buffer& buffer) : buffer_(buffer) {}
  void bytes(const void* data, std::size_t size) {
    const auto* at = static_cast<const std::uint8_t*>(data);
    buffer_.insert(buffer_.end(), at, at + size);
  }
  void number(std::uint64_t value) { bytes(&value, sizeof value); }
  void text(const std::string& value) {
    number(value.size());
    bytes(value.data(), value.size());
  }

 private:
  Buffer& buffer_;
};

class Reader {
 public:
  explicit Reader(const Buffer& buffer) : at_(buffer.data()) {}
  void bytes(void* data, std::size_t size) {
    std::memcpy(data, at_, size);
    at_ += size;
  }
  std::uint64_t number() {
    std::uint64_t value = 0;
    bytes(&value, sizeof value);
    return value;
  }
  std::string text() {
    std::string value(number(), ' ');
    bytes(value.data(), value.size());
    return value;
  }

 private:
  const std::uint8_t* at_;
};

Buffer serialized(const Message& message) {
  Buffer buffer;
  Writer writer(buffer);
  writer.text(message.frame);
  writer.text(message.source);
  writer.number(message.number);
  writer.number(message.values.size());
  writer.bytes(message.values.data(), message.values.size() * sizeof(float));
  writer.number(message.labels.size());
  for (const std::string& label : message.labels) writer.text(label);
  return buffer;
}

std::shared_ptr<const Message> deserialized(const Buffer& buffer) {
  auto message = std::make_shared<Message>();
  Reader reader(buffer);
  message->frame = reader.text();
  message->source = reader.text();
  message->number = reader.number();
  message->values.resize(reader.number());
  reader.bytes(message->values.data(), message->values.size() * sizeof(float));
  const std::uint64_t labels = reader.number();
  for (std::uint64_t i = 0; i < labels; ++i) message->labels.push_back(reader.text());
  return message;
}

// A topic: a queue of serialized messages, and the callbacks of its subscriptions.
class Topic {
 public:
  explicit Topic(std::string name) : name_(std::move(name)) {}
  void subscribe(std::function<void(const std::shared_ptr<const Message>&)> callback) {
    callbacks_.push_back(std::move(callback));
  }
  void publish(std::uint64_t number) {
    Message message;
    message.frame = "robot/base_link/" + name_ + "/frame";
    message.source = "node_" + std::to_string(number % 17) + "_of_the_driver";
    message.number = number;
    message.values.resize(8 + number % 56, static_cast<float>(number));
    for (std::uint64_t i = 0; i < number % 4; ++i)
      message.labels.push_back("label of a detected object " + std::to_string(i));
    auto buffer = std::make_unique<Buffer>(serialized(message));
    const std::scoped_lock locked(mutex_);
    queue_.push_back(std::move(buffer));
  }
  // Takes one message and calls the subscriptions. Returns false if the queue is empty.
  bool spin_once() {
    std::unique_ptr<Buffer> buffer;
    {
      const std::scoped_lock locked(mutex_);
      if (queue_.empty()) return false;
      buffer = std::move(queue_.front());
      queue_.pop_front();
    }
    const std::shared_ptr<const Message> message = deserialized(*buffer);
    for (const auto& callback : callbacks_) callback(message);
    return true;
  }
  std::size_t waiting() {
    const std::scoped_lock locked(mutex_);
    return queue_.size();
  }

 private:
  std::string name_;
  std::mutex mutex_;
  std::deque<std::unique_ptr<Buffer>> queue_;
  std::vector<std::function<void(const std::shared_ptr<const Message>&)>> callbacks_;
};

// Keeps the last messages by their source, as a node that fuses sensors does.
struct Subscription {
  std::mutex mutex;
  std::map<std::string, std::deque<std::shared_ptr<const Message>>> last;
  std::uint64_t callbacks = 0, sum = 0;
  void receive(const std::shared_ptr<const Message>& message) {
    constexpr std::size_t kKept = 32;
    std::uint64_t number = message->number;
    for (const float value : message->values) number = number * 31 + static_cast<std::uint64_t>(value);
    const std::scoped_lock locked(mutex);
    auto& kept = last[message->source];
    kept.push_back(message);
    if (kept.size() > kKept) kept.pop_front();
    ++callbacks;
    sum += number;
  }
};

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t messages = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 300'000;
  std::array<Topic, 4> topics{Topic("scan"), Topic("imu"), Topic("objects"), Topic("odometry")};
  std::array<Subscription, 3> subscriptions;
  for (std::size_t i = 0; i < topics.size(); ++i)
    for (std::size_t j = 0; j < subscriptions.size(); ++j)
      if (i != j)
        topics[i].subscribe(
            [&subscription = subscriptions[j]](const auto& message) { subscription.receive(message); });
  std::atomic<bool> done{false};
  std::vector<std::thread> executors;
  for (int i = 0; i < 2; ++i)
    executors.emplace_back([&] {
      for (bool was_done = false;;) {
        bool has_worked = false;
        for (Topic& topic : topics) has_worked |= topic.spin_once();
        if (has_worked) continue;
        if (was_done) return;
        was_done = done.load();
        std::this_thread::yield();
      }
    });
  constexpr std::size_t kMostWaiting = 1000;
  for (std::uint64_t i = 0; i < messages; ++i) {
    Topic& topic = topics[i % topics.size()];
    while (topic.waiting() > kMostWaiting) std::this_thread::yield();
    topic.publish(i);
  }
  done.store(true);
  for (std::thread& executor : executors) executor.join();
  std::uint64_t callbacks = 0, sum = 0;
  for (const Subscription& subscription : subscriptions) {
    callbacks += subscription.callbacks;
    sum += subscription.sum;
  }
  std::printf("%llu callbacks, sum %llu\n", static_cast<unsigned long long>(callbacks),
              static_cast<unsigned long long>(sum));
}
