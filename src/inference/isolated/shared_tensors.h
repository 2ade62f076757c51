// Tensor memory that two processes share: a memfd that can grow, but never shrink (F_SEAL_SHRINK). If it
// could shrink, one process could kill the other by SIGBUS.
#pragma once

#include <cstddef>

#include "base/files.h"
#include "base/result.h"

namespace headroom::inference {

class SharedTensors {
 public:
  static Result<SharedTensors> create(const char* name);
  // Attaches to memory that another process created. Fails if the memory could shrink.
  static Result<SharedTensors> attach(UniqueFd fd);
  SharedTensors() = default;
  SharedTensors(SharedTensors&& other) noexcept;
  SharedTensors& operator=(SharedTensors&& other) noexcept;
  SharedTensors(const SharedTensors&) = delete;
  ~SharedTensors() { unmap(); }

  int fd() const { return fd_.get(); }
  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  // Grows the memory to this size and maps it. The mapping may move.
  Status grow(std::size_t bytes);
  // Maps this many bytes, after the other process has grown the memory. Fails if it has not.
  Status follow(std::size_t bytes);

 private:
  explicit SharedTensors(UniqueFd fd) : fd_(std::move(fd)) {}
  Status map(std::size_t bytes);
  void unmap();
  UniqueFd fd_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// Returns the offset for the next tensor, aligned for vector loads, and moves `end` behind the tensor.
std::size_t place_tensor(std::size_t& end, std::size_t bytes);

}  // namespace headroom::inference
