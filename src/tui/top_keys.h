// The key bindings of `headroom top`.
#pragma once

#include <cstdint>

#include "tui/top_view.h"

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
};

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
  int signal = 0;
};

// Handles a key. `page`: the number of table rows.
TopStep press(const Key& key, TopChoice& choice, const SystemSample& sample, int page);

}  // namespace headroom::tui
