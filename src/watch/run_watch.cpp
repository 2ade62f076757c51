#include "watch/run_watch.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <span>

#include "analysis/series_summary.h"
#include "base/display_width.h"
#include "base/log.h"
#include "base/terminal.h"
#include "bench/interrupt.h"
#include "report/words.h"
#include "watch/alert_watch.h"
#include "watch/live_input.h"
#include "watch/log_file.h"
#include "watch/plot.h"
#include "watch/sample_writer.h"
#include "watch/text_input.h"
#include "watch/watch_words.h"

namespace headroom::watch {
namespace {

// Whether samples go on while their reader stands still. A file can wait, and where standard output is all
// there is, it is better late than left out.
bool may_leave_out(const WatchOptions& options) {
  struct stat status {};
  if (options.from && !options.from->file.empty() && ::stat(options.from->file.c_str(), &status) == 0 &&
      S_ISREG(status.st_mode))
    return false;
  return !options.output.empty() || options.alerts;
}

// Of a stranger's line, which may be of any length.
std::string words_of(const std::string& line) {
  constexpr int kColumns = 60;
  return fit_to_width(without_terminal_control(line), kColumns);
}

// Everything that a sample goes to.
class Session {
 public:
  Session(const WatchOptions& options, Console& console, bench::Interrupt& interrupt)
      : options_(options), console_(console), interrupt_(interrupt), may_leave_out_(may_leave_out(options)) {
    if (options.alerts) alerts_.emplace(*options.alerts, options.interval);
  }

  Status open_log() {
    if (options_.output.empty()) return {};
    auto file = LogFile::create(options_.output, options_.rotate_at, options_.keep);
    if (!file) return forward_error(file);
    file_.emplace(std::move(*file));
    return {};
  }

  void take(SystemSample& sample) {
    ++samples_;
    unknown_ += static_cast<std::int64_t>(sample.unknown_tokens.size());
    if (first_unknown_.empty() && !sample.unknown_tokens.empty()) first_unknown_ = sample.unknown_tokens[0];
    for (const KernelEvent& event : sample.kernel_events) tell(event);
    const auto events = alerts_ ? alerts_->add(sample) : std::span<const AlertEvent>();
    if (file_) file_->write(sample, events);
    if (!options_.quiet) print(sample, events);
    series_.add(sample);
    curves_.add(sample);
    if (options_.baseline) last_ = sample;
  }

  std::int64_t samples() const { return samples_; }
  // Samples, and of them not one figure.
  bool is_all_unknown() const { return unknown_ > 0 && series_.summaries().empty(); }
  // Goes on after "not understood, as".
  std::string why_unknown(const sources::Unread& unread) const {
    return unread.why.empty() ? "'" + words_of(first_unknown_) + "'" : unread.why;
  }

  // The file, the pictures, and what it showed, for which a reader may have us wait: the rest is there by
  // then.
  Status finish(const sources::Unread& unread = {}) {
    if (alerts_) alerts_->finish();
    Status whole;
    if (file_) whole = file_->finish();
    const bool is_error = options_.from && is_all_unknown();  // which tells it
    if (unknown_ > 0 && !is_error)
      log::warning("{} in {} not understood, as {}; --jsonl keeps {} in unknown_tokens",
                   report::counted(unknown_, "word"),
                   fmt::format("{} {}", report::counted(samples_, "sample"), unknown_ == 1 ? "was" : "were"),
                   why_unknown(unread), unknown_ == 1 ? "it" : "them");
    if (not_shown_ > 0)
      log::warning("{} of {} samples were not shown, as standard output was not read meanwhile", not_shown_,
                   samples_);
    Status drawn;
    for (const auto& path : options_.plots) {
      const std::string title = options_.from ? options_.from->file.filename().string() : "Memory over time";
      const bool html = path.extension() == ".html";
      auto written =
          write_file_atomically(path, html ? plot_as_html(curves_, title) : plot_as_svg(curves_, title));
      if (!written) drawn = std::move(written);
    }
    if (samples_ > 0 && !is_error) summarise();
    return whole ? drawn : whole;
  }

 private:
  static void tell(const KernelEvent& event) {
    if (event.kind == KernelEventKind::oom_kill)
      log::warning("the kernel killed {} (process {}) for want of memory",
                   event.process.empty() ? "?" : event.process, event.pid.value_or(0));
    else
      log::warning("the kernel says: {}", without_terminal_control(event.text));
  }

  void print(const SystemSample& sample, std::span<const AlertEvent> events) {
    line_.clear();
    if (options_.format == Format::csv)
      csv_.append(line_, sample);
    else if (options_.format == Format::jsonl)
      append_json_line(line_, sample, events);
    else
      line_ = line_for_person(sample);
    if (may_leave_out_ ? console_.print(line_) : console_.print_or_wait(line_, interrupt_)) return;
    if (not_shown_++ == 0)
      log::warning("standard output is not read: samples are left out there until it is");
  }

  void summarise() {
    const auto metrics = series_.summaries();
    std::string text;
    if (options_.baseline) {
      text = baseline_words(metrics, last_);
    } else {
      const int width = terminal_width(STDOUT_FILENO);
      text = "\n" + summary_table(metrics, options_.color) + "\n" +
             plot_for_terminal(curves_, std::min(width, 120));
    }
    // Data that is printed stays data, and a command's output its own.
    if (options_.format == Format::lines && options_.command.empty()) {
      console_.print_or_wait(text, interrupt_, Console::kLastWords);
      return;
    }
    console_.say(text);
  }

  const WatchOptions& options_;
  Console& console_;
  bench::Interrupt& interrupt_;
  bool may_leave_out_;
  std::optional<LogFile> file_;
  std::optional<AlertWatch> alerts_;
  CsvRows csv_;
  std::string line_;  // kept, so that it is allocated once
  analysis::SeriesAccumulator series_;
  MemoryCurves curves_;
  SystemSample last_;
  std::string first_unknown_;
  std::int64_t samples_ = 0, unknown_ = 0, not_shown_ = 0;
};

Result<int> watch_text(const WatchOptions& options, bench::Interrupt& interrupt, Session& session) {
  const auto on_sample = [&](SystemSample& sample) { session.take(sample); };
  auto read = read_text_input(
      *options.from, options.interval, on_sample, [&] { return interrupt.requested() || !output_is_open(); },
      interrupt.fd(), options.duration);
  const sources::Unread unread = read ? *read : sources::Unread{};
  auto finished = session.finish(unread);
  if (!read) return forward_error(read);
  if (!finished) return forward_error(finished);
  if (session.samples() == 0 && !interrupt.requested())
    return input_error(
        fmt::format("{} has no sample of {}", name_of(*options.from), options.from->kind),
        options.from->kind == "nvidia-smi"
            ? "it is empty, or has neither a table of GPUs nor a CSV whose header names some of their figures"
            : "it is empty",
        options.from->kind == "nvidia-smi"
            ? "print it with nvidia-smi --query-gpu=timestamp,index,memory.used,memory.total --format=csv"
            : "");
  if (session.is_all_unknown())
    return input_error(
        fmt::format("{} has no sample of {}", name_of(*options.from), options.from->kind),
        fmt::format("none of its words was understood, as {}", session.why_unknown(unread)),
        !unread.fix.empty()
            ? unread.fix
            : fmt::format("check the kind in --from KIND:FILE; what is compressed is read by zcat "
                          "FILE | headroom watch --from {}:-",
                          options.from->kind));
  return 0;
}

Result<int> watch_machine(const WatchOptions& options, bench::Interrupt& interrupt, Session& session) {
  auto end = sample_live(options, interrupt, [&](SystemSample& sample) {
    session.take(sample);
    return output_is_open() || !options.output.empty();  // a reader that went away wants no more
  });
  if (!end) return forward_error(end);
  if (end->samples_late > 0)
    log::warning("{} samples came late, by {} intervals in all: the machine, or this process, stood still",
                 end->samples_late, end->intervals_missed);
  if (end->followed_ended) log::info("the processes that were followed have ended");
  auto finished = session.finish();
  if (end->command) {
    if (!finished) log::warning("{}", finished.error().sentence());
    if (end->command->signal != 0) log::warning("the command ended with {}", end->command->describe());
    return end->command->signal != 0 ? 128 + end->command->signal : end->command->exit_code;
  }
  if (!finished) return forward_error(finished);
  return 0;
}

// Not found out only at the end of a day.
Status expect_room_for(const std::filesystem::path& plot) {
  const auto folder = plot.has_parent_path() ? plot.parent_path() : std::filesystem::path(".");
  if (::access(folder.c_str(), W_OK | X_OK) == 0) return {};
  return usage_error(fmt::format("cannot write {}", plot.string()), errno_text(errno),
                     "check that the folder given to --plot exists and is writable");
}

}  // namespace

Result<int> run_watch(const WatchOptions& options, Console& console) {
  for (const auto& plot : options.plots)
    if (auto sound = expect_room_for(plot); !sound) return forward_error(sound);
  auto interrupt = bench::Interrupt::listen();
  if (!interrupt) return forward_error(interrupt);
  Session session(options, console, *interrupt);
  if (auto opened = session.open_log(); !opened) return forward_error(opened);
  auto code =
      options.from ? watch_text(options, *interrupt, session) : watch_machine(options, *interrupt, session);
  console.finish(*interrupt);
  return code;
}

}  // namespace headroom::watch
