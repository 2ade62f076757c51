#include "bench/worker/pool_journal.h"

#include <gmock/gmock.h>

#include <thread>

namespace headroom::bench {
namespace {

pool::Event event(pool::EventKind kind, const char* models) {
  pool::Event made;
  made.kind = kind;
  made.model = models;
  made.took = {7'000'000};
  return made;
}

// The pool counts a load before it reports it, and a thread that waited for the load continues in between.
TEST(PoolJournal, WaitsForEventsThatThePoolHasCounted) {
  PoolJournal journal(std::nullopt);
  std::thread pool([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    journal.add(event(pool::EventKind::loaded, "a"));
    journal.add(event(pool::EventKind::unloaded, "a, b"));
  });
  constexpr Nanoseconds kLong{60'000'000'000};
  journal.wait_for(1, 2, kLong);
  const PoolLoads a = journal.take("a"), b = journal.take("b");
  EXPECT_THAT(a.took_ns, testing::ElementsAre(7'000'000));
  EXPECT_EQ(a.unloads, 1);
  EXPECT_EQ(b.unloads, 1);
  pool.join();
  journal.wait_for(9, 0, {1'000'000});  // an event that never arrives must not block forever
}

}  // namespace
}  // namespace headroom::bench
