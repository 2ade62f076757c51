// The C boundary of the TensorRT plug-in. No exception passes it.
#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string_view>

#include "inference/backend_plugin.h"
#include "inference/tensorrt/builder.h"
#include "inference/tensorrt/session.h"
#include "model/device_name.h"

namespace {

using headroom::tensorrt::Failure;
using headroom::tensorrt::Library;

// Sessions hold a share of it, so it outlives stop() where a session does.
std::shared_ptr<Library>& library() {
  static std::shared_ptr<Library> instance;
  return instance;
}
int starts = 0;

int report(hr_error* error, hr_error_kind kind, std::string_view message) {
  error->kind = kind;
  const std::size_t length = std::min(message.size(), sizeof error->message - 1);
  std::memcpy(error->message, message.data(), length);
  error->message[length] = '\0';
  return 1;
}

// Does the work and turns whatever it throws into an hr_error.
template <class Work>
int guarded(hr_error* error, Work&& work) noexcept {
  try {
    work();
    return 0;
  } catch (const Failure& failure) {
    return report(error, failure.kind, failure.message);
  } catch (const std::bad_alloc&) {
    return report(error, HR_ERROR_OUT_OF_MEMORY, "an allocation was refused");
  } catch (const std::exception& exception) {
    return report(error, HR_ERROR_FAILED, exception.what());
  } catch (...) {
    return report(error, HR_ERROR_FAILED, "an exception of unknown type");
  }
}

int start(hr_error* error) {
  return guarded(error, [] {
    if (!library()) library() = std::make_shared<Library>();
    ++starts;
  });
}

void stop() {
  if (starts > 0 && --starts == 0) library().reset();
}

const char* version() { return library() ? library()->version().c_str() : ""; }

int load(const char* path, const hr_settings* settings, hr_session** session, hr_error* error) {
  return guarded(error, [&] {
    if (!library()) throw Failure{HR_ERROR_UNAVAILABLE, "TensorRT was not started"};
    if (settings->struct_size < sizeof(hr_settings))
      throw Failure{HR_ERROR_UNAVAILABLE, "the settings come from an older Headroom than this plug-in"};
    *session = std::make_unique<hr_session>(library(), path, *settings).release();
  });
}

void unload(hr_session* session) { delete session; }

int describe(hr_session* session, hr_description* description, hr_error* error) {
  return guarded(error, [&] { session->describe(*description); });
}

int bind_input(hr_session* session, int32_t index, const hr_tensor* tensor, hr_error* error) {
  return guarded(error, [&] { session->bind_input(index, *tensor); });
}

int run(hr_session* session, hr_error* error) {
  return guarded(error, [&] { session->run(); });
}

int output(hr_session* session, int32_t index, hr_tensor* tensor, hr_error* error) {
  return guarded(error, [&] { *tensor = session->output(index); });
}

int memory_stats(hr_session* session, hr_memory_stats* stats, hr_error* error) {
  return guarded(error, [&] { *stats = session->memory_stats(); });
}

// Everything that a session holds is in use at each run: there is no cache.
int trim(hr_session*, hr_error*) { return 0; }

int prepare_device(const char* device, hr_device_facts* facts, hr_error* error) {
  return guarded(error, [&] {
    const auto name = headroom::parse_device_name(device);
    if (!name || !name->is_cuda)
      throw Failure{HR_ERROR_UNAVAILABLE, "it runs on cuda:N, not on '" + std::string(device) + "'"};
    headroom::onnxruntime::fill(*facts, headroom::onnxruntime::prepare_cuda(name->ordinal), name->ordinal);
  });
}

int placement(hr_session* session, hr_placement* placement, hr_error* error) {
  return guarded(error, [&] { *placement = session->placement(); });
}

void run_facts(hr_session* session, hr_run_facts* facts) {
  facts->device_time_ns = session->device_time_ns();
}

// .onnx: the engine that was built of it and lies beside it.
constexpr std::array<const char*, 4> kExtensions{".engine", ".plan", ".onnx", nullptr};

const hr_backend kBackend{HEADROOM_BACKEND_ABI,
                          sizeof(hr_backend),
                          "tensorrt",
                          kExtensions.data(),
                          start,
                          stop,
                          version,
                          load,
                          unload,
                          describe,
                          bind_input,
                          run,
                          output,
                          memory_stats,
                          trim,
                          prepare_device,
                          placement,
                          run_facts};

}  // namespace

extern "C" __attribute__((visibility("default"))) const hr_backend* headroom_backend(void) {
  return &kBackend;
}

extern "C" __attribute__((visibility("default"))) int headroom_build_engine(const hr_engine_order* order,
                                                                            hr_engine_outcome* outcome,
                                                                            hr_error* error) {
  return guarded(error, [&] {
    if (order->struct_size < sizeof(hr_engine_order) || outcome->struct_size < sizeof(hr_engine_outcome))
      throw Failure{HR_ERROR_UNAVAILABLE, "the order comes from an older Headroom than this plug-in"};
    const auto opened = std::make_shared<Library>();
    headroom::tensorrt::build_engine(*opened, *order, *outcome);
  });
}
