// Reads what a budget is of every 5 ms, on a thread of its own.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "base/units.h"

namespace headroom::bench {

class BudgetWatch {
 public:
  BudgetWatch(std::function<std::optional<Bytes>()> read, Bytes budget);
  BudgetWatch(const BudgetWatch&) = delete;
  ~BudgetWatch();
  struct Seen {
    std::int64_t samples = 0, over = 0;
    Bytes peak;
  };
  Seen seen();

 private:
  void run();

  std::function<std::optional<Bytes>()> read_;
  Bytes budget_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopped_ = false;
  Seen seen_;
  std::thread thread_;  // last: it uses what stands above
};

}  // namespace headroom::bench
