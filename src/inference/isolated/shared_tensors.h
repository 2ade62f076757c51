// Memory of tensors that two processes share: a memfd that may grow and, sealed, never shrink, so that
// neither of the two can have the other killed by SIGBUS.
#pragma once

#include <cstddef>

#include "base/files.h"
#include "base/result.h"

namespace headroom::inference {

class SharedTensors {
 public:
  static Result<SharedTensors> create(const char* name);
  // One that another process made; an error if it could still shrink.
  static Result<SharedTensors> attach(UniqueFd fd);
  SharedTensors() = default;
  SharedTensors(SharedTensors&& other) noexcept;
  SharedTensors& operator=(SharedTensors&& other) noexcept;
  SharedTensors(const SharedTensors&) = delete;
  ~SharedTensors() { unmap(); }

  int fd() const { return fd_.get(); }
  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  // Makes room for so many bytes, and maps them; what is mapped already may move.
  Status grow(std::size_t bytes);
  // Maps so many bytes, to which the other process has grown it; an error if it has not.
  Status follow(std::size_t bytes);

 private:
  explicit SharedTensors(UniqueFd fd) : fd_(std::move(fd)) {}
  Status map(std::size_t bytes);
  void unmap();
  UniqueFd fd_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// Where the next tensor of `bytes` lies, aligned for vector loads; `end` moves behind it.
std::size_t place_tensor(std::size_t& end, std::size_t bytes);

}  // namespace headroom::inference
