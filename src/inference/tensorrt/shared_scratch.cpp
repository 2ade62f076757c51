#include "inference/tensorrt/shared_scratch.h"

#include <fmt/format.h>

#include <map>

#include "base/units.h"
#include "inference/tensorrt/failure.h"

namespace headroom::tensorrt {

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
