#include "inference/tensorrt/device_memory.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <map>

#include "inference/tensorrt/library.h"

namespace headroom::tensorrt {

DriverMemory::DriverMemory(const cuda::Driver& driver, unsigned ordinal)
    : driver_(driver),
      ordinal_(ordinal),
      figures_of_(reinterpret_cast<ledger::DeviceFiguresFunction>(
          ::dlsym(RTLD_DEFAULT, ledger::kDeviceFiguresSymbol))) {}

std::uint64_t DriverMemory::allocate(std::uint64_t bytes) {
  cuda::Pointer memory = 0;
  const cuda::Code code = driver_.call().cuMemAlloc_v2(&memory, bytes);
  if (code == cuda::kSuccess) return memory;
  if (code == cuda::kOutOfMemory) return 0;
  throw failed(
      "cuMemAlloc of {} failed: {}; the cause is the device or an earlier call, not a lack of memory",
      format_bytes(Bytes{static_cast<std::int64_t>(bytes)}), driver_.name_of(code));
}

bool DriverMemory::free(std::uint64_t address) {
  return driver_.call().cuMemFree_v2(address) == cuda::kSuccess;
}

ledger::DeviceFigures DriverMemory::figures() const {
  ledger::DeviceFigures figures;
  figures.limit = ~std::uint64_t{0};
  if (figures_of_ != nullptr) figures_of_(ordinal_, &figures, sizeof figures);
  return figures;
}

std::uint64_t DriverMemory::limit() {
  const std::uint64_t limit = figures().limit;
  return limit == ~std::uint64_t{0} ? 0 : limit;
}

std::uint64_t DriverMemory::live_of_all_processes() { return figures().charged_all; }

void* GpuAllocator::take(std::uint64_t size) noexcept {
  try {
    return reinterpret_cast<void*>(account_.allocate(size));
  } catch (const Failure& failure) {
    const std::lock_guard lock(mutex_);
    if (fault_.empty()) fault_ = failure.message;
    return nullptr;
  } catch (...) {  // no memory for the account's table
    return nullptr;
  }
}

std::string GpuAllocator::fault() const {
  const std::lock_guard lock(mutex_);
  return fault_;
}

bool GpuAllocator::give_back(void* memory) noexcept {
  if (memory == nullptr) return true;
  try {
    return account_.free(reinterpret_cast<std::uint64_t>(memory));
  } catch (...) {
    return false;
  }
}

std::shared_ptr<SharedScratch> SharedScratch::of(const cuda::Driver& driver, unsigned ordinal) {
  static std::mutex mutex;
  static std::map<unsigned, std::weak_ptr<SharedScratch>> by_device;
  const std::lock_guard lock(mutex);
  std::weak_ptr<SharedScratch>& known = by_device[ordinal];
  auto scratch = known.lock();
  if (!scratch) known = scratch = std::make_shared<SharedScratch>(driver, ordinal);
  return scratch;
}

SharedScratch::~SharedScratch() {
  if (address_ != 0) account_.free(address_);
}

void SharedScratch::need(std::uint64_t bytes) {
  if (bytes <= bytes_) return;
  if (address_ != 0) account_.free(address_);
  bytes_ = generation_ = 0;
  address_ = account_.allocate(bytes);
  if (address_ == 0)
    throw Failure{HR_ERROR_OUT_OF_MEMORY, fmt::format("{} of scratch memory for its engine were refused: {}",
                                                      format_bytes(Bytes{static_cast<std::int64_t>(bytes)}),
                                                      account_.refusal_text())};
  bytes_ = bytes;
  generation_ = ++blocks_made_;
}

}  // namespace headroom::tensorrt
