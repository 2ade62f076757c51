#include "cuda/device_uuids.h"

#include <chrono>
#include <thread>

#include "base/subprocess.h"
#include "support/test_support.h"

namespace headroom::cuda {
namespace {

constexpr Nanoseconds kLong{30'000'000'000};

Uuid uuid_of(int number) {
  Uuid uuid{};
  uuid[0] = static_cast<std::uint8_t>(number);
  return uuid;
}

void write_uuid(const Pipe& pipe, int number) {
  const Uuid uuid = uuid_of(number);
  const std::string bytes(uuid.begin(), uuid.end());
  EXPECT_TRUE(write_all(pipe.write_end.get(), bytes));
}

TEST(DeviceUuids, AllThatAreWrittenUntilTheEnd) {
  auto pipe = Pipe::create();
  ASSERT_TRUE(pipe);
  write_uuid(*pipe, 1);
  write_uuid(*pipe, 2);
  pipe->write_end.reset();
  EXPECT_THAT(read_uuids(pipe->read_end.get(), kLong), testing::ElementsAre(uuid_of(1), uuid_of(2)));
}

// A driver that tells a device now and then has no more time for all of them than for one.
TEST(DeviceUuids, ThePatienceIsForTheWholeAnswer) {
  auto pipe = Pipe::create();
  ASSERT_TRUE(pipe);
  std::jthread driver([&pipe] {
    for (int number = 0; number < 30; ++number) {
      write_uuid(*pipe, number);
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    pipe->write_end.reset();
  });
  EXPECT_THAT(read_uuids(pipe->read_end.get(), Nanoseconds{300'000'000}), testing::IsEmpty());
}

}  // namespace
}  // namespace headroom::cuda
