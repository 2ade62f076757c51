#include "inference/isolated/shared_tensors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace headroom::inference {
namespace {

constexpr std::size_t kAlignment = 64;

}  // namespace

Result<SharedTensors> SharedTensors::create(const char* name) {
  UniqueFd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd || ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK) != 0)
    return internal_error("cannot create shared memory for a model process", errno_text(errno));
  return SharedTensors(std::move(fd));
}

Result<SharedTensors> SharedTensors::attach(UniqueFd fd) {
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
    return internal_error("cannot use the shared memory for tensors", "its size is not sealed");
  return SharedTensors(std::move(fd));
}

SharedTensors::SharedTensors(SharedTensors&& other) noexcept
    : fd_(std::move(other.fd_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

SharedTensors& SharedTensors::operator=(SharedTensors&& other) noexcept {
  if (this == &other) return *this;
  unmap();
  fd_ = std::move(other.fd_);
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  return *this;
}

void SharedTensors::unmap() {
  if (data_ != nullptr) ::munmap(data_, size_);
  data_ = nullptr;
  size_ = 0;
}

Status SharedTensors::grow(std::size_t bytes) {
  if (bytes <= size_) return {};
  if (::ftruncate(fd_.get(), static_cast<off_t>(bytes)) != 0)
    return failure("cannot share tensors with a model process", "out of memory: " + errno_text(errno));
  return map(bytes);
}

Status SharedTensors::follow(std::size_t bytes) {
  if (bytes <= size_) return {};
  struct stat facts {};
  if (::fstat(fd_.get(), &facts) != 0 || static_cast<std::size_t>(facts.st_size) < bytes)
    return internal_error("the shared memory for tensors is smaller than announced");
  return map(bytes);
}

Status SharedTensors::map(std::size_t bytes) {
  // MAP_POPULATE, because the pool's account must include all pages of this mapping from the start.
  void* mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd_.get(), 0);
  if (mapped == MAP_FAILED)
    return failure("cannot share tensors with a model process", "out of memory: " + errno_text(errno));
  unmap();
  data_ = static_cast<std::byte*>(mapped);
  size_ = bytes;
  return {};
}

std::size_t place_tensor(std::size_t& end, std::size_t bytes) {
  const std::size_t at = (end + kAlignment - 1) / kAlignment * kAlignment;
  end = at + bytes;
  return at;
}

}  // namespace headroom::inference
