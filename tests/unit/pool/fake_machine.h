// A fake machine whose memory is a number, and models that allocate from it. Tests can check the pool
// exactly to the byte.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>

#include "pool/pool.h"

namespace headroom::pool::test {

class FakeMachine {
 public:
  explicit FakeMachine(Bytes budget = mebibytes(100), Bytes baseline = {}) : budget_(budget) {
    take(baseline);
  }

  void take(Bytes bytes) {
    const std::int64_t now = used_ += bytes.count;
    std::int64_t peak = peak_;
    while (now > peak && !peak_.compare_exchange_weak(peak, now)) {
    }
  }
  void give(Bytes bytes) { used_ -= bytes.count; }
  Bytes used() const { return {used_}; }
  Bytes peak() const { return {peak_}; }

  // The options of a pool for this machine. What `given` leaves unset has the default of these tests.
  PoolOptions options(PoolOptions given = {.patience = {1'000'000}}) {
    given.budget = budget_;
    given.margin = given.margin.value_or(Bytes{});
    if (!given.meter.read) given.meter.read = [this] { return used(); };
    return given;
  }

 private:
  Bytes budget_;
  std::atomic<std::int64_t> used_ = 0, peak_ = 0;
};

// A loaded fake session: holds the machine's memory while it lives, and counts its users.
struct FakeSession {
  FakeMachine& machine;
  Bytes size, leaked;
  std::atomic<int> users = 0;
  bool has_sibling = false;
  FakeSession(FakeMachine& of, Bytes bytes, Bytes leak) : machine(of), size(bytes), leaked(leak) {
    machine.take(size);
  }
  ~FakeSession() { machine.give(size - leaked); }
};

// A gate that blocks a load until the test opens it.
class Gate {
 public:
  void wait_open() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return is_open_; });
  }
  void wait_for_waiter() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return waiting_ > 0; });
  }
  void open() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int waiting_ = 0;
  bool is_open_ = false;
};

struct FakeModel {
  std::string name;
  Bytes resident = mebibytes(10);
  Bytes load_peak{};  // 0: resident
  Bytes leaks{};      // not freed with the session
  int most_sessions = 1;
  Bytes additional{};  // size of an additional session, which the pool has to learn; 0: as the first
  Gate* gate = nullptr;
  std::atomic<bool>* fails = nullptr;
};

inline Model model_of(FakeMachine& machine, const FakeModel& fake) {
  Model model;
  model.name = fake.name;
  const Bytes peak = std::max(fake.load_peak, fake.resident);
  model.memory = {peak, fake.resident, {}};
  model.most_sessions = fake.most_sessions;
  model.load = [&machine, fake, peak](const std::shared_ptr<void>& sibling) -> Result<std::shared_ptr<void>> {
    if (fake.gate != nullptr) fake.gate->wait_open();
    if (fake.fails != nullptr && *fake.fails) return failure("cannot load " + fake.name, "it is broken");
    const bool is_additional = sibling != nullptr && fake.additional.count > 0;
    const Bytes size = is_additional ? fake.additional : fake.resident;
    machine.take(is_additional ? size : peak);
    machine.give(is_additional ? size : peak);
    auto made = std::make_shared<FakeSession>(machine, size, fake.leaks);
    made->has_sibling = sibling != nullptr;
    return std::shared_ptr<void>(std::move(made));
  };
  return model;
}

inline void add(Pool& pool, FakeMachine& machine, const FakeModel& fake) {
  const auto added = pool.add(model_of(machine, fake));
  ASSERT_TRUE(added) << added.error().sentence();
}

// A pool of 100 MiB with the default options of these tests.
class SmallPool : public ::testing::Test {
 protected:
  void add(const FakeModel& fake) { test::add(pool_, machine_, fake); }

  FakeMachine machine_;
  Pool pool_{machine_.options()};
};

inline FakeSession& session_of(const Lease& lease) { return *static_cast<FakeSession*>(lease.session()); }

}  // namespace headroom::pool::test
