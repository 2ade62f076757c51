// The limit on GPU memory of a bench run: the account that its workers share, and the probe that proves it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/interrupt.h"
#include "model/bench_options.h"
#include "model/limit.h"
#include "trace/device_account.h"

namespace headroom::bench {

// The device of a model: its own, else that of all.
const std::string& device_of(const ModelSpec& model, const BenchOptions& options);
// The CUDA devices that the run's models use, each once.
std::vector<unsigned> cuda_devices(const BenchOptions& options);

// The account that this process' workers join, with --gpu-mem-limit or without a limit; absent if no model
// runs on a GPU. Errors: the preload library is absent though there is a limit, or /dev/shm cannot be used.
Result<std::optional<trace::DeviceAccount>> open_device_account(const BenchOptions& options);

// Tries, in children under the same mechanism with a small limit, every way to take memory of each of the
// devices that has a limit. Hard: each refuses. A device that cannot be probed is no proof: the limit is then
// soft, or unavailable if there is no other, with the reason; never an error.
Limit probe_gpu_limit(const ledger::Limits& limits, const std::vector<unsigned>& devices,
                      Interrupt& interrupt);

// The same for every device that has a limit, before a command is started: while it is proved, Ctrl-C and the
// like are Headroom's, and later the command's.
struct ProvedGpuLimit {
  Limit limit;
  int interrupted_by = 0;  // the signal that ended the proof
};
Result<ProvedGpuLimit> prove_gpu_limit(const ledger::Limits& limits);
// "all 11 routes that were tried were refused", or which were not.
std::string words_for_routes(const Limit& proved);

// "GPU 0 peak 96.0 MiB of 100.0 MiB, 2 requests refused", of the devices that were used; those that have no
// limit are told, too. Empty: none was.
std::string words_for_use(const trace::DeviceAccount& account);
// What the probe proved is worth no more than what the command did: a limit that was passed, or that a driver
// was loaded out of reach of, is soft.
LimitType type_after(const Limit& proved, const trace::DeviceAccount& account);
// Why it is, behind a semicolon.
std::string words_for_escapes(const trace::DeviceAccount& account);

// The child (hidden verb _gpu_probe); returns the exit code.
int run_gpu_probe_process();

}  // namespace headroom::bench
