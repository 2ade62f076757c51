// The ONNX Runtime library. It is opened at run time and never linked, so that a board's own build of it
// (with its own execution providers) can be used.
#pragma once

#include <onnxruntime_c_api.h>

#include <memory>
#include <mutex>
#include <string>

#include "inference/onnxruntime/failure.h"
#include "inference/plugin/cuda_device.h"

namespace headroom::onnxruntime {

// Owns an object of the C API.
template <class T>
using Owned = std::unique_ptr<T, void(ORT_API_CALL*)(T*)>;

// The oldest interface version with all functions used here: 1.9 added AddRunConfigEntry and
// CreateArenaCfgV2. Requesting this version, not that of the headers, allows all libraries from 1.9 on
// (JetPack 5 has 1.11 to 1.16).
constexpr uint32_t kOldestApi = 9;

class Runtime {
 public:
  static constexpr const char* kTitle = "ONNX Runtime";
  static void prepare_device(const char* name, hr_device_facts& facts) {
    plugin::prepare_device(name, "cpu and cuda:N", facts);
  }
  // Opens the library and creates the environment. If HEADROOM_ONNXRUNTIME is set, only that file is tried;
  // else libonnxruntime.so.1 next to this plug-in, then the system's library. Throws Failure.
  Runtime();
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  const OrtApi& api() const { return *api_; }
  OrtEnv* env() const { return env_; }
  const std::string& version() const { return version_; }  // "1.29.0"
  std::string file() const;                                // path of the library
  // The interface of `version`, or nullptr if the library is too old. For functions newer than kOldestApi.
  const OrtApi* newer_api(uint32_t version) const;
  // Throws Failure if the status is an error, and releases it.
  void check(OrtStatus* status) const;
  // Returns what `create` makes; its last parameter is the address for the new object.
  template <class T, class Create, class... Arguments>
  Owned<T> make(void(ORT_API_CALL* release)(T*), Create create, Arguments... arguments) const {
    T* made = nullptr;
    check(create(arguments..., &made));
    return {made, release};
  }

  // Creates the environment's shared arena. It has this size from its first use on, and later grows in steps
  // of at most 1 MiB, or more for a larger request. With 0 bytes it grows by exactly the requested size.
  // Sessions use it if they set session.use_env_allocators; other sessions have their own arena. Returns
  // false if the process has an arena already, which stays unchanged. Throws if this library has no such
  // arena.
  bool make_arena(std::int64_t first_bytes);
  // Like make_arena(), and touches all pages. ONNX Runtime's first use only reserves addresses, not memory.
  void fill_shared_arena(std::int64_t bytes);

 private:
  void* library_ = nullptr;  // never closed: its threads and thread-local objects may outlive an unload
  const OrtApiBase* base_ = nullptr;
  const OrtApi* api_ = nullptr;
  OrtEnv* env_ = nullptr;
  std::string version_;
  uint32_t minor_version_ = 0;
  std::mutex arena_mutex_;
  bool has_arena_ = false;
};

// The configuration entry that makes a session use the environment's allocators.
inline constexpr const char* kUseEnvAllocators = "session.use_env_allocators";

// Describes CPU memory; `type` selects the arena or plain allocations.
Owned<OrtMemoryInfo> cpu_memory(const Runtime& runtime, OrtAllocatorType type);

}  // namespace headroom::onnxruntime
