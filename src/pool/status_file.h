// A pool's figures where `headroom watch` and `headroom serve` find them (model/pool_sample.h).
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
#include "model/pool_sample.h"

namespace headroom::pool {

// Written four times a second by a thread of its own, and gone with this object.
class StatusFile {
 public:
  // `read` gives the figures of now; name, pid and device are filled in. An error where the file cannot be
  // made, or a pool of this process has that name.
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
  std::thread thread_;  // last: it uses what stands above
};

}  // namespace headroom::pool
