#include "trace/live_figures.h"

#include <sched.h>
#include <signal.h>

#include <chrono>
#include <utility>

#include "trace/recording_files.h"

namespace headroom::trace {

LiveFigures::LiveFigures(std::filesystem::path root, bool can_follow) : root_(std::move(root)) {
  if (!can_follow) return;
  // Signals are for the thread that forwards them to the command.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { follow_until_end(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

LiveFigures::~LiveFigures() { finish(); }

void LiveFigures::finish() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
  }
  wakes_.notify_one();
  thread_.join();
  read_all(true);
}

std::optional<attribution::RecordingAnalysis> LiveFigures::analysis_of(
    const std::filesystem::path& file, const recording::Recording& recording) const {
  const auto found = followed_.find(file);
  if (found == followed_.end() || !found->second.summary) return std::nullopt;
  return found->second.summary->finish(recording);
}

void LiveFigures::follow_until_end() {
  // Only time that the command and other programs leave. A kernel without this policy ignores the call.
  const sched_param no_priority{};
  ::sched_setscheduler(0, SCHED_IDLE, &no_priority);
  constexpr std::chrono::milliseconds kPause{50};
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      if (wakes_.wait_for(lock, kPause, [this] { return has_ended_; })) return;
    }
    read_all(false);
  }
}

void LiveFigures::read_all(bool to_the_end) {
  for (const RecordingFile& file : find_recordings(root_)) {
    Followed& followed = followed_[file.path];
    if (!followed.was_opened) {
      followed.follower = recording::RecordingFollower::open(file.path);
      followed.was_opened = followed.follower.has_value();
      if (followed.follower) followed.summary.emplace(followed.follower->page_bytes());
    }
    if (followed.follower) read(followed, to_the_end);
  }
}

void LiveFigures::read(Followed& followed, bool to_the_end) {
  const bool is_closed = followed.follower->is_closed();
  const bool has_ended = to_the_end || (is_closed && std::exchange(followed.was_closed, is_closed));
  const auto visit = [&](const MemoryEvent& event) { followed.summary->visit(event); };
  const bool could_be_read = followed.follower->read(visit, has_ended);
  if (could_be_read && !has_ended) return;
  followed.follower.reset();
  if (could_be_read)
    followed.summary->end();
  else
    followed.summary.reset();
}

}  // namespace headroom::trace
