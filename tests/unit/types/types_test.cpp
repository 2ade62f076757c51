#include <gtest/gtest.h>

#include "types/device_name.h"
#include "types/runtime_settings.h"
#include "types/sample.h"
#include "types/tensor.h"

namespace headroom {
namespace {

TEST(TensorSpec, DescribesStaticAndNamedDimensions) {
  TensorSpec spec{"images", ElementType::float32, {1, 3, -1, 640, -1}, {"", "", "height", "", ""}};
  EXPECT_EQ(spec.describe(), "float32[1,3,height,640,?]");
  EXPECT_FALSE(spec.is_static());
  const TensorSpec scalar{"sr", ElementType::int64, {}, {}};
  EXPECT_TRUE(scalar.is_static());
  EXPECT_EQ(scalar.describe(), "int64[]");
}

TEST(ElementCount, IsZeroForDynamicAndForOverflow) {
  EXPECT_EQ(element_count({1, -1, 3}), 0);
  EXPECT_EQ(element_count({1LL << 40, 1LL << 40}), 0);
  EXPECT_EQ(element_count({2, 3, 4}), 24);
  EXPECT_EQ(element_count({}), 1);
}

TEST(ElementType, EveryTypeHasANameAndASize) {
  for (int i = 1; i <= 13; ++i) {
    const auto type = static_cast<ElementType>(i);
    EXPECT_NE(name_of(type), "unknown") << i;
    EXPECT_GT(size_of(type), 0U) << i;
  }
  EXPECT_EQ(size_of(ElementType::string), 0U);
}

TEST(RuntimeSettings, SetsEachSettingByName) {
  RuntimeSettings wanted;
  wanted.threads = 2;
  wanted.arena = false;
  wanted.arena_extend = ArenaExtend::same_as_requested;
  wanted.memory_pattern = false;
  wanted.prepacking = false;
  wanted.graph_level = 1;
  wanted.spinning = false;
  wanted.mapped = true;
  wanted.conv_search = ConvSearch::heuristic;
  wanted.conv_small_workspace = true;
  wanted.device_graph = true;
  const std::string words = changed_settings({}, wanted);
  EXPECT_EQ(
      words,
      "threads=2,arena=off,extend=same_as_requested,pattern=off,prepack=off,graph=1,spinning=off,mapped=on,"
      "convolutions=heuristic,workspace=small,capture=on");
  RuntimeSettings read;
  EXPECT_TRUE(set_settings(read, words));
  EXPECT_EQ(read, wanted);
  EXPECT_TRUE(set_settings(read, changed_settings(wanted, {})));
  EXPECT_EQ(read, RuntimeSettings{});
  EXPECT_EQ(changed_settings(wanted, wanted), "");
}

TEST(RuntimeSettings, RejectsUnknownNamesAndValues) {
  RuntimeSettings settings;
  for (const char* words : {"arena", "arena=maybe", "arenas=off", "graph=3", "threads=-1", "threads=100000",
                            "extend=twice", "workspace=1GiB", ",", "arena=off,"})
    EXPECT_FALSE(set_settings(settings, words)) << words;
  EXPECT_TRUE(set_settings(settings, ""));
}

TEST(DeviceName, ParsesUserInput) {
  EXPECT_EQ(parse_device_name("cpu"), (DeviceName{false, 0}));
  EXPECT_EQ(parse_device_name("cuda"), (DeviceName{true, 0}));
  EXPECT_EQ(parse_device_name("cuda:0"), (DeviceName{true, 0}));
  EXPECT_EQ(parse_device_name("cuda:63"), (DeviceName{true, 63}));
  for (const char* name : {"cpu", "cuda:0", "cuda:12"}) EXPECT_EQ(parse_device_name(name)->text(), name);
  for (const char* wrong : {"", "gpu", "CPU", "cuda:", "cuda:64", "cuda:-1", "cuda:+1", "cuda: 1", "cuda:0x1",
                            "cuda:1 ", "cuda:99999999999999999999", "cuda1", "cpu:0"})
    EXPECT_FALSE(parse_device_name(wrong)) << wrong;
}

TEST(DeviceName, ListsEachOrdinalOnce) {
  EXPECT_EQ(cuda_ordinals({"cuda:2", "cpu", "cuda:0", "cuda:2"}), (std::vector<unsigned>{2, 0}));
  EXPECT_TRUE(cuda_ordinals({"cpu"}).empty());
}

TEST(DeviceName, FormatsUuidsAsNvidiaDoes) {
  const std::uint8_t uuid[16] = {0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde, 0xf0,
                                 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0xff};
  EXPECT_EQ(gpu_uuid_text(uuid), "GPU-12345678-9abc-def0-0102-0304050607ff");
  EXPECT_EQ(gpu_uuid_text(uuid, true), "MIG-12345678-9abc-def0-0102-0304050607ff");
}

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
  for (const std::string& wrong : {std::string(), std::string("headroom-pool 1 "), text.substr(0, 200)})
    EXPECT_FALSE(parse_pool_status(wrong)) << wrong;
  for (const auto& [from, to] : {std::pair{"end 7", "end 8"},  // read while it was written
                                 {"name vision-1", "name ../etc"},
                                 {"used_bytes 2097152", "used_bytes -1"},
                                 {"used_bytes 2097152", "used_bytes 99999999999999999999"},
                                 {"used_bytes 2097152", "used_words 1"},
                                 {"pid 4711", "pid 0"}})
    EXPECT_FALSE(parse_pool_status(replaced(text, from, to))) << to;
  for (const std::string& name :
       {std::string(), std::string("a b"), std::string("a/b"), std::string(49, 'a')})
    EXPECT_FALSE(is_pool_name(name)) << name;
}

}  // namespace
}  // namespace headroom
