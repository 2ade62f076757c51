#include "bench/worker_events.h"

#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include "base/files.h"
#include "base/json.h"
#include "sources/process_memory.h"

namespace headroom::bench {
namespace {

constexpr std::size_t kBatch = 512;
// Six numbers of at most 20 digits with their punctuation.
constexpr std::size_t kBytesPerFrame = 6 * 21 + 3;
constexpr std::size_t kBytesAround = 64;
constexpr Nanoseconds kFlushInterval{500'000'000};
constexpr Nanoseconds kAliveInterval{250'000'000};

}  // namespace

Nanoseconds cpu_time_of_this_process() {
  timespec spent{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
  return {spent.tv_sec * std::int64_t{1'000'000'000} + spent.tv_nsec};
}

WorkerEvents::WorkerEvents(int fd) : fd_(fd), last_flush_(monotonic_now()), last_alive_(last_flush_) {
  kept_.reserve(kBatch);
  text_.resize(kBatch * kBytesPerFrame + kBytesAround);
}

void WorkerEvents::send(const Json& event) {
  // A conductor that has gone away closes the pipe and kills this process; there is nobody to tell.
  [[maybe_unused]] const auto ignored = write_all(fd_, to_line(event) + "\n");
}

ProcessMemory WorkerEvents::mark(Phase phase) {
  flush();
  const ProcessMemory memory = sources::read_process_memory(::getpid(), sources::ProcessDetail::status);
  const bool reset = sources::reset_peak_rss(::getpid());
  Json event;
  event["event"] = "phase";
  event["phase"] = name_of(phase);
  event["time_ns"] = monotonic_now().count;
  set_if(event, "resident_bytes", memory.rss);
  set_if(event, "peak_bytes", memory.rss_peak);
  event["cpu_time_ns"] = cpu_time_of_this_process().count;
  event["peak_was_reset"] = reset;
  if (watch_ != nullptr) event["gpu"] = watch_->read_and_reset();
  send(event);
  return memory;
}

void WorkerEvents::send_error(const Error& error, bool out_of_memory) {
  flush();
  std::string message = error.sentence();
  if (const std::string refused = watch_ == nullptr ? "" : watch_->words_for_new_refusals();
      !refused.empty()) {
    message += "; " + refused;
    out_of_memory = true;
  }
  Json event;
  event["event"] = "error";
  event["kind"] = out_of_memory ? "oom" : "failed";
  event["message"] = message;
  if (watch_ != nullptr) event["gpu"] = watch_->read_and_reset();
  send(event);
}

void WorkerEvents::alive() {
  const Nanoseconds now = monotonic_now();
  if (now - last_alive_ < kAliveInterval) return;
  last_alive_ = now;
  Json event;
  event["event"] = "alive";
  send(event);
}

void WorkerEvents::waits_for_decoder(bool waits) {
  Json event;
  event["event"] = "decoder";
  event["awaited"] = waits;
  send(event);
}

void WorkerEvents::record(std::size_t model, const FrameTimes& times) {
  if (model != model_) {
    flush();
    model_ = model;
  }
  kept_.push_back(times);
  if (kept_.size() < kBatch && monotonic_now() - last_flush_ < kFlushInterval) return;
  flush();
}

void WorkerEvents::flush() {
  last_flush_ = monotonic_now();
  if (kept_.empty()) return;
  char* end = fmt::format_to(text_.data(), "{{\"event\":\"frames\",\"model\":{},\"times\":[", model_);
  for (const FrameTimes& times : kept_) {
    if (&times != kept_.data()) *end++ = ',';
    end = fmt::format_to(end, "[{},{},{},{},{}", times.decode.count, times.preprocess.count,
                         times.inference.count, times.postprocess.count, times.findings);
    if (times.device) end = fmt::format_to(end, ",{}", times.device->count);
    *end++ = ']';
  }
  end = fmt::format_to(end, "]}}\n");
  kept_.clear();
  [[maybe_unused]] const auto ignored =
      write_all(fd_, std::string_view(text_.data(), static_cast<std::size_t>(end - text_.data())));
}

}  // namespace headroom::bench
