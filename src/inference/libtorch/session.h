// A loaded TorchScript module with its bound input. LibTorch's headers stay behind it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "inference/backend_plugin.h"

namespace headroom::libtorch {

// LibTorch is linked, so it is there before this is made.
class Library {
 public:
  Library();
  const std::string& version() const { return version_; }  // that it was built with: "1.13.0"
  int default_threads() const { return default_threads_; }

 private:
  std::string version_;
  int default_threads_ = 1;
};

// The device's context, and LibTorch's own start on it. Throws plugin::Failure.
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

  // The outputs, once the module has run: its file does not tell them.
  void describe(hr_description& description);
  // The memory itself is the tensor that the module is given (on a device: what is copied into it), so a
  // module that changes its input in place changes it.
  void bind_input(int32_t index, const hr_tensor& tensor);
  void run();
  // One that this run did not give, or that is no tensor of plain numbers, has no data.
  hr_tensor output(int32_t index);
  hr_memory_stats memory_stats() const;
  void trim();
  hr_placement placement() const { return {sizeof(hr_placement), -1, -1, {}}; }
  std::int64_t device_time_ns() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};
