#include "bench/worker/out_of_memory.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <new>
#include <optional>
#include <system_error>

#include "sources/process_memory.h"

namespace headroom::bench {
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
