#include "base/background_writer.h"

#include <unistd.h>

#include <string>

#include "base/files.h"
#include "base/subprocess.h"
#include "support/test_support.h"

namespace headroom {
namespace {

constexpr Nanoseconds kLong{60'000'000'000};  // only reached if the test hangs

TEST(BackgroundWriter, WritesAllInOrder) {
  std::string written;
  BackgroundWriter writer([&](std::string_view text) { written += text; });
  std::string expected;
  for (int i = 0; i < 1000; ++i) {
    const std::string text = std::to_string(i) + "\n";
    ASSERT_TRUE(writer.offer(text, kLong));
    expected += text;
  }
  ASSERT_TRUE(writer.flush(kLong));
  EXPECT_TRUE(
      writer.offer(std::string(2 * BackgroundWriter::kCapacity, 'x')));  // longer than the queue, but alone
  expected += std::string(2 * BackgroundWriter::kCapacity, 'x');
  ASSERT_TRUE(writer.flush(kLong));
  EXPECT_EQ(written, expected);
}

TEST(BackgroundWriter, RejectsTextsWhileBlockedAndContinuesLater) {
  auto pipe = Pipe::create();
  ASSERT_TRUE(pipe);
  BackgroundWriter writer([fd = pipe->write_end.get()](std::string_view text) {
    [[maybe_unused]] const auto written = write_all(fd, text);
  });
  const std::string text(10'000, 'x');
  std::size_t taken = 0;
  for (int i = 0; i < 1000; ++i) taken += writer.offer(text) ? text.size() : 0;
  EXPECT_LT(taken, std::size_t{2} << 20);
  EXPECT_GE(taken, BackgroundWriter::kCapacity - text.size());
  EXPECT_FALSE(writer.flush({}));
  std::string buffer(64 << 10, ' ');
  for (std::size_t left = taken; left > 0;) {
    const ssize_t got = ::read(pipe->read_end.get(), buffer.data(), buffer.size());
    ASSERT_GT(got, 0);
    left -= static_cast<std::size_t>(got);
  }
  EXPECT_TRUE(writer.flush(kLong));
}

}  // namespace
}  // namespace headroom
