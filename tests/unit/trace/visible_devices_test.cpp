#include "cuda/visible_devices.h"

#include <chrono>
#include <thread>

#include "base/subprocess.h"
#include "support/test_support.h"

namespace headroom::cuda {
namespace {

constexpr Nanoseconds kLong{30'000'000'000};

VisibleDevice device_of(int number) {
  VisibleDevice device;
  device.uuid[0] = static_cast<std::uint8_t>(number);
  device.is_integrated = number == 2;
  return device;
}

void write_device(const Pipe& pipe, int number) {
  EXPECT_TRUE(cuda::write_device(pipe.write_end.get(), device_of(number)));
}

TEST(VisibleDevices, ReadsAllDevicesUntilTheEnd) {
  auto pipe = Pipe::create();
  ASSERT_TRUE(pipe);
  write_device(*pipe, 1);
  write_device(*pipe, 2);
  pipe->write_end.reset();
  EXPECT_THAT(read_devices(pipe->read_end.get(), kLong), testing::ElementsAre(device_of(1), device_of(2)));
}

// A driver that answers slowly, device by device, gets no more time for all devices than for one.
TEST(VisibleDevices, TimeoutCoversTheWholeAnswer) {
  auto pipe = Pipe::create();
  ASSERT_TRUE(pipe);
  std::jthread driver([&pipe] {
    for (int number = 0; number < 30; ++number) {
      write_device(*pipe, number);
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    pipe->write_end.reset();
  });
  EXPECT_THAT(read_devices(pipe->read_end.get(), Nanoseconds{300'000'000}), testing::IsEmpty());
}

}  // namespace
}  // namespace headroom::cuda
