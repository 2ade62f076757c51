// The messages between Headroom and a model process. Each request has one answer:
//
//   {"do": "load", "path", "backend", "plugin", "settings": {…}}
//     answer: {"description": {inputs[], outputs[], metadata{}}, "outputs_known"}
//   {"do": "run", "inputs": [{type, dims, at, bytes}]}
//     answer: {"outputs": [{type, dims, at, bytes}], "bytes"}
//   {"do": "trim"}
//     answer: {}
//
// - A request contains "inputs" only if they have changed.
// - "at" (offset in bytes) and "bytes" give a tensor's place in the shared memory of the inputs or outputs.
// - "bytes" of a run's answer is the size of the outputs' shared memory.
// - If "outputs_known" was false, the answer to the first run repeats "description" and "outputs_known".
// - A failed request is answered by {"why", "out_of_memory"}. "out_of_memory" is true if an allocation was
//   refused.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "base/files.h"
#include "base/json.h"
#include "types/runtime_settings.h"
#include "types/tensor.h"

namespace headroom::inference {

// The descriptors that a model process inherits: its socket, and the shared memory of inputs and outputs.
inline constexpr int kChannelFd = 3;
inline constexpr int kInputsFd = 4;
inline constexpr int kOutputsFd = 5;

Json to_json(const RuntimeSettings& settings);
RuntimeSettings settings_from_json(const Json& object);

Json to_json(const ModelDescription& description);
ModelDescription description_from_json(const Json& object);

// A tensor in shared memory.
struct PlacedTensor {
  ElementType type = ElementType::unknown;
  std::vector<std::int64_t> dims;
  std::size_t at = 0, bytes = 0;  // 0 bytes: not a tensor of plain numbers
};
Json to_json(const PlacedTensor& tensor);
// Fails if the tensor does not lie inside `size` bytes, or if `bytes` does not match its dimensions.
Result<PlacedTensor> placed_tensor_from_json(const Json& object, std::size_t size);

// Sends and receives JSON documents over a connected stream socket. Each document is preceded by its length
// in bytes (32 bits, the machine's byte order).
class MessageChannel {
 public:
  MessageChannel() = default;
  explicit MessageChannel(UniqueFd socket) : socket_(std::move(socket)) {}
  int fd() const { return socket_.get(); }
  Status send(const Json& message);
  // Waits for the next document, without limit if `timeout` is absent. Returns nothing if the timeout
  // expires.
  Result<std::optional<Json>> receive(std::optional<Nanoseconds> timeout = std::nullopt);
  void close() { socket_.reset(); }

 private:
  // Returns false if the deadline passes.
  Result<bool> read_all(char* to, std::size_t bytes, std::optional<Nanoseconds> deadline);
  UniqueFd socket_;
};

// Tensor memory that two processes share: a memfd that can grow, but never shrink (F_SEAL_SHRINK). If it
// could shrink, one process could kill the other by SIGBUS.
class SharedTensors {
 public:
  static Result<SharedTensors> create(const char* name);
  // Attaches to memory that another process created. Fails if the memory could shrink.
  static Result<SharedTensors> attach(UniqueFd fd);
  SharedTensors() = default;
  int fd() const { return fd_.get(); }
  std::byte* data() const { return memory_.get(); }
  std::size_t size() const { return memory_.get_deleter().bytes; }
  // Grows the memory to this size and maps it. The mapping may move.
  Status grow(std::size_t bytes);
  // Maps this many bytes, after the other process has grown the memory. Fails if it has not.
  Status follow(std::size_t bytes);

 private:
  explicit SharedTensors(UniqueFd fd) : fd_(std::move(fd)) {}
  Status map(std::size_t bytes);
  struct Unmap {
    std::size_t bytes;
    void operator()(std::byte* memory) const;
  };
  UniqueFd fd_;
  std::unique_ptr<std::byte, Unmap> memory_;
};

// Returns the offset for the next tensor, aligned for vector loads, and moves `end` behind the tensor.
std::size_t place_tensor(std::size_t& end, std::size_t bytes);

}  // namespace headroom::inference
