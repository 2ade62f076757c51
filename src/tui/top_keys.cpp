#include "tui/top_keys.h"

#include <signal.h>

#include <algorithm>

#include "base/utf8.h"

namespace headroom::tui {
namespace {

constexpr std::size_t kLongestFilter = 64;

TopStep answer_signal(const Key& key, TopChoice& choice) {
  int signal = 0;
  if (key.kind == KeyKind::character) {
    switch (key.character) {
      case 't':
        signal = SIGTERM;
        break;
      case 'i':
        signal = SIGINT;
        break;
      case 'k':
        signal = SIGKILL;
        break;
      case 's':
        signal = SIGSTOP;
        break;
      case 'c':
        signal = SIGCONT;
        break;
      default:
        break;
    }
  }
  if (signal != 0) return {TopAction::send_signal, signal};
  choice.to_signal.reset();
  return {};
}

void type_filter(const Key& key, TopChoice& choice) {
  switch (key.kind) {
    case KeyKind::enter:
      choice.typing_filter = false;
      break;
    case KeyKind::escape:
      choice.filter.clear();
      choice.typing_filter = false;
      break;
    case KeyKind::backspace:
      while (!choice.filter.empty()) {  // the bytes of one character
        const auto byte = static_cast<unsigned char>(choice.filter.back());
        choice.filter.pop_back();
        if ((byte & 0xC0U) != 0x80U) break;
      }
      break;
    case KeyKind::character:
      if (key.character >= 0x20 && key.character != 0x7F && choice.filter.size() < kLongestFilter)
        append_utf8(choice.filter, key.character);
      break;
    default:
      break;
  }
}

void select(TopChoice& choice, const SystemSample& sample, std::int64_t step) {
  const auto rows = rows_of(sample, choice);
  if (rows.empty()) {
    choice.selected.reset();
    return;
  }
  std::int64_t now = -1;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (choice.selected && rows[i]->pid == *choice.selected) now = static_cast<std::int64_t>(i);
  if (now < 0) now = step < 0 ? 0 : -1;  // the first key selects the first row
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
    if (choice.selected && process.pid == *choice.selected) choice.to_signal = process;
  if (!choice.to_signal) choice.message = "Select a process with the arrow keys first.";
}

void next_sort(TopChoice& choice) {
  choice.sort = static_cast<ProcessColumn>((static_cast<int>(choice.sort) + 1) % kProcessColumns);
}

TopStep press_character(std::uint32_t character, TopChoice& choice, const SystemSample& sample) {
  switch (character) {
    case 'q':
      return {TopAction::quit};
    case '?':
    case 'h':
      choice.help = !choice.help;
      break;
    case '1':
      choice.show_memory = !choice.show_memory;
      break;
    case '2':
      choice.show_machine = !choice.show_machine;
      break;
    case '3':
      choice.show_charts = !choice.show_charts;
      break;
    case '4':
      choice.show_processes = !choice.show_processes;
      break;
    case 'j':
      select(choice, sample, 1);
      break;
    case 'k':
      select(choice, sample, -1);
      break;
    case '/':
      choice.typing_filter = true;
      break;
    case 's':
      next_sort(choice);
      break;
    case 'r':
      choice.reversed = !choice.reversed;
      break;
    case 'x':
      ask_signal(choice, sample);
      break;
    case 'z':
      choice.samples_per_column = choice.samples_per_column >= 60   ? 1
                                  : choice.samples_per_column == 16 ? 60
                                                                    : choice.samples_per_column * 4;
      choice.message = choice.samples_per_column == 1
                           ? "Charts: 1 sample per column."
                           : "Charts: " + std::to_string(choice.samples_per_column) + " samples per column.";
      break;
    case 'u':
    case ' ':
      choice.paused = !choice.paused;
      break;
    case 'p':
      return {TopAction::toggle_pss};
    case '+':
      return {TopAction::interval_longer};
    case '-':
      return {TopAction::interval_shorter};
    case '[':
      return {TopAction::slower};
    case ']':
      return {TopAction::faster};
    default:
      break;
  }
  return {};
}

}  // namespace

TopStep press(const Key& key, TopChoice& choice, const SystemSample& sample, int page) {
  choice.message.clear();
  if (choice.to_signal) return answer_signal(key, choice);
  if (choice.typing_filter) {
    type_filter(key, choice);
    return {};
  }
  constexpr std::int64_t kAll = 1'000'000'000;
  switch (key.kind) {
    case KeyKind::character:
      return press_character(key.character, choice, sample);
    case KeyKind::up:
      select(choice, sample, -1);
      break;
    case KeyKind::down:
      select(choice, sample, 1);
      break;
    case KeyKind::page_up:
      select(choice, sample, -std::max(page, 1));
      break;
    case KeyKind::page_down:
      select(choice, sample, std::max(page, 1));
      break;
    case KeyKind::home:
      select(choice, sample, -kAll);
      break;
    case KeyKind::end:
      select(choice, sample, kAll);
      break;
    case KeyKind::escape:  // closes the help, else clears the selection, else the filter
      if (choice.help)
        choice.help = false;
      else if (choice.selected)
        choice.selected.reset();
      else
        choice.filter.clear();
      break;
    case KeyKind::left:
      return {TopAction::step_back};
    case KeyKind::right:
      return {TopAction::step_forward};
    case KeyKind::backspace:
      return {TopAction::restart};
    case KeyKind::function_1:
      choice.help = !choice.help;
      break;
    case KeyKind::function_6:
      next_sort(choice);
      break;
    case KeyKind::function_9:
      ask_signal(choice, sample);
      break;
    case KeyKind::enter:
      break;
  }
  return {};
}

}  // namespace headroom::tui
