#include "inference/plugin/cuda_device.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "inference/plugin/plugin_failure.h"
#include "types/device_name.h"

namespace headroom::plugin {
namespace {

constexpr unsigned kStreamNonBlocking = 1;  // does not synchronize with the default stream

void check_code(const cuda::Driver& driver, cuda::Code code, const char* call) {
  if (code == cuda::kSuccess) return;
  throw Failure{code == cuda::kOutOfMemory ? HR_ERROR_OUT_OF_MEMORY : HR_ERROR_FAILED,
                fmt::format("{} failed with {}", call, driver.name_of(code))};
}

// The contexts by ordinal. A context is never released.
cuda::Opaque& context_of(unsigned ordinal) {
  static std::array<cuda::Opaque, kMostCudaDevices> contexts{};
  return contexts.at(ordinal);
}

// Functions of the CUDA driver, which is already loaded with global symbols.
struct GraphCalls {
  cuda::Code (*begin)(cuda::Opaque, int);
  cuda::Code (*end)(cuda::Opaque, cuda::Opaque*);
  cuda::Code (*instantiate)(cuda::Opaque*, cuda::Opaque, unsigned long long);
  cuda::Code (*launch)(cuda::Opaque, cuda::Opaque);
  cuda::Code (*destroy_exec)(cuda::Opaque);
  cuda::Code (*destroy)(cuda::Opaque);
};

template <class Function>
Function driver_function(const char* name) {
  const auto function = reinterpret_cast<Function>(::dlsym(RTLD_DEFAULT, name));
  if (function == nullptr) throw unavailable("the CUDA driver has no {}; omit --capture-graph", name);
  return function;
}

const GraphCalls& graph_calls() {
  static const GraphCalls kCalls{
      driver_function<decltype(GraphCalls::begin)>("cuStreamBeginCapture_v2"),
      driver_function<decltype(GraphCalls::end)>("cuStreamEndCapture"),
      driver_function<decltype(GraphCalls::instantiate)>("cuGraphInstantiateWithFlags"),
      driver_function<decltype(GraphCalls::launch)>("cuGraphLaunch"),
      driver_function<decltype(GraphCalls::destroy_exec)>("cuGraphExecDestroy"),
      driver_function<decltype(GraphCalls::destroy)>("cuGraphDestroy")};
  return kCalls;
}

}  // namespace

const cuda::Driver& prepare_cuda(unsigned ordinal) {
  const cuda::Driver& driver = *value_or_throw(cuda::Driver::open(), HR_ERROR_UNAVAILABLE);
  value_or_throw(driver.check_ordinal(ordinal), HR_ERROR_UNAVAILABLE);
  cuda::Opaque& context = context_of(ordinal);
  const cuda::Functions& call = driver.call();
  if (context == nullptr) {
    int device = 0;
    check_code(driver, call.cuDeviceGet(&device, static_cast<int>(ordinal)), "cuDeviceGet");
    check_code(driver, call.cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
  }
  check_code(driver, call.cuCtxSetCurrent(context), "cuCtxSetCurrent");
  return driver;
}

void prepare_device(const char* name, std::string_view runs_on, hr_device_facts& facts) {
  const auto device = parse_device_name(name);
  if (!device || !device->is_cuda) throw unavailable("it runs on {}, not on '{}'", runs_on, name);
  const cuda::DeviceFacts known = prepare_cuda(device->ordinal).facts(device->ordinal);
  copy_text(facts.name, known.name);
  copy_text(facts.uuid, known.uuid);
  facts.total_bytes = known.total.count;
  facts.is_integrated = known.is_integrated ? 1 : 0;
}

CudaDevice::CudaDevice(unsigned ordinal)
    : driver_(prepare_cuda(ordinal)), ordinal_(ordinal), context_(context_of(ordinal)) {
  const cuda::Functions& call = driver_.call();
  try {
    check(call.cuStreamCreate(&stream_, kStreamNonBlocking), "cuStreamCreate");
    check(call.cuEventCreate(&begin_, 0), "cuEventCreate");
    check(call.cuEventCreate(&end_, 0), "cuEventCreate");
  } catch (const Failure&) {
    destroy();
    throw;
  }
}

CudaDevice::~CudaDevice() { destroy(); }

void CudaDevice::destroy() {
  const cuda::Functions& call = driver_.call();
  call.cuCtxSetCurrent(context_);
  if (begin_ != nullptr) call.cuEventDestroy_v2(begin_);
  if (end_ != nullptr) call.cuEventDestroy_v2(end_);
  if (stream_ != nullptr) call.cuStreamDestroy_v2(stream_);
}

void CudaDevice::check(cuda::Code code, const char* call) const { check_code(driver_, code, call); }

void CudaDevice::try_to_make_current() const { driver_.call().cuCtxSetCurrent(context_); }

void CudaDevice::make_current() const { check(driver_.call().cuCtxSetCurrent(context_), "cuCtxSetCurrent"); }

void CudaDevice::begin_run() { check(driver_.call().cuEventRecord(begin_, stream_), "cuEventRecord"); }

void CudaDevice::copy_in(cuda::Pointer to, const void* from, std::size_t bytes) const {
  if (bytes > 0) check(driver_.call().cuMemcpyHtoDAsync_v2(to, from, bytes, stream_), "cuMemcpyHtoDAsync");
}

void CudaDevice::copy_out(void* to, cuda::Pointer from, std::size_t bytes) const {
  if (bytes > 0) check(driver_.call().cuMemcpyDtoHAsync_v2(to, from, bytes, stream_), "cuMemcpyDtoHAsync");
}

void CudaDevice::wait() const { check(driver_.call().cuStreamSynchronize(stream_), "cuStreamSynchronize"); }

void CudaDevice::end_run() {
  check(driver_.call().cuEventRecord(end_, stream_), "cuEventRecord");
  wait();
  float milliseconds = 0;
  check(driver_.call().cuEventElapsedTime(&milliseconds, begin_, end_), "cuEventElapsedTime");
  last_run_ns_ = std::llround(double{milliseconds} * 1e6);
}

void DeviceGraph::capture(const std::function<void()>& work) {
  const GraphCalls& call = graph_calls();
  forget();
  const auto check = [&](cuda::Code code, const char* name) {
    if (code == cuda::kSuccess) return;
    throw Failure{
        code == cuda::kOutOfMemory ? HR_ERROR_OUT_OF_MEMORY : HR_ERROR_FAILED,
        fmt::format("cannot capture a run as a CUDA graph ({} failed with {}); omit --capture-graph", name,
                    device_.driver().name_of(code))};
  };
  check(call.begin(device_.stream(), cuda::kCaptureThreadLocal), "cuStreamBeginCapture");
  cuda::Opaque graph = nullptr;
  try {
    work();
  } catch (...) {
    if (call.end(device_.stream(), &graph) == cuda::kSuccess && graph != nullptr) call.destroy(graph);
    throw;
  }
  check(call.end(device_.stream(), &graph), "cuStreamEndCapture");
  const cuda::Code code = call.instantiate(&exec_, graph, 0);
  call.destroy(graph);
  check(code, "cuGraphInstantiate");
}

void DeviceGraph::launch() const {
  const cuda::Code code = graph_calls().launch(exec_, device_.stream());
  if (code != cuda::kSuccess) throw failed("cuGraphLaunch failed with {}", device_.driver().name_of(code));
}

void DeviceGraph::forget() {
  if (exec_ != nullptr) graph_calls().destroy_exec(std::exchange(exec_, nullptr));
}

PinnedMemory::PinnedMemory(PinnedMemory&& other) noexcept
    : device_(other.device_),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

void PinnedMemory::release() {
  if (data_ != nullptr) {
    device_->try_to_make_current();
    device_->driver().call().cuMemFreeHost(data_);
  }
  data_ = nullptr;
  bytes_ = 0;
}

void* PinnedMemory::need(std::size_t bytes) {
  if (bytes <= bytes_ && data_ != nullptr) return data_;
  release();
  const std::size_t wanted = std::max<std::size_t>(bytes, 1);
  check_code(device_->driver(), device_->driver().call().cuMemHostAlloc(&data_, wanted, 0), "cuMemHostAlloc");
  bytes_ = wanted;
  return data_;
}

void HostInput::bind(void* memory, std::size_t bytes) {
  unpin();
  bytes_ = 0;  // nothing is bound if this fails
  memory_ = memory;
  is_pinned_ = memory != nullptr && bytes > 0 &&
               device_.driver().call().cuMemHostRegister_v2(memory, bytes, 0) == cuda::kSuccess;
  if (!is_pinned_ && bytes > 0) staging_.need(bytes);
  bytes_ = bytes;
}

void HostInput::copy_to(cuda::Pointer device_memory) const {
  const void* from = memory_;
  if (!is_pinned_ && bytes_ > 0) from = std::memcpy(staging_.data(), memory_, bytes_);
  device_.copy_in(device_memory, from, bytes_);
}

void HostInput::unpin() {
  if (!std::exchange(is_pinned_, false)) return;
  device_.try_to_make_current();
  device_.driver().call().cuMemHostUnregister(memory_);
}

}  // namespace headroom::plugin
