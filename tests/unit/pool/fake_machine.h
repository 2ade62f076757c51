// A machine whose memory is a number, and models that take of it: what a pool does can be held to what it was
// to do, to the byte.
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

  PoolOptions options() {
    PoolOptions options;
    options.budget = budget_;
    options.margin = Bytes{};
    options.meter.read = [this] { return used(); };
    options.patience = {1'000'000};
    return options;
  }

 private:
  Bytes budget_;
  std::atomic<std::int64_t> used_ = 0, peak_ = 0;
};

// What a load gives: memory of the machine for as long as it lives, and a check that one thread has it.
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

// A door that a load can be held at.
class Door {
 public:
  void wait_open() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return is_open_; });
  }
  void wait_for_someone() {
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
  Bytes leaks{};      // stays when it is freed
  int most_sessions = 1;
  Bytes further{};  // of a session beside another; 0: as the first
  Door* door = nullptr;
  std::atomic<bool>* fails = nullptr;
};

inline Model model_of(FakeMachine& machine, const FakeModel& fake) {
  Model model;
  model.name = fake.name;
  const Bytes peak = std::max(fake.load_peak, fake.resident);
  model.memory = {peak, fake.resident, {}};
  if (fake.further.count > 0) model.next_session = {fake.further, fake.further, {}};
  model.most_sessions = fake.most_sessions;
  model.load = [&machine, fake, peak](const std::shared_ptr<void>& sibling) -> Result<std::shared_ptr<void>> {
    if (fake.door != nullptr) fake.door->wait_open();
    if (fake.fails != nullptr && *fake.fails) return failure("cannot load " + fake.name, "it is broken");
    const bool is_further = sibling != nullptr && fake.further.count > 0;
    const Bytes size = is_further ? fake.further : fake.resident;
    machine.take(is_further ? size : peak);
    machine.give(is_further ? size : peak);
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

inline FakeSession& session_of(const Lease& lease) { return *static_cast<FakeSession*>(lease.session()); }

}  // namespace headroom::pool::test
