#include "watch/run_watch.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <span>

#include "base/files.h"
#include "base/log.h"
#include "base/terminal.h"
#include "base/utf8.h"
#include "bench/conductor/child_process.h"
#include "monitoring/sample_metrics.h"
#include "report/words.h"
#include "watch/alert_watch.h"
#include "watch/live_input.h"
#include "watch/sample_log.h"
#include "watch/text_input.h"
#include "watch/watch_summary.h"

namespace headroom::watch {
namespace {

// Whether to skip console output while its reader is blocked. Not with a file as input, because the file can
// wait. Not if standard output is the only output, because late samples are better than missing ones.
bool may_skip_output(const WatchOptions& options) {
  struct stat status {};
  if (options.from && !options.from->file.empty() && ::stat(options.from->file.c_str(), &status) == 0 &&
      S_ISREG(status.st_mode))
    return false;
  return !options.output.empty() || options.alerts;
}

// Passes each sample to all outputs: alerts, log, console, summary and plots.
class Session {
 public:
  Session(const WatchOptions& options, Console& console, bench::Interrupt& interrupt)
      : options_(options),
        console_(console),
        interrupt_(interrupt),
        may_skip_output_(may_skip_output(options)) {
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
    for (const KernelEvent& event : sample.kernel_events) log_kernel_event(event);
    const auto events = alerts_ ? alerts_->add(sample) : std::span<const AlertEvent>();
    if (file_) file_->write(sample, events);
    if (!options_.quiet) print(sample, events);
    series_.add(sample);
    curves_.add(sample);
    if (options_.baseline) last_ = sample;
  }

  std::int64_t samples() const { return samples_; }
  // Whether there were samples, but no figure could be read from them.
  bool is_all_unknown() const { return unknown_ > 0 && series_.summaries().empty(); }
  // The reason, for the messages below.
  std::string why_unknown(const sources::ParseProblem& problem) const {
    constexpr int kColumns = 60;  // of a token of unknown origin and length
    if (!problem.why.empty()) return problem.why;
    return fmt::format("'{}'", fit_to_width(without_terminal_control(first_unknown_), kColumns));
  }

  // Finishes the log, the plots and the summary. The summary comes last, because a blocked reader may delay
  // it.
  Status finish(const sources::ParseProblem& problem = {}) {
    if (alerts_) alerts_->finish();
    Status whole;
    if (file_) whole = file_->finish();
    const bool is_error = options_.from && is_all_unknown();  // the caller reports it as an error
    if (unknown_ > 0 && !is_error)
      log::warning("cannot read {} in {}: {}; --jsonl keeps {} in unknown_tokens",
                   report::counted(unknown_, "token"), report::counted(samples_, "sample"),
                   why_unknown(problem), unknown_ == 1 ? "it" : "them");
    if (not_shown_ > 0)
      log::warning("{} of {} samples were not shown, because standard output was blocked", not_shown_,
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
  static void log_kernel_event(const KernelEvent& event) {
    if (event.kind == KernelEventKind::oom_kill)
      log::warning("the kernel killed {} (process {}): out of memory",
                   event.process.empty() ? "?" : event.process, event.pid.value_or(0));
    else
      log::warning("kernel log: {}", without_terminal_control(event.text));
  }

  void print(const SystemSample& sample, std::span<const AlertEvent> events) {
    line_.clear();
    if (options_.format == Format::csv)
      csv_.append(line_, sample);
    else if (options_.format == Format::jsonl)
      append_json_line(line_, sample, events);
    else
      line_ = line_for_person(sample);
    if (may_skip_output_ ? console_.print(line_) : console_.print_or_wait(line_, interrupt_)) return;
    if (not_shown_++ == 0)
      log::warning("standard output is blocked: samples are skipped there until it is read");
  }

  void summarise() {
    const auto metrics = series_.summaries();
    std::string text;
    if (options_.baseline) {
      text = baseline_words(metrics, last_);
    } else {
      text = "\n" + summary_table(metrics, options_.color) + "\n" +
             plot_for_terminal(curves_, std::min(Screen().width, 120));
    }
    // Keeps the summary out of standard output if that carries data or a command's output.
    if (options_.format == Format::lines && options_.command.empty()) {
      console_.print_or_wait(text, interrupt_, Console::kFinalFlush);
      return;
    }
    console_.print_error(text);
  }

  const WatchOptions& options_;
  Console& console_;
  bench::Interrupt& interrupt_;
  bool may_skip_output_;
  std::optional<LogFile> file_;
  std::optional<AlertWatch> alerts_;
  CsvRows csv_;
  std::string line_;  // reused, to avoid allocations
  monitoring::SeriesAccumulator series_;
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
  const sources::ParseProblem problem = read ? *read : sources::ParseProblem{};
  auto finished = session.finish(problem);
  if (!read) return forward_error(read);
  if (!finished) return forward_error(finished);
  const TextInput& from = *options.from;
  const std::string what = fmt::format("no {} sample in {}", from.kind, name_of(from));
  if (session.samples() == 0 && !interrupt.requested()) {
    if (from.kind != "nvidia-smi") return input_error(what, "it is empty");
    return input_error(
        what, "it is empty, or has neither an nvidia-smi table nor a CSV with a header of known columns",
        "print it with nvidia-smi --query-gpu=timestamp,index,memory.used,memory.total "
        "--format=csv");
  }
  if (!session.is_all_unknown()) return 0;
  return input_error(what, fmt::format("cannot read any of its tokens: {}", session.why_unknown(problem)),
                     !problem.fix.empty()
                         ? problem.fix
                         : fmt::format("check the kind in --from KIND:FILE; for a compressed file use "
                                       "zcat FILE | headroom watch --from {}:-",
                                       from.kind));
}

Result<int> watch_machine(const WatchOptions& options, bench::Interrupt& interrupt, Session& session) {
  bool is_first = true;
  auto end = sample_live(options, interrupt, [&](SystemSample& sample) {
    if (is_first && !options.name.empty() && sample.processes.empty())
      log::warning("no process has '{}' in its name yet; waiting for one", options.name);
    is_first = false;
    session.take(sample);
    return output_is_open() || !options.output.empty();  // stop if the reader of the output has gone
  });
  if (!end) return forward_error(end);
  if (end->samples_late > 0)
    log::warning("{} samples were late and {} intervals were missed: the machine or this process was stopped",
                 end->samples_late, end->intervals_missed);
  if (end->followed_ended) log::info("the followed processes have ended");
  auto finished = session.finish();
  if (end->command) {
    if (!finished) log::warning("{}", finished.error().sentence());
    if (end->command->signal != 0) log::warning("the command ended with {}", end->command->describe());
    return end->command->signal != 0 ? 128 + end->command->signal : end->command->exit_code;
  }
  if (!finished) return forward_error(finished);
  return 0;
}

// Checks the path at the start, not at the end of a long run.
Status check_plot_folder(const std::filesystem::path& plot) {
  const auto folder = plot.has_parent_path() ? plot.parent_path() : std::filesystem::path(".");
  if (::access(folder.c_str(), W_OK | X_OK) == 0) return {};
  return usage_error(fmt::format("cannot write {}", plot.string()), errno_text(errno),
                     "check that the folder given to --plot exists and is writable");
}

constexpr Nanoseconds kSlice{100'000'000};  // how quickly a signal is noticed while waiting for a reader

// Drops the text if the buffer is full. Reports success anyway, because the stream would repeat a failed
// write with the next message.
ssize_t write_in_background(void* writer, const char* text, std::size_t size) {
  static_cast<BackgroundWriter*>(writer)->offer({text, size});
  return static_cast<ssize_t>(size);
}

}  // namespace

Result<int> run_watch(const WatchOptions& options, Console& console) {
  for (const auto& plot : options.plots)
    if (auto sound = check_plot_folder(plot); !sound) return forward_error(sound);
  auto interrupt = bench::Interrupt::listen();
  if (!interrupt) return forward_error(interrupt);
  Session session(options, console, *interrupt);
  if (auto opened = session.open_log(); !opened) return forward_error(opened);
  auto code =
      options.from ? watch_text(options, *interrupt, session) : watch_machine(options, *interrupt, session);
  console.finish(*interrupt);
  return code;
}

Console::Console()
    : output_(print_output), errors_([](std::string_view text) {
        [[maybe_unused]] const auto written = write_all(STDERR_FILENO, text);
      }) {
  cookie_io_functions_t functions{};
  functions.write = write_in_background;
  log_ = ::fopencookie(&errors_, "w", functions);
  if (log_ != nullptr) log::set_console_file(log_);
}

Console::~Console() {
  if (!gave_up_) errors_.flush(kFinalFlush);
  if (log_ == nullptr) return;
  log::set_console_file(nullptr);
  std::fclose(log_);
}

bool Console::print_or_wait(std::string_view text, bench::Interrupt& interrupt, Nanoseconds after_signal) {
  while (!interrupt.requested())
    if (output_.offer(text, kSlice)) return true;
  return output_.offer(text, after_signal);
}

void Console::finish(bench::Interrupt& interrupt) {
  for (BackgroundWriter* writer : {&output_, &errors_}) {
    while (!interrupt.requested() && !writer->flush(kSlice)) {
    }
    if (interrupt.requested() && !writer->flush(gave_up_ ? Nanoseconds{} : kFinalFlush)) gave_up_ = true;
  }
}

}  // namespace headroom::watch
