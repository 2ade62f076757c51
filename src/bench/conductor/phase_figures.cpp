#include "bench/conductor/phase_figures.h"

#include <algorithm>

#include "base/json.h"
#include "bench/protocol.h"

namespace headroom::bench {
namespace {

void add_phase_event(WorkerAccount& account, const Json& event) {
  const auto phase = parse_phase(get_text(event, "phase"));
  if (!phase) return;
  account.phases.push_back(
      {*phase, get_nanoseconds(event, "time_ns").value_or(monotonic_now()) - account.started,
       get_bytes(event, "resident_bytes"), get_bytes(event, "peak_bytes"), get_bytes(event, "data_bytes"),
       get_nanoseconds(event, "cpu_time_ns"), get_bytes(event, "file_backed_bytes")});
  account.gpus.add_phase(*phase, get_member(event, "gpu"));
  account.peak_reset_works = account.peak_reset_works && get_bool(event, "peak_was_reset").value_or(false);
}

void add_model_event(WorkerAccount& account, const Json& event) {
  ModelAccount model;
  model.name = get_text(event, "name");
  model.task = get_text(event, "task");
  model.input = get_text(event, "input");
  model.takes_frames = get_bool(event, "takes_frames").value_or(false);
  model.load_time = get_nanoseconds(event, "load_ns");
  if (const auto on_device = get_integer(event, "nodes_on_device"))
    model.placement = NodePlacement{*on_device, get_integer(event, "nodes_on_cpu").value_or(0),
                                    get_text(event, "kinds_on_cpu")};
  for (const Json& name : get_member(event, "class_names"))
    model.class_names.push_back(name.is_string() ? name.get<std::string>() : std::string());
  model.precision = parse_precision(get_text(event, "precision"));
  model.outputs = tensors_from_json(get_member(event, "outputs"));
  model.frames = KeptFrames(account.run_folder);
  account.models.push_back(std::move(model));
}

void add_frames_event(WorkerAccount& account, const Json& event) {
  const auto index = static_cast<std::size_t>(get_integer(event, "model").value_or(0));
  if (index >= account.models.size()) return;
  for (const Json& times : get_member(event, "times")) {
    if (!times.is_array() || (times.size() != 5 && times.size() != 6)) continue;
    const auto at = [&](std::size_t i) {
      return times[i].is_number_integer() ? times[i].get<std::int64_t>() : 0;
    };
    FrameTimes frame{{at(0)}, {at(1)}, {at(2)}, {at(3)}, at(4), {}};
    if (times.size() == 6) frame.device = Nanoseconds{at(5)};
    account.models[index].frames.add(frame);
  }
}

// Adds the pool's figures of a window of frames and, at the end, its counters (bench/pooled_run.cpp).
void add_pool_event(PoolAccount& pool, const Json& event) {
  const auto add_times = [](const Json& times, std::vector<std::int64_t>& to) {
    for (const Json& time : times)
      if (time.is_number_integer()) to.push_back(time.get<std::int64_t>());
  };
  add_times(get_member(event, "frames_ns"), pool.frames);
  std::size_t at = 0;
  for (const Json& entry : get_member(event, "models")) {
    if (pool.models.size() <= at) pool.models.emplace_back();
    PooledAccount& model = pool.models[at++];
    const auto count = [&](const char* name, std::int64_t& to) {
      to = get_integer(entry, name).value_or(to);
    };
    count("requests", model.requests);
    count("hits", model.hits);
    count("unloads", model.unloads);
    count("evictions", model.evictions);
    count("refusals", model.refusals);
    count("failures", model.failures);
    if (const std::string error = get_text(entry, "error"); !error.empty()) model.error = error;
    if (const auto charge = get_bytes(entry, "charge_bytes")) model.charge = charge;
    add_times(get_member(entry, "loads_ns"), model.loads);
    add_times(get_member(entry, "waits_ns"), model.waits);
  }
  pool.baseline = get_bytes(event, "baseline_bytes");
  pool.books_peak = get_bytes(event, "books_peak_bytes");
  pool.peak = get_bytes(event, "peak_bytes");
  pool.load_time = get_nanoseconds(event, "load_ns");
  pool.reload_time = get_nanoseconds(event, "reload_ns");
  pool.samples = get_integer(event, "samples").value_or(0);
  pool.samples_over = get_integer(event, "samples_over").value_or(0);
}

}  // namespace

const PhaseAccount* WorkerAccount::find(Phase phase) const {
  for (auto it = phases.rbegin(); it != phases.rend(); ++it)
    if (it->phase == phase) return &*it;
  return nullptr;
}

void add_event(WorkerAccount& account, const Json& event) {
  const std::string kind = get_text(event, "event");
  if (kind == "phase") {
    add_phase_event(account, event);
  } else if (kind == "runtime") {
    account.runtime_version = get_text(event, "version");
    account.runtime_load_time = get_nanoseconds(event, "load_ns");
    account.fixed_addresses = get_bool(event, "fixed_addresses");
    account.telemetry = get_bool(event, "telemetry");
  } else if (kind == "device") {
    account.gpus.add_device(event);
  } else if (kind == "model") {
    add_model_event(account, event);
  } else if (kind == "pipeline_model") {
    if (!account.models.empty())
      account.models.back().resident_after_load = get_bytes(event, "resident_bytes");
  } else if (kind == "frames") {
    add_frames_event(account, event);
  } else if (kind == "pool") {
    add_pool_event(account.pool, event);
  } else if (kind == "held") {
    account.frames_held = std::max(account.frames_held, get_integer(event, "frames").value_or(0));
    account.skipped_frames += get_integer(event, "skipped").value_or(0);
  } else if (kind == "warning") {
    account.warnings.push_back(get_text(event, "message"));
  } else if (kind == "cleanup") {
    account.cleanups.push_back({get_text(event, "level"), get_text(event, "name"),
                                get_bytes(event, "resident_bytes").value_or(Bytes{})});
  } else if (kind == "measuring") {
    account.measuring_since = get_nanoseconds(event, "time_ns").value_or(monotonic_now()) - account.started;
    account.cpu_time_then = get_nanoseconds(event, "cpu_time_ns");
    account.warmup_time = get_nanoseconds(event, "warmup_ns");
  } else if (kind == "decoder") {
    account.awaits_decoder = get_bool(event, "awaited").value_or(false);
  } else if (kind == "in_step") {
    account.in_step = InStep{
        {}, get_integer(event, "frames").value_or(0), get_bool(event, "one_processor").value_or(false)};
  } else if (kind == "waiting") {
    account.waits_for_gate = true;
  } else if (kind == "error") {
    account.status = get_text(event, "kind") == "oom" ? ModelStatus::oom : ModelStatus::failed;
    account.error = get_text(event, "message");
    account.peak_at_error = get_bytes(event, "peak_bytes");
    account.gpus.add_phase(account.phase(), get_member(event, "gpu"), true);
  } else if (kind == "done") {
    account.is_done = true;
  }
}

}  // namespace headroom::bench
