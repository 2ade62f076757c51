#include "bench/gpu_limit.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"
#include "base/log.h"
#include "bench/helper_process.h"
#include "cuda/probe_routes.h"
#include "model/device_name.h"
#include "trace/tracer_environment.h"

namespace headroom::bench {
namespace {

constexpr Bytes kProbeLimit = mebibytes(64), kProbeTarget = mebibytes(128), kProbeStep = mebibytes(8);

Result<Json> probe(const Json& job) {
  auto outcomes = cuda::try_routes(static_cast<unsigned>(get_integer(job, "ordinal").value_or(0)),
                                   get_bytes(job, "target_bytes").value_or(kProbeTarget), kProbeStep);
  if (!outcomes) return forward_error(outcomes);
  Json answer;
  answer["routes"] = Json::array();
  for (const cuda::RouteOutcome& outcome : *outcomes) {
    Json entry;
    entry["name"] = outcome.name;
    entry["is_there"] = outcome.is_there;
    entry["taken_bytes"] = outcome.taken.count;
    entry["stopped_by"] = outcome.stopped_by;
    answer["routes"].push_back(std::move(entry));
  }
  return answer;
}

LimitRoute route_of(const Json& entry, Bytes limit) {
  const Bytes taken = get_bytes(entry, "taken_bytes").value_or(Bytes{});
  const std::string name = get_text(entry, "name"), stopped_by = get_text(entry, "stopped_by");
  if (get_bool(entry, "is_there") == false) return {name, "not_tried", "the driver has no such way"};
  if (taken > limit)
    return {name, "escaped",
            fmt::format("took {} under a limit of {}", format_bytes(taken), format_bytes(limit))};
  return {name, "refused", fmt::format("{} after {}", stopped_by, format_bytes(taken))};
}

}  // namespace

const std::string& device_of(const ModelSpec& model, const BenchOptions& options) {
  return model.device.empty() ? options.device : model.device;
}

std::vector<unsigned> cuda_devices(const BenchOptions& options) {
  std::vector<unsigned> ordinals;
  for (const ModelSpec& model : options.models) {
    const auto device = parse_device_name(device_of(model, options));
    if (device && device->is_cuda &&
        std::find(ordinals.begin(), ordinals.end(), device->ordinal) == ordinals.end())
      ordinals.push_back(device->ordinal);
  }
  return ordinals;
}

Result<std::optional<trace::DeviceAccount>> open_device_account(const BenchOptions& options) {
  std::optional<trace::DeviceAccount> account;
  if (cuda_devices(options).empty()) return account;
  ledger::Limits limits;
  if (!options.gpu_memory_limit.empty()) {
    auto parsed = trace::parse_device_limits(options.gpu_memory_limit);
    if (!parsed) return forward_error(parsed);
    limits = *parsed;
    if (auto there = trace::check_library(trace::tracer_library()); !there) return forward_error(there);
  }
  auto opened = trace::DeviceAccount::open(limits, "");
  if (!opened && limits.any()) return forward_error(opened);
  if (!opened) {  // each worker then has an account of its own, and there is no joint peak
    log::warning("{}", opened.error().sentence());
    return account;
  }
  account.emplace(std::move(*opened));
  return account;
}

Limit probe_gpu_limit(const ledger::Limits& limits, const std::vector<unsigned>& devices,
                      Interrupt& interrupt) {
  Limit limit;
  limit.mechanism = LimitMechanism::device_ledger;
  const auto has_limit = [&](unsigned device) { return limits.bytes[device] != ledger::kNoLimit; };
  const auto limited = std::find_if(devices.begin(), devices.end(), has_limit);
  if (limited == devices.end()) {
    limit.note = "no model runs on a device that has a limit";
    return limit;
  }
  limit.bytes = Bytes{static_cast<std::int64_t>(limits.bytes[*limited])};
  const Bytes tried = std::min(limit.bytes, kProbeLimit);
  HelperPlan plan;
  plan.verb = "_gpu_probe";
  plan.purpose = "probing the limit on GPU memory";
  ledger::Limits small;
  small.bytes[*limited] = static_cast<std::uint64_t>(tried.count);
  plan.environment = trace::ledger_environment(trace::tracer_library(), small, "");
  Json job;
  job["ordinal"] = *limited;
  job["target_bytes"] = kProbeTarget.count;
  auto answer = run_helper(plan, job, interrupt);
  if (!answer) {
    limit.note = answer.error().sentence();
    return limit;
  }
  for (const Json& entry : get_member(*answer, "routes")) limit.routes.push_back(route_of(entry, tried));
  const auto came_out = [&](std::string_view outcome) {
    return std::any_of(limit.routes.begin(), limit.routes.end(),
                       [&](const LimitRoute& route) { return route.outcome == outcome; });
  };
  if (came_out("refused")) limit.type = came_out("escaped") ? LimitType::soft : LimitType::hard;
  return limit;
}

int run_gpu_probe_process() { return serve_helper(probe); }

}  // namespace headroom::bench
