#include "watch/text_input.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>

#include "base/files.h"
#include "base/text.h"
#include "watch/line_pump.h"

namespace headroom::watch {
namespace {

constexpr double kDay = 86400;

// A time for each sample, from the texts before them. Two samples of the same second are the same moment's: a
// tool that prints ten a second tells no more.
class Clock {
 public:
  explicit Clock(Nanoseconds interval) : interval_(interval) {}
  Nanoseconds time_of(const std::string& clock_text) {
    const auto second = second_of_day(clock_text);
    if (!is_first_) {
      if (second && last_second_) {
        double step = *second - *last_second_;
        if (step < -kDay / 2) step += kDay;  // midnight
        if (step > 0) time_ += Nanoseconds{std::llround(step * 1e9)};
      } else {
        time_ += interval_;
      }
    }
    is_first_ = false;
    last_second_ = second;
    return time_;
  }

 private:
  Nanoseconds interval_, time_;
  std::optional<double> last_second_;
  bool is_first_ = true;
};

}  // namespace

std::optional<double> second_of_day(std::string_view clock_text) {
  const std::size_t space = clock_text.find(' ');
  if (space == clock_text.npos) return std::nullopt;
  const auto parts = split(clock_text.substr(space + 1), ':');
  if (parts.size() != 3) return std::nullopt;
  const auto hour = parse_number<int>(parts[0]), minute = parse_number<int>(parts[1]);
  const auto second = parse_number<double>(parts[2]);
  if (!hour || !minute || !second || *hour < 0 || *hour > 23 || *minute < 0 || *minute > 59 ||
      !(*second >= 0 && *second < 61))
    return std::nullopt;
  return 3600 * *hour + 60 * *minute + *second;
}

Status read_text_input(const TextInput& input, Nanoseconds interval, const sources::OnSample& on_sample,
                       const std::function<bool()>& should_stop, int wake_fd) {
  UniqueFd file;
  int fd = STDIN_FILENO;
  if (input.file != "-") {
    file.reset(::open(input.file.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file)
      return input_error(fmt::format("cannot open {}", input.file.string()), errno_text(errno),
                         "check the path given to --from");
    fd = file.get();
  }
  struct stat status {};
  if (::fstat(fd, &status) == 0 && S_ISDIR(status.st_mode))
    return input_error(fmt::format("cannot read {}", input.file.string()), "it is a folder",
                       "give a file to --from");
  const auto reader = sources::make_text_reader(input.kind);
  Clock clock(interval);
  const sources::OnSample with_time = [&](SystemSample& sample) {
    sample.time = clock.time_of(sample.clock_text);
    on_sample(sample);
  };
  LinePump pump(fd);
  for (;;) {
    pollfd polled[] = {{fd, POLLIN, 0}, {wake_fd, POLLIN, 0}};
    ::poll(polled, 2, -1);
    if (should_stop()) break;
    auto more = pump.read_some([&](std::string_view line) { reader->read_line(line, with_time); });
    if (!more) {
      more.error().what = fmt::format("cannot read {}", input.file.string());
      reader->finish(with_time);
      return forward_error(more);
    }
    if (!*more) break;
  }
  reader->finish(with_time);
  return {};
}

}  // namespace headroom::watch
