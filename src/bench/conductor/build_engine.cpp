#include "bench/conductor/bench.h"

#include <fmt/format.h>
#include <unistd.h>

#include <memory>

#include "base/json.h"
#include "bench/conductor/child_process.h"
#include "bench/processes.h"
#include "inference/backend.h"
#include "limits/memory_limit.h"
#include "trace/tracer_environment.h"

namespace headroom::bench {
namespace fs = std::filesystem;
namespace {

constexpr Nanoseconds kEngineProgressInterval{200'000'000};  // builders report hundreds of steps a second

Json order_to_json(const tensorrt::EngineRequest& request, const fs::path& plugin) {
  return {{"plugin", plugin.string()},
          {"model", request.model.string()},
          {"engine", request.engine.string()},
          {"device", request.device},
          {"image_size", request.image_size},
          {"precision", tensorrt::name_of(request.precision)},
          {"workspace_bytes", request.workspace.count},
          {"force", request.force}};
}

tensorrt::EngineRequest order_from_json(const Json& job) {
  tensorrt::EngineRequest request;
  request.model = get_text(job, "model");
  request.engine = get_text(job, "engine");
  request.device = get_text(job, "device");
  request.creator = HEADROOM_VERSION;
  request.created_at = timestamp_now();
  request.image_size = static_cast<int>(get_integer(job, "image_size").value_or(0));
  request.precision =
      tensorrt::parse_precision(get_text(job, "precision")).value_or(tensorrt::Precision::fp32);
  request.workspace = get_bytes(job, "workspace_bytes").value_or(Bytes{});
  request.force = get_bool(job, "force").value_or(false);
  return request;
}

Result<Json> build(const Json& job) {
  Nanoseconds last;
  const auto progress = [&](const std::string& text) {
    const Nanoseconds now = monotonic_now();
    if (now - last < kEngineProgressInterval) return;
    last = now;
    send_helper_event("progress", {{"text", text}});
  };
  const auto outcome = tensorrt::build_engine_with(get_text(job, "plugin"), order_from_json(job), progress);
  if (!outcome) return tl::unexpected<Error>(outcome.error());
  return Json{{"was_there", outcome->already_built},
              {"device_peak_bytes", outcome->device_peak.count},
              {"refused", outcome->refused},
              {"note", outcome->note}};
}

// Checks before the build, which takes minutes.
Status check_paths(const tensorrt::EngineRequest& request) {
  std::error_code code;
  if (!fs::is_regular_file(request.model, code))
    return input_error(fmt::format("cannot open model {}", request.model.string()),
                       code ? code.message() : "not a file", "check the path");
  const fs::path folder = fs::absolute(request.engine, code).parent_path();
  if (fs::is_directory(request.engine, code))
    return usage_error(fmt::format("--out {} is a folder", request.engine.string()), "",
                       "give the name of a file in it, as --out DIR/model.engine");
  if (::access(folder.c_str(), W_OK) != 0)
    return usage_error(fmt::format("cannot write into {}", folder.string()), errno_text(errno),
                       "choose a writable folder with --out");
  return {};
}

}  // namespace

Result<BuiltEngine> build_engine(const BuildEngineOptions& options,
                                 const std::function<void(const std::string&)>& progress) {
  if (auto valid = check_paths(options.request); !valid) return forward_error(valid);
  const auto plugin = inference::choose_backend(options.request.model, "tensorrt", options.request.device);
  if (!plugin) return tl::unexpected<Error>(plugin.error());
  auto interrupt = Interrupt::listen();
  if (!interrupt) return forward_error(interrupt);
  HelperPlan plan;
  plan.verb = "_build_engine";
  plan.purpose = "building an engine from " + options.request.model.string();
  plan.timeout = options.timeout;
  std::string current_step;
  plan.current_step = [&] { return current_step; };
  plan.on_event = [&](const Json& event) {
    current_step = get_text(event, "text");
    progress(current_step);
  };
  if (options.gpu_limits.any()) {
    const auto library = trace::gpu_tracer_library();
    if (auto there = trace::check_library(library); !there) return forward_error(there);
    plan.environment = trace::ledger_environment(library, options.gpu_limits, "");
  }
  std::unique_ptr<limits::MemoryLimit> limit;
  if (options.limit) {
    std::string note;
    auto made = limits::make_memory_limit("build", options.limit, options.mechanism, note);
    if (!made) return forward_error(made);
    limit = std::move(*made);
    plan.limit = limit.get();
    plan.limit_flag = "--mem-limit";
  }
  const Nanoseconds started = monotonic_now();
  BuiltEngine built;
  const auto done = run_helper(plan, order_to_json(options.request, plugin->path), *interrupt);
  built.interrupted = !done && was_interrupted(done.error());
  if (built.interrupted) return built;
  if (!done) return tl::unexpected<Error>(done.error());
  built.time = monotonic_now() - started;
  built.outcome = {get_bool(*done, "was_there").value_or(false),
                   get_bytes(*done, "device_peak_bytes").value_or(Bytes{}),
                   get_integer(*done, "refused").value_or(0), get_text(*done, "note")};
  auto record = tensorrt::read_record(options.request.engine);
  if (!record) return forward_error(record);
  if (!*record) return internal_error("the engine has no record", "another process removed it");
  built.record = std::move(**record);
  return built;
}

int run_build_engine_process() { return serve_helper(build); }

}  // namespace headroom::bench
