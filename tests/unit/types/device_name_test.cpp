#include "types/device_name.h"

#include <gtest/gtest.h>

namespace headroom {
namespace {

TEST(DeviceName, ParsesUserInput) {
  EXPECT_EQ(parse_device_name("cpu"), (DeviceName{false, 0}));
  EXPECT_EQ(parse_device_name("cuda"), (DeviceName{true, 0}));
  EXPECT_EQ(parse_device_name("cuda:0"), (DeviceName{true, 0}));
  EXPECT_EQ(parse_device_name("cuda:63"), (DeviceName{true, 63}));
  for (const char* wrong : {"", "gpu", "CPU", "cuda:", "cuda:64", "cuda:-1", "cuda:+1", "cuda: 1", "cuda:0x1",
                            "cuda:1 ", "cuda:99999999999999999999", "cuda1", "cpu:0"})
    EXPECT_FALSE(parse_device_name(wrong)) << wrong;
}

TEST(DeviceName, FormatsDeviceNames) {
  for (const char* name : {"cpu", "cuda:0", "cuda:12"}) EXPECT_EQ(parse_device_name(name)->text(), name);
  EXPECT_EQ(parse_device_name("cuda")->text(), "cuda:0");
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

}  // namespace
}  // namespace headroom
