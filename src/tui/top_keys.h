// What the keys of `headroom top` do.
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
  std::uint32_t character = 0;  // its code point
};

// What the loop has to do; everything else is in the choice.
enum class TopAction : std::uint8_t {
  none,
  quit,
  interval_longer,
  interval_shorter,
  send_signal,  // TopStep::signal to choice.to_signal, as it was before the key
  toggle_pss,
  step_back,
  step_on,
  slower,
  faster,
  restart
};

struct TopStep {
  TopAction action = TopAction::none;
  int signal = 0;
};

// `page`: rows of the table.
TopStep press(const Key& key, TopChoice& choice, const SystemSample& sample, int page);

}  // namespace headroom::tui
