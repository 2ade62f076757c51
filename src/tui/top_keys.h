// The key bindings of `headroom top`.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"
#include "tui/top_view.h"
#include "types/sample.h"

namespace headroom::tui {

enum class KeyKind : std::uint8_t {
  character,
  up,
  down,
  left,
  right,
  page_up,
  page_down,
  home,
  end,
  enter,
  escape,
  backspace,
  function_1,
  function_6,
  function_9
};

struct Key {
  KeyKind kind = KeyKind::character;
  std::uint32_t character = 0;  // code point
  bool is(char wanted) const {
    return kind == KeyKind::character && character == static_cast<std::uint32_t>(wanted);
  }
  friend bool operator==(const Key&, const Key&) = default;
};

struct ProcessSignal {
  char key;
  int number;
  std::string_view name;  // sigabbrev_np() needs glibc 2.32; JetPack 5 has 2.31
};
std::span<const ProcessSignal> process_signals();

// An action for the main loop. All other effects of a key are changes of TopChoice.
enum class TopAction : std::uint8_t {
  none,
  quit,
  interval_longer,
  interval_shorter,
  send_signal,  // the main loop sends TopStep::signal to choice.to_signal, then clears to_signal
  toggle_pss,
  step_back,
  step_forward,
  slower,
  faster,
  restart
};

struct TopStep {
  TopAction action = TopAction::none;
  const ProcessSignal* signal = nullptr;
};

// Handles a key. `page`: the number of table rows.
TopStep press(const Key& key, TopChoice& choice, const SystemSample& sample, int page);

// Sends a signal to the process that the user selected. Fails if its PID now belongs to another process.
Status send_signal(const ProcessSample& process, int signal);

}  // namespace headroom::tui
