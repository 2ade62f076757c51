// Model pools that publish their metrics, in a file tree that replaces the machine's.
#include <sys/stat.h>

#include "sources/metric_source.h"
#include "sources_test_support.h"

namespace headroom::sources {
namespace {

PoolSample pool_of(const std::string& name, std::int64_t pid, std::int64_t used) {
  PoolSample pool;
  pool.name = name;
  pool.pid = pid;
  pool.device = "cpu";
  pool.budget = mebibytes(64);
  pool.used = {used};
  return pool;
}

class PoolSource : public ::testing::Test {
 protected:
  void process(std::int64_t pid, std::int64_t start_ticks) const {
    std::string stat = std::to_string(pid) + " (a (odd) name) S";
    for (int field = 4; field < 22; ++field) stat += " 0";
    tree_.file("proc/" + std::to_string(pid) + "/stat", stat + " " + std::to_string(start_ticks) + " 0\n");
  }
  void status(const PoolSample& pool, std::int64_t start_ticks, const std::string& file = "") const {
    const std::string name = "headroom-pool." + std::to_string(pool.pid) + "." + pool.name;
    tree_.file("dev/shm/" + (file.empty() ? name : file), pool_status_text(pool, start_ticks, ++sequence_));
  }
  static std::vector<PoolSample> read(MetricSource& source) {
    SystemSample sample;
    EXPECT_TRUE(source.read(sample));
    return sample.pools;
  }
  Tree tree_;
  mutable std::int64_t sequence_ = 0;
};

TEST_F(PoolSource, AppearsWithTheFirstPool) {
  EXPECT_EQ(make_pool_source(tree_.root()), nullptr);
  tree_.file("dev/shm/other", "x");
  EXPECT_EQ(make_pool_source(tree_.root()), nullptr);
  process(17, 5);
  status(pool_of("vision", 17, 100), 5);
  const auto source = make_pool_source(tree_.root());
  ASSERT_NE(source, nullptr);
  EXPECT_EQ(read(*source), (std::vector<PoolSample>{pool_of("vision", 17, 100)}));
  status(pool_of("vision", 17, 200), 5);
  EXPECT_EQ(read(*source)[0].used.count, 200);
  tree_.file("dev/shm/headroom-pool.17.vision", "half of a te");
  EXPECT_EQ(read(*source)[0].used.count, 200) << "the last complete content";
}

TEST_F(PoolSource, IgnoresInvalidFiles) {
  process(17, 5);
  status(pool_of("vision", 17, 1), 6);                           // another process has this pid now
  status(pool_of("gone", 18, 1), 5);                             // its process has ended
  status(pool_of("twice", 17, 1), 5, "headroom-pool.17.other");  // the file name does not match the content
  tree_.file("dev/shm/headroom-pool.17.noise", std::string(5000, 'x'));
  ASSERT_EQ(::mkfifo((tree_.root() / "dev/shm/headroom-pool.17.fifo").c_str(), 0600), 0);
  std::filesystem::create_symlink("/etc/passwd", tree_.root() / "dev/shm/headroom-pool.17.link");
  EXPECT_EQ(make_pool_source(tree_.root()), nullptr);
}

}  // namespace
}  // namespace headroom::sources
