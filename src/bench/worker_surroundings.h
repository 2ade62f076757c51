// What the processes that measure are started in, so that two runs of one thing take the same memory.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace headroom::bench {

// While it lives, programs that this thread starts, and threads that it begins from now on, have their memory
// at the same addresses in each run (ADDR_NO_RANDOMIZE). At random ones the same run of the same model takes
// a different number of pages each time: now and then 2 MiB more that the heap cannot give back, where at
// fixed ones it is the same to the byte (bench/results/diff_power.md). Where the system does not let one, as
// Docker's default seccomp profile, nothing changes, and the worker tells so.
class FixedAddresses {
 public:
  explicit FixedAddresses(bool wanted);
  ~FixedAddresses();
  FixedAddresses(const FixedAddresses&) = delete;
  FixedAddresses& operator=(const FixedAddresses&) = delete;

 private:
  std::optional<unsigned long> before_;
};

// Of this process: whether it was started so.
bool has_fixed_addresses();

// Added to the environment of a process that loads models: what keeps runtimes from collecting usage data.
// ONNX Runtime's telemetry costs 3 MiB and a thread, keeps a database in the user's cache and leaves a log in
// /tmp at each start (bench/results/onnxruntime_telemetry.md). Empty where the user has set the variable, to
// whatever.
std::vector<std::pair<std::string, std::string>> telemetry_off();
// Of this process: whether ONNX Runtime's telemetry is left on.
bool allows_telemetry();

}  // namespace headroom::bench
