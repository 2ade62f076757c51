// A loaded TorchScript module with its bound input. This header does not include LibTorch's headers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "inference/backend_plugin.h"

namespace headroom::libtorch {

// Global state of LibTorch. The library itself is linked, so it is already loaded.
class Library {
 public:
  Library();
  const std::string& version() const { return version_; }  // version of the headers: "1.13.0"
  int default_threads() const { return default_threads_; }

 private:
  std::string version_;
  int default_threads_ = 1;
};

// Creates the device's context and initialises LibTorch on it. Throws plugin::Failure.
void prepare_device(const char* name, hr_device_facts& facts);

}  // namespace headroom::libtorch

// The opaque type of the plug-in interface. All members throw headroom::plugin::Failure.
struct hr_session {
 public:
  hr_session(std::shared_ptr<headroom::libtorch::Library> library, const std::string& path,
             const hr_settings& settings);
  ~hr_session();
  hr_session(const hr_session&) = delete;
  hr_session& operator=(const hr_session&) = delete;

  // The outputs are known only after a run, because a TorchScript file does not record them.
  void describe(hr_description& description);
  // On the CPU, the module reads this memory directly. A module that changes its input in place therefore
  // changes the caller's memory. On a device, each run copies the memory into the input tensor.
  void bind_input(int32_t index, const hr_tensor& tensor);
  void run();
  // Has no data if the last run did not return this output, or if it is not a tensor of plain numbers.
  hr_tensor output(int32_t index);
  hr_memory_stats memory_stats() const;
  void trim();
  hr_placement placement() const { return {sizeof(hr_placement), -1, -1, {}}; }
  std::int64_t device_time_ns() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};
