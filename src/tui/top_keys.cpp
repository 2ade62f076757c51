#include "tui/top_keys.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>

#include "base/files.h"
#include "base/utf8.h"
#include "sources/process_table.h"

namespace headroom::tui {

namespace {

constexpr std::size_t kLongestFilter = 64;

constexpr ProcessSignal kSignals[]{{'t', SIGTERM, "TERM"},
                                   {'i', SIGINT, "INT"},
                                   {'k', SIGKILL, "KILL"},
                                   {'s', SIGSTOP, "STOP"},
                                   {'c', SIGCONT, "CONT"}};

TopStep answer_signal(const Key& key, TopChoice& choice) {
  for (const ProcessSignal& signal : kSignals)
    if (key.is(signal.key)) return {TopAction::send_signal, &signal};
  choice.to_signal.reset();
  return {};
}

void type_filter(const Key& key, TopChoice& choice) {
  std::string& filter = choice.filter;
  if (key.kind == KeyKind::escape) filter.clear();
  if (key.kind == KeyKind::enter || key.kind == KeyKind::escape) choice.typing_filter = false;
  if (key.kind == KeyKind::backspace && !filter.empty()) {
    // All bytes of one character: those that follow its first are 10xxxxxx.
    const auto follows = [&] { return (static_cast<unsigned char>(filter.back()) & 0xC0U) == 0x80U; };
    while (filter.size() > 1 && follows()) filter.pop_back();
    filter.pop_back();
  }
  if (key.kind == KeyKind::character && key.character >= 0x20 && key.character != 0x7F &&
      filter.size() < kLongestFilter)
    append_utf8(filter, key.character);
}

void select(TopChoice& choice, const SystemSample& sample, std::int64_t step) {
  const auto rows = rows_of(sample, choice);
  if (rows.empty()) {
    choice.selected.reset();
    return;
  }
  std::int64_t now = step < 0 ? 0 : -1;  // the first key selects the first row
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rows[i]->pid == choice.selected) now = static_cast<std::int64_t>(i);
  const std::int64_t next =
      std::clamp<std::int64_t>(now + step, 0, static_cast<std::int64_t>(rows.size()) - 1);
  choice.selected = rows[static_cast<std::size_t>(next)]->pid;
}

void ask_signal(TopChoice& choice, const SystemSample& sample) {
  if (choice.is_replay) {
    choice.message = "A replay cannot send signals.";
    return;
  }
  for (const ProcessSample& process : sample.processes)
    if (process.pid == choice.selected) choice.to_signal = process;
  if (!choice.to_signal) choice.message = "Select a process with the arrow keys first.";
}

void next_samples_per_column(TopChoice& choice) {
  int& samples = choice.samples_per_column;
  samples = samples >= 60 ? 1 : samples == 16 ? 60 : samples * 4;
  choice.message = fmt::format("Charts: {} sample{} per column.", samples, samples == 1 ? "" : "s");
}

struct Toggle {
  char key;
  bool TopChoice::*choice;
};
constexpr Toggle kToggles[]{{'?', &TopChoice::help},        {'h', &TopChoice::help},
                            {'1', &TopChoice::show_memory}, {'2', &TopChoice::show_machine},
                            {'3', &TopChoice::show_charts}, {'4', &TopChoice::show_processes},
                            {'r', &TopChoice::reversed},    {'u', &TopChoice::paused},
                            {' ', &TopChoice::paused},      {'/', &TopChoice::typing_filter}};

struct KeyAction {
  Key key;
  TopAction action;
};
constexpr KeyAction kActions[]{{{.character = 'q'}, TopAction::quit},
                               {{.character = 'p'}, TopAction::toggle_pss},
                               {{.character = '+'}, TopAction::interval_longer},
                               {{.character = '-'}, TopAction::interval_shorter},
                               {{.character = '['}, TopAction::slower},
                               {{.character = ']'}, TopAction::faster},
                               {{KeyKind::left}, TopAction::step_back},
                               {{KeyKind::right}, TopAction::step_forward},
                               {{KeyKind::backspace}, TopAction::restart}};

// Closes the help, else clears the selection, else the filter.
void go_back(TopChoice& choice) {
  if (choice.help)
    choice.help = false;
  else if (choice.selected)
    choice.selected.reset();
  else
    choice.filter.clear();
}

}  // namespace

TopStep press(const Key& key, TopChoice& choice, const SystemSample& sample, int page) {
  choice.message.clear();
  if (choice.to_signal) return answer_signal(key, choice);
  if (choice.typing_filter) {
    type_filter(key, choice);
    return {};
  }
  for (const Toggle& toggle : kToggles)
    if (key.is(toggle.key)) choice.*toggle.choice = !(choice.*toggle.choice);
  for (const KeyAction& row : kActions)
    if (key == row.key) return {row.action};
  constexpr std::int64_t kAllRows = 1'000'000'000;
  const int rows = std::max(page, 1);
  if (key.kind == KeyKind::up || key.is('k')) select(choice, sample, -1);
  if (key.kind == KeyKind::down || key.is('j')) select(choice, sample, 1);
  if (key.kind == KeyKind::page_up) select(choice, sample, -rows);
  if (key.kind == KeyKind::page_down) select(choice, sample, rows);
  if (key.kind == KeyKind::home) select(choice, sample, -kAllRows);
  if (key.kind == KeyKind::end) select(choice, sample, kAllRows);
  if (key.kind == KeyKind::escape) go_back(choice);
  if (key.kind == KeyKind::function_1) choice.help = !choice.help;
  if (key.kind == KeyKind::function_6 || key.is('s'))
    choice.sort = static_cast<ProcessColumn>((static_cast<int>(choice.sort) + 1) % kProcessColumns);
  if (key.kind == KeyKind::function_9 || key.is('x')) ask_signal(choice, sample);
  if (key.is('z')) next_samples_per_column(choice);
  return {};
}

std::span<const ProcessSignal> process_signals() { return kSignals; }

Status send_signal(const ProcessSample& process, int signal) {
  const auto pid = static_cast<pid_t>(process.pid);
  const std::string what = fmt::format("cannot send a signal to {} {}", process.pid, process.name);
  if (pid <= 0) return failure(what, "invalid process number");
  // Open the descriptor before comparing start times: it refers to one process even if the PID is reused.
  // Kernels before 5.3 have no such descriptor.
  const UniqueFd handle(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!handle && errno != ENOSYS) return failure(what, errno_text(errno));
  const auto started = sources::read_process_start(pid);
  if (!started) return failure(what, "it has ended");
  if (started != process.start_ticks) return failure(what, "another process has this number now");
  const auto sent = handle ? ::syscall(SYS_pidfd_send_signal, handle.get(), signal, nullptr, 0)
                           : static_cast<long>(::kill(pid, signal));
  if (sent != 0) return failure(what, errno_text(errno));
  return {};
}

}  // namespace headroom::tui
