#include "bench/worker/events.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cstdlib>
#include <exception>
#include <new>
#include <system_error>
#include <utility>

#include "base/files.h"
#include "base/json.h"
#include "sources/process_table.h"

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

void WorkerEvents::send(std::string_view kind) { send(kind, Json::object()); }

void WorkerEvents::send(std::string_view kind, const Json& fields) {
  Json event{{"event", kind}};
  event.update(fields);
  send_text(to_line(event) + "\n");
}

ProcessMemory WorkerEvents::mark(Phase phase) {
  flush();
  const ProcessMemory memory = sources::read_process_memory(::getpid(), sources::ProcessDetail::status);
  const bool was_reset = sources::reset_peak_rss(::getpid());
  const PhaseAccount event{.phase = phase,
                           .time = monotonic_now(),
                           .resident = memory.rss,
                           .peak = memory.rss_peak,
                           .data = memory.data,
                           .file_backed = memory.file_backed,
                           .cpu_time = cpu_time_of_this_process(),
                           .peak_was_reset = was_reset,
                           .gpu = watch_ ? watch_->read_and_reset() : GpuReading{}};
  send("phase", message_to_json(event));
  return memory;
}

void WorkerEvents::send_error(const Error& error, bool out_of_memory) {
  flush();
  WorkerError event{.message = error.sentence(), .is_input = error.kind == ErrorKind::input};
  if (watch_) {
    const std::string refused = watch_->describe_new_refusals();
    if (!refused.empty()) event.message += "; " + refused;
    out_of_memory = out_of_memory || !refused.empty();
    event.gpu = watch_->read_and_reset();
  }
  if (out_of_memory) event.kind = ModelStatus::oom;
  event.peak = sources::read_process_memory(::getpid(), sources::ProcessDetail::status).rss_peak;
  send("error", message_to_json(event));
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

namespace {

Bytes bytes_of(std::uint64_t bytes) { return {static_cast<std::int64_t>(bytes)}; }
std::string bytes_text(std::uint64_t bytes) { return format_bytes(bytes_of(bytes)); }

}  // namespace

DeviceWatch::DeviceWatch(std::vector<unsigned> ordinals)
    : ordinals_(std::move(ordinals)), refused_(ordinals_.size()) {
  figures_ =
      reinterpret_cast<ledger::DeviceFiguresFunction>(::dlsym(RTLD_DEFAULT, ledger::kDeviceFiguresSymbol));
  reset_peak_ = reinterpret_cast<ledger::ResetDevicePeakFunction>(
      ::dlsym(RTLD_DEFAULT, ledger::kResetDevicePeakSymbol));
  driver_ = sources::OwnGpuMemory::open();
}

GpuReading DeviceWatch::read_and_reset() {
  GpuReading reading;
  for (std::size_t i = 0; i < ordinals_.size() && figures_ != nullptr && reset_peak_ != nullptr; ++i) {
    ledger::DeviceFigures figures;
    if (!figures_(ordinals_[i], &figures, sizeof figures)) continue;
    reset_peak_(ordinals_[i]);
    refused_[i] = figures.refused_count;
    reading.ledger.push_back({ordinals_[i], bytes_of(figures.charged), bytes_of(figures.peak),
                              bytes_of(figures.pinned_host), static_cast<std::int64_t>(figures.refused_count),
                              bytes_of(figures.refused_bytes)});
  }
  if (driver_ != nullptr)
    for (const auto& share : driver_->read()) reading.driver.push_back({share.uuid, share.used});
  return reading;
}

std::optional<Bytes> DeviceWatch::charged() const {
  if (figures_ == nullptr) return std::nullopt;
  Bytes sum;
  for (const unsigned ordinal : ordinals_) {
    ledger::DeviceFigures figures;
    if (!figures_(ordinal, &figures, sizeof figures)) return std::nullopt;
    sum += bytes_of(figures.charged);
  }
  return sum;
}

std::string DeviceWatch::describe_new_refusals() const {
  std::string text;
  for (std::size_t i = 0; i < ordinals_.size(); ++i) {
    const unsigned ordinal = ordinals_[i];
    ledger::DeviceFigures figures;
    if (figures_ == nullptr || !figures_(ordinal, &figures, sizeof figures) ||
        figures.refused_count <= refused_[i])
      continue;
    text += fmt::format("{}cuda:{} refused {} at its limit of {} ({} in use{})", text.empty() ? "" : "; ",
                        ordinal, bytes_text(figures.last_refused_bytes), bytes_text(figures.limit),
                        bytes_text(figures.last_refused_charged),
                        figures.last_refused_own < figures.last_refused_charged
                            ? fmt::format(", {} by other processes",
                                          bytes_text(figures.last_refused_charged - figures.last_refused_own))
                            : "");
  }
  return text;
}

namespace {

constexpr std::size_t kSmallStack = std::size_t{1} << 20;
// The default stack of glibc with its guard, and other memory of a thread.
constexpr Bytes kMemoryOfOneThread = mebibytes(9);

WorkerEvents* events_of_worker = nullptr;
std::terminate_handler previous_handler = nullptr;  // the library's handler, which prints the exception

std::optional<Bytes> data_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_DATA, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return Bytes{static_cast<std::int64_t>(limit.rlim_cur)};
}

// Little memory is left here, so sending must not allocate.
[[noreturn]] void send_and_abort() {
  bool is_refusal = false;
  const char* what = "";
  try {
    if (const auto thrown = std::current_exception()) std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) {
    is_refusal = true;
    what = "an allocation was refused";
  } catch (const std::system_error& error) {
    const bool lacks_memory = error.code() == std::errc::not_enough_memory;
    const bool lacks_thread =
        error.code() == std::errc::resource_unavailable_try_again && is_near_data_limit();
    is_refusal = lacks_memory || lacks_thread;
    what = lacks_thread ? "a thread could not be created (Resource temporarily unavailable)"
                        : "memory was refused (Cannot allocate memory)";
  } catch (...) {
    is_refusal = false;
  }
  if (is_refusal && events_of_worker != nullptr) events_of_worker->send_out_of_memory(what);
  if (previous_handler != nullptr) previous_handler();
  std::abort();
}

}  // namespace

void use_small_stacks_under_a_data_limit() {
#ifdef __GLIBC__
  if (!data_limit()) return;
  pthread_attr_t attributes;
  if (::pthread_attr_init(&attributes) != 0) return;
  if (::pthread_attr_setstacksize(&attributes, kSmallStack) == 0) ::pthread_setattr_default_np(&attributes);
  ::pthread_attr_destroy(&attributes);
#endif
}

bool is_near_data_limit() {
  const auto limit = data_limit();
  if (!limit) return false;
  try {
    const auto data = sources::read_process_memory(::getpid(), sources::ProcessDetail::status).data;
    return !data || *limit - *data < kMemoryOfOneThread;
  } catch (const std::bad_alloc&) {
    return true;
  }
}

bool mentions_refused_memory(std::string_view message) {
  for (const std::string_view text :
       {"Resource temporarily unavailable", "Cannot allocate memory", "bad_alloc", "pthread_create failed"})
    if (message.find(text) != std::string_view::npos) return true;
  return false;
}

void report_refusals_at_terminate(WorkerEvents& events) {
  events_of_worker = &events;
  previous_handler = std::set_terminate(send_and_abort);
}

}  // namespace headroom::bench
