#include "pool/memory_meter.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/files.h"
#include "base/text.h"
#include "cuda/driver.h"
#include "inference/backend.h"
#include "ledger/device_query.h"
#include "sources/process_table.h"
#include "types/device_name.h"

namespace headroom::pool {
namespace {

// The bytes of this process and of its isolated models' processes.
std::optional<Bytes> bytes_of_all() {
  auto sum = own_bytes();
  if (!sum) return sum;
  for (const pid_t pid : inference::isolated_processes()) *sum += unshared_bytes(pid).value_or(Bytes{});
  return sum;
}

// The summed RSS peaks of processes that started since `before`, minus their current file-backed pages.
Bytes peak_of_new_processes(const std::vector<pid_t>& before) {
  Bytes sum;
  for (const pid_t pid : inference::isolated_processes()) {
    if (std::ranges::find(before, pid) != before.end()) continue;
    const ProcessMemory memory = sources::read_process_memory(pid, sources::ProcessDetail::status);
    sum += std::max(Bytes{}, memory.rss_peak.value_or(Bytes{}) - memory.file_backed.value_or(Bytes{}));
  }
  return sum;
}

// An upper bound: sessions that run meanwhile count too, because the kernel's peak covers the whole
// process. Null if the kernel does not allow resetting the peak.
std::function<Bytes()> watch_peak_rss() {
  const auto read = [] { return sources::read_process_memory(::getpid(), sources::ProcessDetail::status); };
  if (!sources::reset_peak_rss(::getpid())) return nullptr;
  return [read, before = read().rss.value_or(Bytes{})] {
    return std::max(Bytes{}, read().rss_peak.value_or(Bytes{}) - before);
  };
}

template <class Function>
Function exported(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_DEFAULT, name));
}

MemoryMeter ledger_meter(ledger::DeviceFiguresFunction figures_of, unsigned ordinal, bool is_integrated) {
  const auto read = [=](std::uint64_t ledger::DeviceFigures::*field) -> std::optional<Bytes> {
    ledger::DeviceFigures figures;
    if (!figures_of(ordinal, &figures, sizeof figures)) return std::nullopt;
    return Bytes{static_cast<std::int64_t>(figures.*field)};
  };
  MemoryMeter meter;
  meter.read = [=]() -> std::optional<Bytes> {
    const auto charged = read(&ledger::DeviceFigures::charged);
    if (!charged || !is_integrated) return charged;
    const auto own = own_bytes();
    return own ? std::optional(*charged + *own) : std::nullopt;
  };
  const auto reset = exported<ledger::ResetDevicePeakFunction>(ledger::kResetDevicePeakSymbol);
  if (reset == nullptr) return meter;
  meter.watch_peak = [=]() -> std::function<Bytes()> {
    reset(ordinal);
    const std::function<Bytes()> host =
        is_integrated ? watch_peak_rss() : std::function<Bytes()>([] { return Bytes{}; });
    if (!host) return nullptr;
    return [=, before = read(&ledger::DeviceFigures::charged).value_or(Bytes{})] {
      return std::max(Bytes{}, read(&ledger::DeviceFigures::peak).value_or(Bytes{}) - before) + host();
    };
  };
  return meter;
}

// The device's primary context stays retained until the process ends, as the runtimes' contexts do.
Result<MemoryMeter> driver_meter(const cuda::Driver& driver, unsigned ordinal) {
  const std::string what = "cannot measure the memory of cuda:" + std::to_string(ordinal);
  const cuda::Functions& call = driver.call();
  if (call.cuMemGetInfo_v2 == nullptr) return input_error(what, "the driver has no cuMemGetInfo");
  int device = 0;
  cuda::Opaque context = nullptr;
  cuda::Code code = call.cuDeviceGet(&device, static_cast<int>(ordinal));
  if (code == cuda::kSuccess) code = call.cuDevicePrimaryCtxRetain(&context, device);
  if (code != cuda::kSuccess) return input_error(what, driver.name_of(code));
  MemoryMeter meter;
  meter.read = [&call, context]() -> std::optional<Bytes> {
    std::size_t free = 0, total = 0;
    cuda::Opaque before = nullptr;  // the context of the calling thread, which may be the program's own
    const bool has_before = call.cuCtxGetCurrent(&before) == cuda::kSuccess;
    const bool is_read = call.cuCtxSetCurrent(context) == cuda::kSuccess &&
                         call.cuMemGetInfo_v2(&free, &total) == cuda::kSuccess;
    if (has_before) call.cuCtxSetCurrent(before);
    return is_read ? std::optional(Bytes{static_cast<std::int64_t>(total - free)}) : std::nullopt;
  };
  return meter;
}

constexpr Bytes kKernelStack = kibibytes(16);  // per thread, on 64-bit machines
constexpr std::string_view kShared = "RssShmem:";
constexpr std::array<std::string_view, 4> kKept{"RssAnon:", kShared, "VmSwap:", "VmPTE:"};

std::optional<Bytes> sum_of(const std::filesystem::path& status, bool with_shared) {
  const auto text = read_small_file(status);
  if (!text) return std::nullopt;
  Bytes sum;
  bool has_anonymous = false;
  for (const std::string_view line : split(*text, '\n')) {
    const auto words = split_words(line);
    if (words.size() < 2) continue;
    const auto value = parse_number<std::int64_t>(words[1]);
    if (!value) continue;
    if (words[0] == "Threads:") sum += Bytes{*value * kKernelStack.count};
    for (const std::string_view key : kKept)
      if (words[0] == key && (with_shared || key != kShared)) sum += kibibytes(*value);
    has_anonymous = has_anonymous || words[0] == kKept[0];
  }
  return has_anonymous ? std::optional<Bytes>(sum) : std::nullopt;
}

}  // namespace

MemoryMeter process_meter() {
  const auto watch_peak = []() -> std::function<Bytes()> {
    const std::function<Bytes()> own = watch_peak_rss();
    if (!own) return nullptr;
    return [own, before = inference::isolated_processes()] { return own() + peak_of_new_processes(before); };
  };
  return {bytes_of_all, watch_peak};
}

Result<MemoryMeter> device_meter(const std::string& device) {
  const std::string what = "cannot measure the memory of " + device;
  const auto name = parse_device_name(device);
  if (!name || !name->is_cuda) return input_error(what, "not a GPU", "use cpu or cuda:N");
  auto driver = cuda::Driver::open();
  if (!driver) return forward_error(driver);
  if (auto there = (*driver)->check_ordinal(name->ordinal); !there) return forward_error(there);
  const bool is_integrated = (*driver)->facts(name->ordinal).is_integrated;
  if (const auto figures = exported<ledger::DeviceFiguresFunction>(ledger::kDeviceFiguresSymbol))
    return ledger_meter(figures, name->ordinal, is_integrated);
  if (is_integrated)
    return input_error(
        what, "it shares the machine's memory, which only the preload library can attribute to a process",
        "start the program with headroom run");
  return driver_meter(**driver, name->ordinal);
}

std::optional<Bytes> own_bytes(const std::filesystem::path& status) { return sum_of(status, true); }

std::optional<Bytes> unshared_bytes(pid_t pid) {
  return sum_of(std::filesystem::path("/proc") / std::to_string(pid) / "status", false);
}

}  // namespace headroom::pool
