// Opens one of the fake libraries, so that a test can fill its table before the source opens the same file.
#pragma once

#include <dlfcn.h>

#include <memory>
#include <stdexcept>
#include <string>

#include "fake_nvml.h"
#include "sources/nvml_source.h"
#include "support/test_support.h"

namespace headroom::sources {

constexpr unsigned kNotSupportedAnswer = 3, kNoPermissionAnswer = 4, kLostAnswer = 15, kResetAnswer = 16;

class FakeLibrary {
 public:
  explicit FakeLibrary(const std::string& name = "fake_nvml")
      : file_(test::built_path("tests/lib") + name + ".so"),
        handle_(::dlopen(file_.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) throw std::runtime_error(::dlerror());
    state_ = reinterpret_cast<decltype(&fake_nvml_state)>(::dlsym(handle_, "fake_nvml_state"))();
    *state_ = {};
    state_->entry_size = 24;
    state_->gpu_count = 2;
    fill(state_->gpus[0], "NVIDIA H200", "GPU-11111111-2222-3333-4444-555555555555", "00000000:41:00.0");
    fill(state_->gpus[1], "NVIDIA RTX 6000", "GPU-66666666-7777-8888-9999-000000000000", "00000001:C1:00.0");
  }
  ~FakeLibrary() { ::dlclose(handle_); }
  FakeLibrary(const FakeLibrary&) = delete;
  FakeLibrary& operator=(const FakeLibrary&) = delete;

  test::FakeNvml& state() { return *state_; }
  test::FakeGpu& gpu(std::size_t index) { return state_->gpus[index]; }
  const std::string& file() const { return file_; }
  std::unique_ptr<MetricSource> open() { return open_nvml_source(file_); }
  SystemSample sample() {
    SystemSample sample;
    open()->read(sample);
    return sample;
  }

 private:
  static void fill(test::FakeGpu& gpu, const char* name, const char* uuid, const char* bus_id) {
    gpu = {};
    gpu.name = name, gpu.uuid = uuid, gpu.bus_id = bus_id;
    gpu.total = 150754820096ULL, gpu.reserved = 600, gpu.used = 4000, gpu.free = gpu.total - 4600;
    gpu.gpu_percent = 37, gpu.memory_percent = 12, gpu.encoder_percent = 5, gpu.decoder_percent = 0;
    gpu.graphics_mhz = 1980, gpu.sm_mhz = 1970, gpu.memory_mhz = 3201;
    gpu.power_milliwatts = 76'543, gpu.power_limit_milliwatts = 700'000, gpu.temperature = 31;
    gpu.refusal = kNotSupportedAnswer;
  }

  std::string file_;
  void* handle_;
  test::FakeNvml* state_;
};

}  // namespace headroom::sources
