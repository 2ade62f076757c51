// The GPU memory limit of a bench run: the account that its workers share, and the probe that proves it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "bench/conductor/child_process.h"
#include "trace/device_account.h"
#include "types/bench_options.h"
#include "types/limit.h"

namespace headroom::bench {

// The device of a model, or the default device of the run.
const std::string& device_of(const ModelSpec& model, const BenchOptions& options);
// The CUDA devices of the run's models, without duplicates.
std::vector<unsigned> cuda_devices(const BenchOptions& options);

// Opens the account that this process's workers join, with or without a limit. Absent if no model runs on a
// GPU. Errors: there is a limit but no preload library, or /dev/shm cannot be used.
Result<std::optional<trace::DeviceAccount>> open_device_account(const BenchOptions& options);

// Proves the limit. For each limited device, a child under the same mechanism with a small limit tries every
// route to allocate memory. Hard: no route escaped, and each device refused at least one route. Soft: a route
// escaped, or a device refused none or could not be probed. Unavailable: no route was refused on any device.
// The note gives the reason for a device that could not be probed. Never fails.
Limit probe_gpu_limit(const ledger::Limits& limits, const std::vector<unsigned>& devices,
                      Interrupt& interrupt);

// Proves the limit of every limited device before a command starts. During the proof, Ctrl-C and other
// signals go to Headroom; later they go to the command. Error: no device could be probed, for example because
// the driver is missing, and `allow_no_gpu` is false. The command would run without a limit.
struct ProvedGpuLimit {
  Limit limit;
  int interrupted_by = 0;  // the signal that ended the proof
};
Result<ProvedGpuLimit> prove_gpu_limit(const ledger::Limits& limits, bool allow_no_gpu);
// "all 11 routes that were tried were refused", or the names of the routes that were not.
std::string describe_routes(const Limit& proved);

// "GPU 0 peak 96.0 MiB of 100.0 MiB, 2 requests refused", for each device that was used, with or without a
// limit. Empty if none was used.
std::string describe_use(const trace::DeviceAccount& account);
// The limit type after the command has run. A hard limit becomes soft if it was exceeded, or if a driver was
// loaded where the preload library cannot intercept it.
LimitType type_after(const Limit& proved, const trace::DeviceAccount& account);
// The reason for a limit type that type_after() lowered, after a semicolon. Empty if there is none.
std::string describe_escapes(const trace::DeviceAccount& account);

// True if the device tree names a Tegra chip, as on every Jetson.
bool is_tegra(const std::filesystem::path& root = "/");

// True if one of these CUDA devices shares the machine's memory; with an empty list, if any visible device
// does. A Jetson is known by its device tree. Elsewhere the CUDA driver is asked, in a child process.
bool has_unified_memory(const std::vector<unsigned>& ordinals = {});

// Calls limits::probe_limit(). On unified memory, adds a note that the probe does not prove that CUDA memory
// is charged.
Result<Limit> prove_memory_limit(Bytes bytes, std::string_view forced_mechanism);

}  // namespace headroom::bench
