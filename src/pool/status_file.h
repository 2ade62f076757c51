// Publishes a pool's metrics in a file that `headroom watch` and `headroom serve` read
// (model/pool_sample.h).
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/files.h"
#include "base/result.h"
#include "types/pool_sample.h"

namespace headroom::pool {

// A thread of this object writes the file four times a second. The destructor deletes it.
class StatusFile {
 public:
  // `read` returns the current metrics; this class adds name, pid and device. Fails if the file cannot be
  // created or another pool of this process has the name.
  static Result<std::unique_ptr<StatusFile>> open(const std::string& name, const std::string& device,
                                                  std::function<PoolSample()> read);
  ~StatusFile();
  StatusFile(const StatusFile&) = delete;

 private:
  StatusFile(std::string path, UniqueFd fd, PoolSample kept, std::function<PoolSample()> read);
  void run();
  void write();

  std::string path_;
  UniqueFd fd_;
  PoolSample kept_;  // name, pid, device
  std::function<PoolSample()> read_;
  std::int64_t start_ticks_ = 0, sequence_ = 0;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopped_ = false;
  std::thread thread_;  // declared last: it uses the members above
};

}  // namespace headroom::pool
