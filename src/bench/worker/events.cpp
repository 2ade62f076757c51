#include "bench/worker/events.h"

#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/files.h"
#include "base/json.h"
#include "sources/process_memory.h"

namespace headroom::bench {
namespace {

constexpr std::size_t kBatch = 512;
// Six numbers of at most 20 digits, with punctuation.
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

// If the conductor is gone, the pipe is closed and this process is killed. So the result does not matter.
void WorkerEvents::send_text(std::string_view line) {
  [[maybe_unused]] const auto ignored = write_all(fd_, line);
}

void WorkerEvents::send(const Json& event) { send_text(to_line(event) + "\n"); }

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
  set_if(event, "data_bytes", memory.data);
  set_if(event, "file_backed_bytes", memory.file_backed);
  event["cpu_time_ns"] = cpu_time_of_this_process().count;
  event["peak_was_reset"] = reset;
  if (watch_ != nullptr) event["gpu"] = watch_->read_and_reset();
  send(event);
  return memory;
}

void WorkerEvents::send_error(const Error& error, bool out_of_memory) {
  flush();
  std::string message = error.sentence();
  if (const std::string refused = watch_ == nullptr ? "" : watch_->describe_new_refusals();
      !refused.empty()) {
    message += "; " + refused;
    out_of_memory = true;
  }
  Json event;
  event["event"] = "error";
  event["kind"] = out_of_memory ? "oom" : "failed";
  event["message"] = message;
  set_if(event, "peak_bytes",
         sources::read_process_memory(::getpid(), sources::ProcessDetail::status).rss_peak);
  if (watch_ != nullptr) event["gpu"] = watch_->read_and_reset();
  send(event);
}

void WorkerEvents::alive() {
  const Nanoseconds now = monotonic_now();
  if (now - last_alive_ < kAliveInterval) return;
  last_alive_ = now;
  send_text("{\"event\":\"alive\"}\n");
}

void WorkerEvents::waits_for_decoder(bool waits) {
  send_text(waits ? "{\"event\":\"decoder\",\"awaited\":true}\n"
                  : "{\"event\":\"decoder\",\"awaited\":false}\n");
}

void WorkerEvents::held(std::size_t frames, std::int64_t skipped) {
  std::array<char, 128> line;
  const auto made = fmt::format_to_n(
      line.data(), line.size(), "{{\"event\":\"held\",\"frames\":{},\"skipped\":{}}}\n", frames, skipped);
  send_text({line.data(), made.size});
}

void WorkerEvents::send_out_of_memory(const char* what) {
  std::array<char, 256> line;
  const auto made = fmt::format_to_n(line.data(), line.size(),
                                     "{{\"event\":\"error\",\"kind\":\"oom\",\"message\":\"{}\"}}\n", what);
  send_text({line.data(), std::min(made.size, line.size())});
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
  send_text({text_.data(), static_cast<std::size_t>(end - text_.data())});
}

}  // namespace headroom::bench
