// A thread that samples memory every 5 ms and counts the samples over a budget.
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
  struct Counts {
    std::int64_t samples = 0, over = 0;
    Bytes peak;
  };
  Counts counts();

 private:
  void run();

  std::function<std::optional<Bytes>()> read_;
  Bytes budget_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopped_ = false;
  Counts counts_;
  std::thread thread_;  // last, because it uses the members above
};

}  // namespace headroom::bench
