#include "bench/worker/job_state.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/json.h"
#include "bench/conductor/child_environment.h"
#include "types/device_name.h"

namespace headroom::bench {
namespace {

// A CUDA context costs hundreds of megabytes and belongs to no model, so it is created before the first model
// is loaded.
Status prepare_devices(Worker& worker) {
  std::vector<std::string> ready;
  for (const WorkerModel& model : worker.job.models) {
    const auto device = parse_device_name(model.settings.device);
    if (!device || !device->is_cuda) continue;
    const auto same = [&](const inference::Backend& backend) { return backend.name() == model.backend; };
    auto facts = std::find_if(worker.backends.begin(), worker.backends.end(), same)
                     ->prepare_device(model.settings.device);
    if (!facts) return forward_error(facts);
    const std::string name = device->text();
    if (std::find(ready.begin(), ready.end(), name) != ready.end()) continue;
    ready.push_back(name);
    Json event;
    event["event"] = "device";
    event["ordinal"] = device->ordinal;
    event["device"] = name;
    event["name"] = facts->name;
    event["uuid"] = facts->uuid;
    event["total_bytes"] = facts->total.count;
    event["is_integrated"] = facts->is_integrated;
    worker.events.send(event);
  }
  return {};
}

}  // namespace

Status start_runtimes(Worker& worker) {
  const Nanoseconds started = monotonic_now();
  for (const WorkerModel& model : worker.job.models) {
    const auto same = [&](const inference::Backend& backend) { return backend.name() == model.backend; };
    if (std::any_of(worker.backends.begin(), worker.backends.end(), same)) continue;
    auto backend = inference::Backend::open({model.backend, model.backend_path});
    if (!backend) return forward_error(backend);
    if (auto running = backend->start(); !running) return running;
    worker.backends.push_back(std::move(*backend));
  }
  Json event;
  event["event"] = "runtime";
  event["version"] = worker.backends.front().version();
  event["load_ns"] = (monotonic_now() - started).count;
  event["fixed_addresses"] = has_fixed_addresses();
  if (worker.backends.front().name() == "onnxruntime") event["telemetry"] = allows_telemetry();
  worker.events.send(event);
  if (auto ready = prepare_devices(worker); !ready) return ready;
  worker.events.mark(Phase::runtime_loaded);
  return {};
}

Status load_model(Worker& worker, const WorkerModel& model) {
  const auto same = [&](const inference::Backend& backend) { return backend.name() == model.backend; };
  inference::Backend& backend = *std::find_if(worker.backends.begin(), worker.backends.end(), same);
  const Nanoseconds started = monotonic_now();
  auto loaded = LoadedModel::load(backend, model, worker.job);
  if (!loaded) return forward_error(loaded);
  Json event;
  event["event"] = "model";
  event["name"] = model.name;
  event["load_ns"] = (monotonic_now() - started).count;
  event["task"] = loaded->task_name();
  event["input"] = loaded->input_text();
  event["takes_frames"] = loaded->takes_frames();
  event["class_names"] = loaded->class_names();
  if (const auto precision = loaded->precision()) event["precision"] = name_of(*precision);
  if (!loaded->learnt_outputs().empty()) event["outputs"] = to_json(loaded->learnt_outputs());
  if (const auto placement = loaded->placement()) {
    event["nodes_on_device"] = placement->on_device;
    event["nodes_on_cpu"] = placement->elsewhere;
    event["kinds_on_cpu"] = placement->elsewhere_text;
  }
  worker.models.push_back(std::move(*loaded));
  worker.events.send(event);
  return {};
}

Status clean_models(Worker& worker) {
  for (LoadedModel& model : worker.models)
    if (auto cleaned = model.clean(); !cleaned) return cleaned;
  return {};
}

}  // namespace headroom::bench
