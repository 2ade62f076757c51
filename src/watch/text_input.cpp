#include "watch/text_input.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "base/subprocess.h"
#include "base/text.h"
#include "report/run/report_json.h"
#include "watch/log_reader.h"

namespace headroom::watch {
namespace {

constexpr double kDay = 86400;
constexpr std::size_t kLongestOwnLine = 1 << 20;  // fits a sample with 5,000 processes
constexpr Nanoseconds kToolEnds{5'000'000'000};   // after the end of its output; then the tool is killed

// Computes a time for each sample from the clock texts. Two samples of the same second get the same time:
// the text of a tool that prints ten per second has no finer time.
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

// A log written by Headroom (FILE.jsonl). Its times are kept.
class HeadroomLog : public sources::TextReader {
 public:
  void read_line(std::string_view line, const sources::OnSample& on_sample) override {
    if (trim(line).empty()) return;
    const auto document = parse_json(line, "the line");
    auto read = document ? report::system_sample_from_json(*document) : tl::unexpected(document.error());
    SystemSample sample = read ? std::move(*read) : SystemSample{};
    if (!read) sample.unknown_tokens.emplace_back(line);
    on_sample(sample);
  }
};

// The input; `file` is unset for standard input.
struct Opened : OpenedLog {
  Subprocess tool;
};

constexpr const char* kFixPath = "check the path given to --from";

Result<Opened> open_file(const TextInput& input) {
  Opened opened;
  if (input.file == "-") return opened;
  if (input.kind == kOwnLog) {
    auto log = open_log(input.file, kFixPath);
    if (!log) return forward_error(log);
    static_cast<OpenedLog&>(opened) = std::move(*log);
  } else {
    // O_NONBLOCK: poll() waits for the writer of a FIFO, which a signal interrupts. open() would continue
    // to wait.
    opened.file.reset(::open(input.file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  }
  if (!opened.file)
    return input_error(fmt::format("cannot open {}", input.file.string()), errno_text(errno), kFixPath);
  struct stat status {};
  if (::fstat(opened.file.get(), &status) == 0 && S_ISDIR(status.st_mode))
    return input_error(fmt::format("cannot read {}", input.file.string()), "it is a folder",
                       "give a file to --from");
  return opened;
}

// Starts tegrastats itself, found in PATH.
Result<Opened> start_tool(const TextInput& input, Nanoseconds interval) {
  auto pipe = Pipe::create();
  if (!pipe) return forward_error(pipe);
  SpawnOptions options;
  const std::int64_t milliseconds = std::max<std::int64_t>(1, interval.count / 1'000'000);
  options.command = {input.kind, "--interval", std::to_string(milliseconds)};
  options.stdout_fd = pipe->write_end.get();
  auto tool = Subprocess::spawn(options);
  if (!tool)
    return input_error(
        fmt::format("cannot start {}", input.kind), tool.error().why,
        fmt::format("pass its output with --from {}:FILE or --from {}:-", input.kind, input.kind));
  Opened opened;
  opened.file = std::move(pipe->read_end);
  opened.tool = std::move(*tool);
  survive_shortage_of_memory();  // after the tool has started, which must not inherit it
  return opened;
}

bool is_regular_file(int fd) {
  struct stat status {};
  return ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
}

// If the tool ends with an error, the monitor must report that instead of ending normally.
Status end_of_tool(Subprocess& tool, const TextInput& input) {
  const auto end = tool.wait_for(kToolEnds);
  if (!end || end->success()) return {};
  return failure(fmt::format("{} ended", input.kind), end->describe(),
                 fmt::format("run it manually: {} --interval 1000", input.kind));
}

Status end_of_damaged_log(const TextInput& input, std::int64_t samples) {
  if (samples == 0)
    return input_error(fmt::format("{} has no sample", input.file.string()),
                       "it is damaged at the beginning");
  log::warning("{} is damaged after {} samples: the rest cannot be unpacked", input.file.string(), samples);
  return {};
}

}  // namespace

std::string name_of(const TextInput& input) { return input.file.empty() ? input.kind : input.file.string(); }

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

Result<sources::ParseProblem> read_text_input(const TextInput& input, Nanoseconds interval,
                                              const sources::OnSample& on_sample,
                                              const std::function<bool()>& should_stop, int wake_fd,
                                              std::optional<Nanoseconds> duration, LogCondition* condition) {
  auto opened = input.file.empty() ? start_tool(input, interval) : open_file(input);
  if (!opened) return forward_error(opened);
  if (condition != nullptr) *condition = {opened->is_damaged, opened->is_cut};
  const int fd = opened->file ? opened->file.get() : STDIN_FILENO;
  const bool is_headroom_log = input.kind == kOwnLog;
  const auto reader = is_headroom_log ? std::unique_ptr<sources::TextReader>(std::make_unique<HeadroomLog>())
                                      : sources::make_text_reader(input.kind, input.columns);
  Clock clock(interval);
  const Nanoseconds start = monotonic_now();
  // A pipe may be silent for longer than the duration, so it needs a deadline.
  const bool has_deadline = duration && !is_regular_file(fd);
  const Nanoseconds deadline = start + duration.value_or(Nanoseconds{});
  std::int64_t samples = 0;
  std::optional<Nanoseconds> first;
  bool is_over = false;
  const sources::OnSample with_time = [&](SystemSample& sample) {
    if (input.file.empty())
      sample.time = monotonic_now() - start;
    else if (!is_headroom_log)
      sample.time = clock.time_of(sample.clock_text);
    if (!first) first = sample.time;
    is_over = is_over || (duration && sample.time - *first > *duration);
    if (is_over) return;
    ++samples;
    on_sample(sample);
  };
  LinePump pump(fd, is_headroom_log ? kLongestOwnLine : LinePump::kLongestLine);
  bool is_at_end = false;
  while (!is_at_end && !is_over) {
    pollfd polled[] = {{fd, POLLIN, 0}, {wake_fd, POLLIN, 0}};
    const std::int64_t left = std::max<std::int64_t>(0, (deadline - monotonic_now()).count);
    const timespec timeout{left / 1'000'000'000, left % 1'000'000'000};
    ::ppoll(polled, 2, has_deadline ? &timeout : nullptr, nullptr);
    if (should_stop() || (has_deadline && monotonic_now() >= deadline)) break;
    auto more = pump.read_some([&](std::string_view line) { reader->read_line(line, with_time); });
    if (!more) {
      more.error().what = fmt::format("cannot read {}", name_of(input));
      reader->finish(with_time);
      return forward_error(more);
    }
    is_at_end = !*more;
  }
  reader->finish(with_time);
  Status end;
  if (is_at_end && opened->is_damaged && condition == nullptr)
    end = end_of_damaged_log(input, samples);
  else if (is_at_end && input.file.empty())
    end = end_of_tool(opened->tool, input);
  if (!end) return forward_error(end);
  return reader->problem();
}

Result<bool> LinePump::read_some(const std::function<void(std::string_view line)>& each) {
  // The remaining data is shorter than the longest line, so the buffer always has space.
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  const ssize_t got = ::read(fd_, buffer_.data() + end_, decoder_.most(buffer_.size() - end_));
  if (got < 0) {
    if (errno == EINTR || errno == EAGAIN) return true;
    return input_error("cannot read", errno_text(errno));
  }
  std::size_t look_from = end_;
  end_ += decoder_.decode(buffer_.data() + end_, static_cast<std::size_t>(got));
  while (look_from < end_) {
    const void* newline = std::memchr(buffer_.data() + look_from, '\n', end_ - look_from);
    const std::size_t at = newline == nullptr
                               ? end_
                               : static_cast<std::size_t>(static_cast<const char*>(newline) - buffer_.data());
    while (at - begin_ > longest_) {
      each({buffer_.data() + begin_, longest_});
      begin_ += longest_;
    }
    if (newline == nullptr) break;
    each({buffer_.data() + begin_, at - begin_});
    begin_ = look_from = at + 1;
  }
  if (got == 0 && begin_ < end_) {
    each({buffer_.data() + begin_, end_ - begin_});
    begin_ = end_;
  }
  return got > 0;
}

}  // namespace headroom::watch
