#include "bench/conductor/gpu_limit.h"

#include <fmt/format.h>
#include <algorithm>
#include <map>
#include <utility>

#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "base/subprocess.h"
#include "bench/processes.h"
#include "cuda/driver.h"
#include "cuda/probe_routes.h"
#include "cuda/visible_devices.h"
#include "limits/memory_limit.h"
#include "report/words.h"
#include "trace/tracer_environment.h"
#include "types/device_name.h"

namespace headroom::bench {
namespace {

constexpr Bytes kProbeLimit = mebibytes(64), kProbeTarget = mebibytes(128), kProbeStep = mebibytes(8);

Result<Json> probe(const Json& job) {
  auto outcomes = cuda::try_routes(static_cast<unsigned>(get_integer(job, "ordinal").value_or(0)),
                                   get_bytes(job, "target_bytes").value_or(kProbeTarget), kProbeStep);
  if (!outcomes) return forward_error(outcomes);
  Json answer;
  const auto driver = cuda::Driver::open();
  answer["devices"] = driver ? (*driver)->device_count() : 0;
  answer["routes"] = Json::array();
  for (const cuda::RouteOutcome& outcome : *outcomes)
    answer["routes"].push_back({{"name", outcome.name},
                                {"is_there", outcome.is_supported},
                                {"taken_bytes", outcome.allocated.count},
                                {"stopped_by", outcome.stopped_by},
                                {"is_refused", outcome.is_refused}});
  return answer;
}

LimitRoute route_of(const Json& entry, Bytes limit, const std::string& device) {
  const Bytes taken = get_bytes(entry, "taken_bytes").value_or(Bytes{});
  const std::string name = device + get_text(entry, "name"), stopped_by = get_text(entry, "stopped_by");
  if (get_bool(entry, "is_there") == false) return {name, "not_tried", "the driver does not have this route"};
  if (taken > limit)
    return {name, "escaped",
            fmt::format("allocated {} under a limit of {}", format_bytes(taken), format_bytes(limit))};
  if (get_bool(entry, "is_refused") != true)
    return {name, "not_tried",
            stopped_by.empty()
                ? fmt::format("the driver allocated only {} for the whole request", format_bytes(taken))
                : fmt::format("the driver answered {} after {}", stopped_by, format_bytes(taken))};
  return {name, "refused", fmt::format("{} after {}", stopped_by, format_bytes(taken))};
}

// The outcome of each route on one device, in a child under a small limit. With several devices, each route's
// name starts with the device.
struct Probed {
  std::vector<LimitRoute> routes;
  std::int64_t devices = 0;  // number of devices that the driver reports
};
Result<Probed> probe_device(unsigned device, Bytes limit, bool is_one_of_several, Interrupt& interrupt) {
  HelperPlan plan;
  plan.verb = "_gpu_probe";
  plan.purpose = fmt::format("probing the limit on the memory of cuda:{}", device);
  ledger::Limits small;
  small.bytes[device] = static_cast<std::uint64_t>(limit.count);
  plan.environment = trace::ledger_environment(trace::gpu_tracer_library(), small, "");
  auto answer = run_helper(plan, {{"ordinal", device}, {"target_bytes", kProbeTarget.count}}, interrupt);
  if (!answer) return forward_error(answer);
  Probed probed;
  probed.devices = get_integer(*answer, "devices").value_or(0);
  const std::string prefix =
      is_one_of_several && probed.devices > 1 ? fmt::format("cuda:{} ", device) : std::string();
  for (const Json& entry : get_member(*answer, "routes"))
    probed.routes.push_back(route_of(entry, limit, prefix));
  return probed;
}

void add_note(Limit& limit, const std::string& note) {
  limit.note += (limit.note.empty() ? "" : "; ") + note;
}

}  // namespace

const std::string& device_of(const ModelSpec& model, const BenchOptions& options) {
  return model.device.empty() ? options.device : model.device;
}

std::vector<unsigned> cuda_devices(const BenchOptions& options) {
  std::vector<std::string> names;
  for (const ModelSpec& model : options.models) names.push_back(device_of(model, options));
  return cuda_ordinals(names);
}

Result<std::optional<trace::DeviceAccount>> open_device_account(const BenchOptions& options) {
  std::optional<trace::DeviceAccount> account;
  if (cuda_devices(options).empty()) return account;
  ledger::Limits limits;
  if (!options.gpu_memory_limit.empty()) {
    auto parsed = trace::parse_device_limits(options.gpu_memory_limit);
    if (!parsed) return forward_error(parsed);
    limits = *parsed;
    if (auto there = trace::check_library(trace::gpu_tracer_library()); !there) return forward_error(there);
  }
  auto opened = trace::DeviceAccount::open(limits, "");
  if (!opened && limits.any()) return forward_error(opened);
  if (!opened) {  // each worker then has its own account, and there is no joint peak
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
  std::vector<unsigned> limited;
  for (const unsigned device : devices)
    if (limits.bytes[device] != ledger::kNoLimit) limited.push_back(device);
  if (limited.empty()) {
    limit.note = "no model runs on a device that has a limit";
    return limit;
  }
  limit.bytes = Bytes{static_cast<std::int64_t>(limits.bytes[limited.front()])};
  bool every_device_refuses = true;
  std::int64_t devices_there = ledger::kMaxDevices;
  for (const unsigned device : limited) {
    if (device >= devices_there) break;  // a limit for all devices includes devices that do not exist
    const std::string name = fmt::format("cuda:{}", device);
    const Bytes its_limit{static_cast<std::int64_t>(limits.bytes[device])};
    if (its_limit != limit.bytes) add_note(limit, fmt::format("{} has {}", name, format_bytes(its_limit)));
    auto probed = probe_device(device, std::min(its_limit, kProbeLimit), limited.size() > 1, interrupt);
    if (!probed) {
      add_note(limit, probed.error().sentence());
      every_device_refuses = false;
      if (device == limited.front()) break;  // no driver: the next device would fail, too
      continue;
    }
    devices_there = probed->devices;
    every_device_refuses = every_device_refuses &&
                           std::any_of(probed->routes.begin(), probed->routes.end(),
                                       [](const LimitRoute& route) { return route.outcome == "refused"; });
    limit.routes.insert(limit.routes.end(), probed->routes.begin(), probed->routes.end());
  }
  const auto any_route_is = [&](std::string_view outcome) {
    return std::any_of(limit.routes.begin(), limit.routes.end(),
                       [&](const LimitRoute& route) { return route.outcome == outcome; });
  };
  if (any_route_is("refused"))
    limit.type = any_route_is("escaped") || !every_device_refuses ? LimitType::soft : LimitType::hard;
  return limit;
}

namespace {

// Replaces advice that only `headroom bench` can follow.
std::string advice_for_commands(std::string note) {
  constexpr std::string_view kRemoveLimit = "remove --gpu-limit";
  for (std::size_t at = 0; (at = note.find(cuda::kUseCpu, at)) != note.npos; at += kRemoveLimit.size())
    note.replace(at, cuda::kUseCpu.size(), kRemoveLimit);
  return note;
}

}  // namespace

Result<ProvedGpuLimit> prove_gpu_limit(const ledger::Limits& limits, bool allow_no_gpu) {
  const SavedSignalMask mask;  // Interrupt::listen() changes it
  auto interrupt = Interrupt::listen();
  if (!interrupt) return forward_error(interrupt);
  std::vector<unsigned> devices;
  for (unsigned device = 0; device < ledger::kMaxDevices; ++device)
    if (limits.bytes[device] != ledger::kNoLimit) devices.push_back(device);
  ProvedGpuLimit proved{probe_gpu_limit(limits, devices, *interrupt)};
  proved.limit.note = advice_for_commands(std::move(proved.limit.note));
  if (interrupt->requested()) {
    proved.interrupted_by = interrupt->signal_number();
    return proved;
  }
  // A probe that no driver answered has no routes.
  const bool is_enforced = proved.limit.type != LimitType::unavailable || !proved.limit.routes.empty();
  if (!is_enforced && !allow_no_gpu)
    return usage_error("cannot enforce the GPU memory limit", proved.limit.note,
                       "add --allow-no-gpu to run the command without the limit");
  return proved;
}

std::string describe_routes(const Limit& proved) {
  std::size_t refused = 0;
  std::string others;
  std::map<std::string, std::size_t> by_device;  // refused routes by device ("cuda:1"), if there are several
  for (const LimitRoute& route : proved.routes) {
    if (route.outcome == "refused") {
      ++refused;
      ++by_device[route.name.starts_with("cuda:") ? route.name.substr(0, route.name.find(' ')) : ""];
    }
    if (route.outcome == "escaped") others += fmt::format("{}{}", others.empty() ? "" : ", ", route.name);
  }
  if (!others.empty()) return fmt::format("{} routes were refused, but not {}", refused, others);
  const std::size_t on_first = by_device.empty() ? 0 : by_device.begin()->second;
  const bool are_alike = std::all_of(by_device.begin(), by_device.end(),
                                     [&](const auto& device) { return device.second == on_first; });
  if (by_device.size() > 1 && are_alike)
    return fmt::format("all {} routes that were tried were refused on each of {} GPUs", on_first,
                       by_device.size());
  return fmt::format("all {} routes that were tried were refused", refused);
}

std::string describe_use(const trace::DeviceAccount& account) {
  std::string text;
  bool is_limited_used = false;
  const auto amount = [](std::uint64_t bytes) {
    return format_bytes(Bytes{static_cast<std::int64_t>(bytes)});
  };
  for (unsigned device = 0; device < ledger::kMaxDevices; ++device) {
    const std::uint64_t limit = account.limits().bytes[device], peak = account.peak(device);
    const auto refused = static_cast<std::int64_t>(account.refused(device));
    if (peak == 0 && refused == 0) continue;
    is_limited_used = is_limited_used || limit != ledger::kNoLimit;
    text += fmt::format("{}GPU {} peak {}", text.empty() ? "" : "; ", device, amount(peak));
    text += limit == ledger::kNoLimit ? ", without a limit" : " of " + amount(limit);
    if (refused > 0) text += fmt::format(", {} refused", report::counted(refused, "request"));
  }
  if (!text.empty() && !is_limited_used) text = "no GPU with a limit was used; " + text;
  if (!text.empty() && !account.name().empty())
    text += fmt::format(", for all commands of --share {} together", account.name());
  return text;
}

LimitType type_after(const Limit& proved, const trace::DeviceAccount& account) {
  const bool was_passed = !account.has_kept_limits() || account.unhooked_drivers() > 0;
  return was_passed && proved.type == LimitType::hard ? LimitType::soft : proved.type;
}

std::string describe_escapes(const trace::DeviceAccount& account) {
  std::string text;
  if (!account.has_kept_limits()) text += "; at times, usage exceeded the limit";
  if (account.unhooked_drivers() > 0)
    text += fmt::format(
        "; {} loaded with dlmopen, which the limit cannot intercept, so more may have been allocated",
        report::counted(account.unhooked_drivers(), "driver"));
  return text;
}

int run_gpu_probe_process() { return serve_helper(probe); }

bool is_tegra(const std::filesystem::path& root) {
  // Strings that end with a zero byte each: "nvidia,p3768-0000+p3767-0005", "nvidia,tegra234".
  const auto compatible = read_small_file(root / "proc/device-tree/compatible");
  return compatible && compatible->find("nvidia,tegra") != std::string::npos;
}

bool has_unified_memory(const std::vector<unsigned>& ordinals) {
  if (is_tegra()) return true;
  const auto devices = cuda::visible_devices();
  if (ordinals.empty())
    return std::any_of(devices.begin(), devices.end(),
                       [](const auto& device) { return device.is_integrated; });
  return std::any_of(ordinals.begin(), ordinals.end(), [&](unsigned ordinal) {
    return ordinal < devices.size() && devices[ordinal].is_integrated;
  });
}

Result<Limit> prove_memory_limit(Bytes bytes, std::string_view forced_mechanism) {
  auto limit = limits::probe_limit(bytes, forced_mechanism);
  if (limit && has_unified_memory()) limits::note_unproved_cuda_memory(*limit);
  return limit;
}

}  // namespace headroom::bench
