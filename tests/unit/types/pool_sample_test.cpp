#include "types/pool_sample.h"

#include <gtest/gtest.h>

namespace headroom {
namespace {

PoolSample some_pool() {
  PoolSample pool;
  pool.name = "vision-1";
  pool.pid = 4711;
  pool.device = "cuda:0";
  std::int64_t next = 1;
  for (Bytes* bytes : {&pool.budget, &pool.used, &pool.resident, &pool.loading, &pool.unaccounted,
                       &pool.stuck, &pool.measured})
    *bytes = mebibytes(next++);
  for (std::int64_t* count : {&pool.requests, &pool.hits, &pool.waits, &pool.refusals, &pool.loads,
                              &pool.load_failures, &pool.evictions})
    *count = next++;
  pool.load_time = {next++};
  pool.wait_time = {next++};
  return pool;
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(PoolStatus, RoundTrips) {
  const std::string text = pool_status_text(some_pool(), 99, 7);
  EXPECT_EQ(text.size(), kPoolStatusSize);
  const auto back = parse_pool_status(text);
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->pool, some_pool());
  EXPECT_EQ(back->start_ticks, 99);
}

TEST(PoolStatus, LargestStatusFitsItsFile) {
  PoolSample pool = some_pool();
  pool.name = std::string(48, 'n');
  const std::int64_t most = (std::int64_t{1} << 56) - 1;
  for (Bytes* bytes : {&pool.budget, &pool.used, &pool.resident, &pool.loading, &pool.unaccounted,
                       &pool.stuck, &pool.measured})
    *bytes = {most};
  for (std::int64_t* count : {&pool.pid, &pool.requests, &pool.hits, &pool.waits, &pool.refusals, &pool.loads,
                              &pool.load_failures, &pool.evictions})
    *count = most;
  pool.load_time = pool.wait_time = {most};
  const auto back = parse_pool_status(pool_status_text(pool, most, most));
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->pool, pool);
}

TEST(PoolStatus, RejectsInvalidStatusTexts) {
  const std::string text = pool_status_text(some_pool(), 99, 7);
  EXPECT_FALSE(parse_pool_status(""));
  EXPECT_FALSE(parse_pool_status("headroom-pool 1 "));
  EXPECT_FALSE(parse_pool_status(text.substr(0, 200))) << "half of it";
  EXPECT_FALSE(parse_pool_status(replaced(text, "end 7", "end 8"))) << "read while it was written";
  EXPECT_FALSE(parse_pool_status(replaced(text, "name vision-1", "name ../etc")));
  EXPECT_FALSE(parse_pool_status(replaced(text, "used_bytes 2097152", "used_bytes -1")));
  EXPECT_FALSE(parse_pool_status(replaced(text, "used_bytes 2097152", "used_bytes 99999999999999999999")));
  EXPECT_FALSE(parse_pool_status(replaced(text, "used_bytes 2097152", "used_words 1")));
  EXPECT_FALSE(parse_pool_status(replaced(text, "pid 4711", "pid 0")));
}

TEST(PoolStatus, ChecksPoolNames) {
  EXPECT_TRUE(is_pool_name("front_camera-2"));
  EXPECT_FALSE(is_pool_name(""));
  EXPECT_FALSE(is_pool_name("a b"));
  EXPECT_FALSE(is_pool_name("a/b"));
  EXPECT_FALSE(is_pool_name(std::string(49, 'a')));
}

}  // namespace
}  // namespace headroom
