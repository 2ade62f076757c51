#include "base/background_writer.h"

#include <signal.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace headroom {

// The state is shared with the thread, which may outlive the writer.
struct BackgroundWriter::State {
  explicit State(Write write_text) : write(std::move(write_text)) {}
  void run();
  bool is_idle() const { return waiting.empty() && writing == 0; }
  bool accepts(std::size_t size) const { return is_idle() || waiting.size() + writing + size <= kCapacity; }

  const Write write;
  std::mutex mutex;
  std::condition_variable changed;
  std::string waiting;
  std::size_t writing = 0;  // bytes of the text that the thread is writing now
  bool is_over = false;
};

void BackgroundWriter::State::run() {
  std::string text;
  std::unique_lock lock(mutex);
  for (;;) {
    changed.wait(lock, [this] { return is_over || !waiting.empty(); });
    if (is_over) return;
    text.clear();
    text.swap(waiting);
    writing = text.size();
    lock.unlock();
    write(text);
    lock.lock();
    writing = 0;
    changed.notify_all();
  }
}

BackgroundWriter::BackgroundWriter(Write write) : state_(std::make_shared<State>(std::move(write))) {
  // Block all signals in this thread, so that the other threads handle them.
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  // The thread is detached: it may block for ever in a write.
  std::thread([state = state_] { state->run(); }).detach();
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

BackgroundWriter::~BackgroundWriter() {
  const std::lock_guard lock(state_->mutex);
  state_->is_over = true;
  state_->changed.notify_all();
}

bool BackgroundWriter::offer(std::string_view text, Nanoseconds timeout) {
  if (text.empty()) return true;
  std::unique_lock lock(state_->mutex);
  if (!state_->changed.wait_for(lock, std::chrono::nanoseconds(timeout.count),
                                [&] { return state_->accepts(text.size()); }))
    return false;
  state_->waiting += text;
  state_->changed.notify_all();
  return true;
}

bool BackgroundWriter::flush(Nanoseconds timeout) {
  std::unique_lock lock(state_->mutex);
  return state_->changed.wait_for(lock, std::chrono::nanoseconds(timeout.count),
                                  [&] { return state_->is_idle(); });
}

}  // namespace headroom
