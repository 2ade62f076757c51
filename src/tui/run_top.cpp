#include "tui/run_top.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>
#include <algorithm>
#include <ctime>
#include <memory>
#include <string_view>
#include <thread>

#include "base/subprocess.h"
#include "bench/conductor/child_process.h"
#include "sources/host_info.h"
#include "tui/terminal_screen.h"
#include "tui/top_keys.h"
#include "tui/top_session.h"
#include "watch/live_input.h"
#include "watch/log_reader.h"
#include "watch/sample_log.h"

namespace headroom::tui {

namespace {

// Time between the first sample (no rates) and the displayed one. The kernel counts CPU time in steps of 10
// ms.
constexpr Nanoseconds kForRates{500'000'000};
constexpr Nanoseconds kGpuStartTimeout{60'000'000'000};  // a driver may have to initialize the GPUs first

// The sample's wall clock time; empty if unknown.
std::string clock_text(const SystemSample& sample) {
  if (!sample.unix_time) return sample.clock_text;
  const std::time_t seconds = static_cast<std::time_t>(sample.unix_time->count / 1'000'000'000);
  std::tm parts{};
  if (::localtime_r(&seconds, &parts) == nullptr) return {};
  return fmt::format("{:02}:{:02}:{:02}", parts.tm_hour, parts.tm_min, parts.tm_sec);
}

// Host name, and the board if known.
std::string machine_name(const std::filesystem::path& root) {
  const HostInfo host = sources::read_host_info(root);
  if (host.board.empty()) return host.hostname;
  return host.hostname + (host.hostname.empty() ? "" : "  ") + host.board;
}

int print_once(const TopOptions& options, TopPicture picture) {
  if (options.json) {
    print_output(watch::json_line(*picture.sample));
    return 0;
  }
  TopChoice choice = options.choice;
  choice.interactive = false;
  const int width = options.width > 0 ? options.width : Screen().width;
  picture.clock = clock_text(*picture.sample);
  print_output(to_text(draw_top_once(picture, choice, width, options.processes),
                       Screen(STDOUT_FILENO, options.color).colors));
  return 0;
}

Result<int> show_machine_once(TopOptions options) {
  watch::MachineSampler machine(options.sysroot);
  TopSession session({kForRates, options.alerts, false, true});
  SystemSample sample;
  sources::ProcessChoice choice;
  const bool needs_all = options.choice.sort != ProcessColumn::memory || options.choice.reversed ||
                         !options.choice.filter.empty();
  choice.largest = needs_all ? 0 : static_cast<std::size_t>(options.processes);
  choice.with_pss = options.pss;
  machine.wait_for_gpus(kGpuStartTimeout);
  machine.sample_into(sample);
  machine.read_processes(sample, choice);
  session.take(sample);
  std::this_thread::sleep_for(std::chrono::nanoseconds(std::min(kForRates, options.interval).count));
  machine.sample_into(sample);
  machine.read_processes(sample, choice);
  session.take(sample);
  options.choice.show_charts = false;  // two samples make no chart
  TopPicture picture = session.picture();
  picture.source = machine_name(options.sysroot);
  picture.processes = machine.processes();
  return print_once(options, std::move(picture));
}

Result<int> show_log_once(const TopOptions& options) {
  auto log = watch::ReplayLog::open(options.replay);
  if (!log) return forward_error(log);
  // The columns of a chart on the widest screens.
  constexpr std::size_t kWidestChart = 512;
  TopSession session({options.interval, options.alerts, false, false});
  for (std::size_t i = log->size() - std::min(log->size(), kWidestChart); i < log->size(); ++i) {
    auto sample = log->read(i);
    if (!sample) return forward_error(sample);
    session.take(*sample);
  }
  TopPicture picture = session.picture();
  picture.source = options.replay.filename().string();
  picture.pace = fmt::format("sample {} of {}", log->size(), log->size());
  return print_once(options, std::move(picture));
}

constexpr Nanoseconds kFirstRates{200'000'000};  // from the first sample (no rates) to the second
constexpr Nanoseconds kShortest{50'000'000}, kLongest{3'600'000'000'000};
constexpr Nanoseconds kFrame{33'000'000};          // shortest time between two frames of a fast replay
constexpr Nanoseconds kLongestGap{2'000'000'000};  // longest wait for the next sample of a replay
constexpr std::size_t kChartSamples = 512;         // samples that a step back reads again, for the charts
constexpr double kSlowest = 1.0 / 16, kFastest = 1024;

// The source of samples: this machine or a log. It decides when the next sample is due and handles keys.
class SampleStream {
 public:
  virtual ~SampleStream() = default;
  // The time of the next advance().
  virtual Nanoseconds due() const = 0;
  virtual void advance(TopSession& session, const TopChoice& choice, int rows) = 0;
  virtual void apply(const TopStep& step, TopSession& session, TopChoice& choice) = 0;
  virtual void describe(TopPicture& picture) const = 0;
};

class MachineStream final : public SampleStream {
 public:
  explicit MachineStream(const TopOptions& options)
      : machine_(options.sysroot),
        name_(machine_name(options.sysroot)),
        interval_(options.interval),
        with_pss_(options.pss),
        is_this_machine_(options.sysroot == "/"),
        due_(monotonic_now()) {}

  Nanoseconds due() const override { return due_; }

  void advance(TopSession& session, const TopChoice& choice, int rows) override {
    machine_.sample_into(sample_);
    machine_.read_processes(sample_, processes_for(choice, rows));
    if (!choice.paused) processes_ = machine_.processes();
    session.take(sample_);
    const Nanoseconds now = monotonic_now();
    due_ += has_rates_ ? interval_ : std::min(interval_, kFirstRates);
    has_rates_ = true;
    if (due_ < now) due_ = now + interval_;  // the program was suspended: skip the missed samples
  }

  void apply(const TopStep& step, TopSession&, TopChoice& choice) override {
    if (step.action == TopAction::interval_longer || step.action == TopAction::interval_shorter) {
      const Nanoseconds before = interval_;
      interval_.count = step.action == TopAction::interval_longer ? interval_.count * 2 : interval_.count / 2;
      interval_ = std::clamp(interval_, kShortest, kLongest);
      due_ += interval_ - before;
    }
    if (step.action == TopAction::toggle_pss) {
      with_pss_ = !with_pss_;
      choice.message = with_pss_ ? "PSS is shown from the next sample on." : "PSS is off.";
    }
    if (step.action == TopAction::send_signal && choice.to_signal) {
      if (!is_this_machine_) {
        choice.message = "Cannot send signals to processes of another --sysroot.";
      } else {
        const auto sent = send_signal(*choice.to_signal, step.signal->number);
        choice.message = sent ? fmt::format("SIG{2} was sent to {0} {1}", choice.to_signal->pid,
                                            choice.to_signal->name, step.signal->name)
                              : sent.error().sentence();
      }
      choice.to_signal.reset();
    }
  }

  void describe(TopPicture& picture) const override {
    picture.source = name_;
    picture.pace = interval_.count < 1'000'000'000 ? fmt::format("every {:g} ms", interval_.milliseconds())
                                                   : fmt::format("every {:g} s", interval_.seconds());
    picture.processes = processes_;
  }

 private:
  // If the table shows the largest processes, read only those: this saves three file reads for each other
  // process.
  sources::ProcessChoice processes_for(const TopChoice& choice, int rows) const {
    sources::ProcessChoice wanted;
    wanted.with_pss = with_pss_;
    const bool is_largest =
        choice.sort == ProcessColumn::memory && !choice.reversed && choice.filter.empty() && !choice.selected;
    wanted.largest = is_largest ? static_cast<std::size_t>(std::max(rows, 1)) : 0;
    return wanted;
  }

  watch::MachineSampler machine_;
  std::string name_;
  Nanoseconds interval_;
  bool with_pss_, is_this_machine_, has_rates_ = false;
  Nanoseconds due_;
  SystemSample sample_;
  std::size_t processes_ = 0;  // as displayed
};

class ReplayStream final : public SampleStream {
 public:
  ReplayStream(const TopOptions& options, watch::ReplayLog log)
      : log_(std::move(log)), name_(options.replay.filename().string()), due_(monotonic_now()) {}

  Nanoseconds due() const override { return due_; }

  void advance(TopSession& session, const TopChoice& choice, int) override {
    const Nanoseconds now = monotonic_now();
    const Nanoseconds passed = now - clock_;
    clock_ = now;
    due_ = now + kFrame;
    if (choice.paused || next_ >= log_.size()) {
      due_ = now + Nanoseconds{1'000'000'000};
      return;
    }
    if (!session.has_sample()) {
      take_next(session);
    } else {
      log_time_.count += static_cast<std::int64_t>(static_cast<double>(passed.count) * speed_);
    }
    // Limit the samples of one call, so that keys are handled in time.
    for (int taken = 0; taken < 256 && next_ < log_.size(); ++taken) {
      auto sample = log_.read(next_);
      if (!sample) {
        problem_ = sample.error().sentence();
        ++next_;
        continue;
      }
      const double gap = (sample->time - log_time_).seconds() / speed_;
      if (gap > kLongestGap.seconds()) {  // skip a gap in the log
        log_time_ =
            sample->time - Nanoseconds{static_cast<std::int64_t>(kLongestGap.seconds() * speed_ * 1e9)};
        break;
      }
      if (sample->time > log_time_) {
        due_ =
            now + std::min(std::max(kFrame, Nanoseconds{static_cast<std::int64_t>(gap * 1e9)}), kLongestGap);
        break;
      }
      if (session.has_sample() &&
          sample->time < session.sample().time) {  // the next session of headroom watch
        session.restart();
        log_time_ = sample->time;
      }
      session.take(*sample);
      ++next_;
    }
  }

  void apply(const TopStep& step, TopSession& session, TopChoice& choice) override {
    const TopAction action = step.action;
    if (action == TopAction::slower) speed_ = std::max(speed_ / 2, kSlowest);
    if (action == TopAction::faster) speed_ = std::min(speed_ * 2, kFastest);
    if (action == TopAction::step_forward || action == TopAction::step_back) choice.paused = true;
    if (action == TopAction::step_forward && next_ < log_.size()) take_next(session);
    if (action == TopAction::step_back) go_to(next_ >= 2 ? next_ - 2 : 0, session);
    if (action == TopAction::restart) go_to(0, session);
    if (!problem_.empty()) choice.message = problem_;
    problem_.clear();
    due_ = monotonic_now();
  }

  void describe(TopPicture& picture) const override {
    picture.source = name_;
    const std::string speed =
        speed_ >= 1 ? fmt::format("{:.0f}", speed_) : fmt::format("1/{:.0f}", 1 / speed_);
    picture.pace = fmt::format("replay ×{}  {} of {}{}", speed, next_, log_.size(),
                               next_ >= log_.size() ? " (end)" : "");
  }

 private:
  void take_next(TopSession& session) {
    auto sample = log_.read(next_++);
    if (!sample) {
      problem_ = sample.error().sentence();
      return;
    }
    log_time_ = sample->time;
    session.take(*sample);
    clock_ = monotonic_now();
  }
  // Replays the samples before `index`, so that charts and alerts are as they were.
  void go_to(std::size_t index, TopSession& session) {
    session.restart();
    next_ = index + 1 > kChartSamples ? index + 1 - kChartSamples : 0;
    while (next_ <= index) take_next(session);
  }

  watch::ReplayLog log_;
  std::string name_, problem_;
  std::size_t next_ = 0;
  double speed_ = 1;
  Nanoseconds log_time_;                 // the replay's position in the log's time
  Nanoseconds clock_ = monotonic_now();  // when log_time_ was updated
  Nanoseconds due_;
};

class LiveTop {
 public:
  LiveTop(const TopOptions& options, std::unique_ptr<SampleStream> stream, TerminalScreen& screen)
      : choice_(options.choice),
        session_({options.interval, options.alerts, options.replay.empty() && options.sysroot == "/", false}),
        stream_(std::move(stream)),
        screen_(screen) {}

  void run(bench::Interrupt& interrupt) {
    stream_->advance(session_, choice_, screen_.height());
    bool goes_on = true;
    while (goes_on) {
      draw();
      goes_on = wait(interrupt);
    }
  }
  void finish() { session_.finish(); }

 private:
  TopPicture picture() const {
    TopPicture picture = session_.picture();
    stream_->describe(picture);
    picture.clock = clock_text(session_.sample());
    return picture;
  }

  void draw() {
    const TopPicture now = picture();
    rows_ = process_rows(now, choice_, screen_.width(), screen_.height());
    screen_.show(draw_top(now, choice_, screen_.width(), screen_.height()));
  }

  // Waits until there is something to draw. Returns false to quit.
  bool wait(bench::Interrupt& interrupt) {
    const Nanoseconds left = std::max(stream_->due() - monotonic_now(), Nanoseconds{});
    const timespec timeout{left.count / 1'000'000'000, left.count % 1'000'000'000};
    pollfd polled[]{{STDIN_FILENO, POLLIN, 0}, {interrupt.fd(), POLLIN, 0}, {screen_.resize_fd(), POLLIN, 0}};
    ::ppoll(polled, 3, &timeout, nullptr);
    if (interrupt.requested()) return false;
    if ((polled[2].revents & POLLIN) != 0) screen_.resize();
    int keys = 0;
    for (; keys < 64; ++keys) {
      const auto key = screen_.next_key();
      if (!key) break;
      if (!handle(*key)) return false;
    }
    // A closed terminal is readable but returns no keys.
    if ((polled[0].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0 && keys == 0) return false;
    if (stream_->due() <= monotonic_now()) stream_->advance(session_, choice_, rows_);
    return true;
  }

  bool handle(const Key& key) {
    const TopStep step = press(key, choice_, session_.sample(), rows_);
    if (step.action == TopAction::quit) return false;
    if (!choice_.is_replay)
      session_.hold_picture(choice_.paused);  // a replay stops anyway; live samples continue
    if (step.action != TopAction::none) stream_->apply(step, session_, choice_);
    return true;
  }

  TopChoice choice_;
  TopSession session_;
  std::unique_ptr<SampleStream> stream_;
  TerminalScreen& screen_;
  int rows_ = 1;
};

// Runs until a key, a signal or the end of the terminal.
Result<int> run_live_top(TopOptions options) {
  std::unique_ptr<SampleStream> stream;
  if (!options.replay.empty()) {
    auto log = watch::ReplayLog::open(options.replay);
    if (!log) return forward_error(log);
    stream = std::make_unique<ReplayStream>(options, std::move(*log));
    options.choice.is_replay = true;
  } else {
    stream = std::make_unique<MachineStream>(options);
    survive_shortage_of_memory();
  }
  options.choice.ascii = options.choice.ascii || wants_ascii();
  auto interrupt = bench::Interrupt::listen();
  if (!interrupt) return forward_error(interrupt);
  auto screen = TerminalScreen::open(options.color);
  if (!screen) return forward_error(screen);
  LiveTop top(options, std::move(stream), **screen);
  top.run(*interrupt);
  screen->reset();
  top.finish();
  return 0;
}

}  // namespace

Result<int> run_top(TopOptions options) {
  if (options.replay.empty())
    if (auto sound = watch::check_sysroot(options.sysroot); !sound) return forward_error(sound);
  if (!options.once) return run_live_top(std::move(options));
  if (!options.replay.empty()) return show_log_once(options);
  return show_machine_once(std::move(options));
}

}  // namespace headroom::tui
