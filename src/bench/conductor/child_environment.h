// The environment of the processes that measure, so that two runs of the same model use the same memory.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace headroom::bench {

// While an object exists, programs that this thread starts, and new threads, have their memory at the same
// addresses in each run (ADDR_NO_RANDOMIZE). At random addresses, the same run uses a different number of
// pages each time: now and then 2 MiB more that the heap cannot return. At fixed addresses it is the same to
// the byte (benchmarks/results/diff_power.md). If the system forbids it, as Docker's default seccomp profile
// does, nothing changes, and the worker reports that.
class FixedAddresses {
 public:
  explicit FixedAddresses(bool wanted);
  ~FixedAddresses();
  FixedAddresses(const FixedAddresses&) = delete;
  FixedAddresses& operator=(const FixedAddresses&) = delete;

 private:
  std::optional<unsigned long> before_;
};

// Whether this process has fixed addresses.
bool has_fixed_addresses();

// Environment variables for processes that load models: they stop runtimes from collecting usage data. ONNX
// Runtime's telemetry costs 3 MiB and a thread (benchmarks/results/onnxruntime_telemetry.md). It keeps a
// database in the user's cache and leaves a log in /tmp at each start. Empty if the user has set the
// variable, to any value.
std::vector<std::pair<std::string, std::string>> variables_without_telemetry();
// Whether ONNX Runtime's telemetry is left on in this process.
bool allows_telemetry();

}  // namespace headroom::bench
