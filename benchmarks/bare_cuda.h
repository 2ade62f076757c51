// The few CUDA driver calls of the bare loop. Needs no toolkit and nothing of Headroom.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>

namespace bare_cuda {

struct Device {
  void* stream = nullptr;

  // Returns null, or a sentence if it fails.
  const char* open(int ordinal) {
    library_ = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (library_ == nullptr) return "CUDA driver not found (libcuda.so.1)";
    void* context = nullptr;
    int device = 0;
    if (function<int (*)(unsigned)>("cuInit")(0) != 0) return "cannot start the CUDA driver";
    if (function<int (*)(int*, int)>("cuDeviceGet")(&device, ordinal) != 0) return "no GPU has this number";
    if (function<int (*)(void**, int)>("cuDevicePrimaryCtxRetain")(&context, device) != 0 ||
        function<int (*)(void*)>("cuCtxSetCurrent")(context) != 0 ||
        function<int (*)(void**, unsigned)>("cuStreamCreate")(&stream, 1) != 0)
      return "cannot create a context on the GPU";
    copy_in_ = function<CopyIn>("cuMemcpyHtoDAsync_v2");
    copy_out_ = function<CopyOut>("cuMemcpyDtoHAsync_v2");
    wait_ = function<int (*)(void*)>("cuStreamSynchronize");
    return nullptr;
  }
  void pin(void* memory, std::size_t bytes) {
    function<int (*)(void*, std::size_t, unsigned)>("cuMemHostRegister_v2")(memory, bytes, 0);
  }
  void* make_pinned(std::size_t bytes) {
    void* memory = nullptr;
    function<int (*)(void**, std::size_t, unsigned)>("cuMemHostAlloc")(&memory, bytes, 0);
    return memory;
  }
  void copy_in(void* to, const void* from, std::size_t bytes) {
    copy_in_(reinterpret_cast<std::uint64_t>(to), from, bytes, stream);
  }
  void copy_out(void* to, const void* from, std::size_t bytes) {
    copy_out_(to, reinterpret_cast<std::uint64_t>(from), bytes, stream);
  }
  void wait() { wait_(stream); }

 private:
  using CopyIn = int (*)(std::uint64_t, const void*, std::size_t, void*);
  using CopyOut = int (*)(void*, std::uint64_t, std::size_t, void*);
  template <class Function>
  Function function(const char* name) {
    return reinterpret_cast<Function>(::dlsym(library_, name));
  }
  void* library_ = nullptr;
  CopyIn copy_in_ = nullptr;
  CopyOut copy_out_ = nullptr;
  int (*wait_)(void*) = nullptr;
};

}  // namespace bare_cuda
