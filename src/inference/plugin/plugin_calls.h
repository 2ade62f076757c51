// Common code of the plug-ins' function tables (backend_plugin.h). It converts exceptions to errors at the C
// interface and starts the runtime once. It forwards most calls to a session's member function of the same
// name. The template parameter of table_of() is the plug-in's own runtime.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "inference/backend_plugin.h"
#include "inference/plugin/plugin_failure.h"

namespace headroom::plugin {

// Writes the current exception to `error`. Always returns 1, the error code.
int report_exception(hr_error* error) noexcept;

// Runs `work` and converts any exception to an hr_error.
template <class Work>
int guarded(hr_error* error, Work&& work) noexcept {
  try {
    work();
    return 0;
  } catch (...) {
    return report_exception(error);
  }
}

// Owns the runtime from the first start() to the last stop(). Sessions share ownership, so the runtime
// outlives stop() while a session exists. Thread-safe, because two model pools may start and stop it on
// different threads.
template <class Runtime>
class StartedRuntime {
 public:
  explicit StartedRuntime(const char* name) : name_(name) {}

  int start(hr_error* error) {
    return guarded(error, [this] {
      const std::lock_guard lock(mutex_);
      if (!runtime_) runtime_ = std::make_shared<Runtime>();
      ++starts_;
    });
  }
  void stop() {
    std::shared_ptr<Runtime> last;  // destroyed after the lock is released
    const std::lock_guard lock(mutex_);
    if (starts_ > 0 && --starts_ == 0) last = std::move(runtime_);
  }
  // Valid until the last stop().
  const char* version() const {
    const std::lock_guard lock(mutex_);
    return runtime_ ? runtime_->version().c_str() : "";
  }
  // Throws Failure before start() and after the last stop().
  std::shared_ptr<Runtime> get() const {
    const std::lock_guard lock(mutex_);
    if (!runtime_) throw Failure{HR_ERROR_UNAVAILABLE, std::string(name_) + " was not started"};
    return runtime_;
  }

  template <class Session>
  int load(const char* path, const hr_settings* settings, Session** session, hr_error* error) const {
    return guarded(error, [&] {
      const std::shared_ptr<Runtime> runtime = get();
      if (settings->struct_size < sizeof(hr_settings))
        throw unavailable(
            "the settings come from an older Headroom than this plug-in; install both from the same version");
      *session = std::make_unique<Session>(runtime, path, *settings).release();
    });
  }

 private:
  const char* name_;
  mutable std::mutex mutex_;
  std::shared_ptr<Runtime> runtime_;
  int starts_ = 0;
};

// The plug-in's runtime.
template <class Runtime>
StartedRuntime<Runtime>& started() {
  static StartedRuntime<Runtime> instance(Runtime::kTitle);
  return instance;
}

// The function table of a plug-in, without the optional functions. `Runtime` has kTitle and prepare_device().
template <class Runtime, class Session = hr_session>
hr_backend table_of(const char* name, const char* const* extensions) {
  hr_backend table{};
  table.abi_version = HEADROOM_BACKEND_ABI;
  table.struct_size = sizeof(hr_backend);
  table.name = name;
  table.extensions = extensions;
  table.start = [](hr_error* error) { return started<Runtime>().start(error); };
  table.stop = [] { started<Runtime>().stop(); };
  table.version = [] { return started<Runtime>().version(); };
  table.load = [](const char* path, const hr_settings* settings, Session** session, hr_error* error) {
    return started<Runtime>().load(path, settings, session, error);
  };
  table.unload = [](Session* session) { delete session; };
  table.describe = [](Session* session, hr_description* description, hr_error* error) {
    return guarded(error, [&] { session->describe(*description); });
  };
  table.bind_input = [](Session* session, std::int32_t index, const hr_tensor* tensor, hr_error* error) {
    return guarded(error, [&] { session->bind_input(index, *tensor); });
  };
  table.run = [](Session* session, hr_error* error) { return guarded(error, [&] { session->run(); }); };
  table.output = [](Session* session, std::int32_t index, hr_tensor* tensor, hr_error* error) {
    return guarded(error, [&] { *tensor = session->output(index); });
  };
  table.memory_stats = [](Session* session, hr_memory_stats* stats, hr_error* error) {
    return guarded(error, [&] { *stats = session->memory_stats(); });
  };
  table.trim = [](Session* session, hr_error* error) { return guarded(error, [&] { session->trim(); }); };
  table.prepare_device = [](const char* device, hr_device_facts* facts, hr_error* error) {
    return guarded(error, [&] { Runtime::prepare_device(device, *facts); });
  };
  table.placement = [](Session* session, hr_placement* placement, hr_error* error) {
    return guarded(error, [&] { *placement = session->placement(); });
  };
  table.run_facts = [](Session* session, hr_run_facts* facts) {
    facts->device_time_ns = session->device_time_ns();
  };
  return table;
}

}  // namespace headroom::plugin
