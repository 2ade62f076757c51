// The ONNX Runtime library: found and opened at run time, never linked, so that a board's own build of it
// (with its own execution providers) can be used.
#pragma once

#include <onnxruntime_c_api.h>

#include <memory>
#include <mutex>
#include <string>

namespace headroom::onnxruntime {

// Owns an object of the C API.
template <class T>
using Owned = std::unique_ptr<T, void(ORT_API_CALL*)(T*)>;

// The oldest interface that has all that is used here: 1.9 brought AddRunConfigEntry and CreateArenaCfgV2.
// Asking for it, rather than for that of the headers, lets libraries from 1.9 on serve (JetPack 5 has 1.11
// to 1.16).
constexpr uint32_t kOldestApi = 9;

class Runtime {
 public:
  // Opens the library and makes the environment. The library is HEADROOM_ONNXRUNTIME, or libonnxruntime.so.1
  // beside this plug-in, or the system's. Throws Failure.
  Runtime();
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  const OrtApi& api() const { return *api_; }
  OrtEnv* env() const { return env_; }
  const std::string& version() const { return version_; }  // "1.29.0"
  std::string file() const;                                // of the library, as it was found
  // The interface of `version` if the library has it, else nullptr; for functions newer than kOldestApi.
  const OrtApi* newer_api(uint32_t version) const;
  // Throws Failure for a status that is not a success; releases it.
  void check(OrtStatus* status) const;

  // Makes the environment's shared arena, which grows by just what is asked for. Sessions get it by
  // session.use_env_allocators; others keep an arena of their own. Throws where this library has no such
  // arena.
  void make_exact_arena() { make_arena(0); }
  // The same, which takes this many bytes at its first use and then grows by just what is asked for. There is
  // one such arena in a process: if it is there already, it stays as it is.
  void make_shared_arena(std::int64_t bytes) { make_arena(bytes); }
  // The same, all of it touched: ONNX Runtime's first use alone gives it addresses, and no memory.
  void fill_shared_arena(std::int64_t bytes);

 private:
  bool make_arena(std::int64_t first_bytes);  // false: there is one
  void* library_ = nullptr;  // stays open: its threads and thread-local objects may outlive an unload
  const OrtApiBase* base_ = nullptr;
  const OrtApi* api_ = nullptr;
  OrtEnv* env_ = nullptr;
  std::string version_;
  uint32_t minor_version_ = 0;
  std::mutex arena_mutex_;
  bool has_arena_ = false;
};

// The configuration entry by which a session takes the environment's allocators.
inline constexpr const char* kUseEnvAllocators = "session.use_env_allocators";

// The memory of the CPU; `type` says whether an arena is meant.
Owned<OrtMemoryInfo> cpu_memory(const Runtime& runtime, OrtAllocatorType type);

}  // namespace headroom::onnxruntime
