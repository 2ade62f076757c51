#include "model/device_name.h"

#include <gtest/gtest.h>

namespace headroom {
namespace {

TEST(DeviceName, IsWhatAPersonWrites) {
  EXPECT_EQ(parse_device_name("cpu"), (DeviceName{false, 0}));
  EXPECT_EQ(parse_device_name("cuda"), (DeviceName{true, 0}));
  EXPECT_EQ(parse_device_name("cuda:0"), (DeviceName{true, 0}));
  EXPECT_EQ(parse_device_name("cuda:63"), (DeviceName{true, 63}));
  for (const char* wrong : {"", "gpu", "CPU", "cuda:", "cuda:64", "cuda:-1", "cuda:+1", "cuda: 1", "cuda:0x1",
                            "cuda:1 ", "cuda:99999999999999999999", "cuda1", "cpu:0"})
    EXPECT_FALSE(parse_device_name(wrong)) << wrong;
}

TEST(DeviceName, IsWrittenInOneWay) {
  for (const char* name : {"cpu", "cuda:0", "cuda:12"}) EXPECT_EQ(parse_device_name(name)->text(), name);
  EXPECT_EQ(parse_device_name("cuda")->text(), "cuda:0");
}

}  // namespace
}  // namespace headroom
