#include "tui/top_keys.h"

#include <signal.h>

#include "sample_machines.h"
#include "support/test_support.h"

namespace headroom::tui {
namespace {

struct Keyboard {
  SystemSample sample = orin_sample();
  TopChoice choice;
  TopStep press_character(char character) {
    return press({KeyKind::character, static_cast<unsigned char>(character)}, choice, sample, 3);
  }
  TopStep press_kind(KeyKind kind) { return press({kind}, choice, sample, 3); }
};

TEST(TopKeys, SelectsInTableOrder) {
  Keyboard keys;
  keys.press_kind(KeyKind::down);
  EXPECT_EQ(keys.choice.selected, 2210);
  keys.press_kind(KeyKind::page_down);
  EXPECT_EQ(keys.choice.selected, 1801);
  keys.press_kind(KeyKind::end);
  EXPECT_EQ(keys.choice.selected, 1);
  keys.press_kind(KeyKind::down);
  EXPECT_EQ(keys.choice.selected, 1);
  keys.press_kind(KeyKind::home);
  EXPECT_EQ(keys.choice.selected, 2210);
  keys.press_character('k');
  EXPECT_EQ(keys.choice.selected, 2210);
  keys.press_kind(KeyKind::escape);
  EXPECT_EQ(keys.choice.selected, std::nullopt);
  keys.sample.processes.clear();
  keys.press_character('j');
  EXPECT_EQ(keys.choice.selected, std::nullopt);
}

TEST(TopKeys, AsksForASignalAndOtherKeysCancel) {
  Keyboard keys;
  keys.press_character('x');
  EXPECT_FALSE(keys.choice.to_signal);
  EXPECT_THAT(keys.choice.message, testing::HasSubstr("Select"));
  keys.press_character('j');
  keys.press_kind(KeyKind::function_9);
  ASSERT_TRUE(keys.choice.to_signal);
  EXPECT_EQ(keys.choice.to_signal->pid, 2210);
  EXPECT_EQ(keys.press_character('q').action, TopAction::none);
  EXPECT_FALSE(keys.choice.to_signal);
  keys.press_character('x');
  const TopStep step = keys.press_character('k');
  EXPECT_EQ(step.action, TopAction::send_signal);
  EXPECT_EQ(step.signal, SIGKILL);
  keys.choice.to_signal.reset();
  keys.choice.is_replay = true;
  keys.press_character('x');
  EXPECT_FALSE(keys.choice.to_signal);
}

TEST(TopKeys, TypesAFilter) {
  Keyboard keys;
  keys.press_character('/');
  for (const char character : std::string("qx"))
    EXPECT_EQ(keys.press_character(character).action, TopAction::none);
  press({KeyKind::character, 0x00E9}, keys.choice, keys.sample, 3);
  EXPECT_EQ(keys.choice.filter, "qx\u00e9");
  keys.press_kind(KeyKind::backspace);
  EXPECT_EQ(keys.choice.filter, "qx");
  keys.press_kind(KeyKind::enter);
  EXPECT_FALSE(keys.choice.typing_filter);
  EXPECT_EQ(keys.choice.filter, "qx");
  keys.press_character('/');
  keys.press_kind(KeyKind::escape);
  EXPECT_EQ(keys.choice.filter, "");
  EXPECT_EQ(keys.press_character('q').action, TopAction::quit);
}

TEST(TopKeys, ChangesPanelsSortIntervalAndCharts) {
  Keyboard keys;
  for (const char character : std::string("1234")) keys.press_character(character);
  EXPECT_FALSE(keys.choice.show_memory || keys.choice.show_machine || keys.choice.show_charts ||
               keys.choice.show_processes);
  for (int i = 0; i < kProcessColumns; ++i) keys.press_character('s');
  EXPECT_EQ(keys.choice.sort, ProcessColumn::memory);
  keys.press_kind(KeyKind::function_6);
  EXPECT_EQ(keys.choice.sort, ProcessColumn::gpu);
  keys.press_character('r');
  EXPECT_TRUE(keys.choice.reversed);
  for (const int samples : {4, 16, 60, 1}) {
    keys.press_character('z');
    EXPECT_EQ(keys.choice.samples_per_column, samples);
  }
  EXPECT_EQ(keys.press_character('+').action, TopAction::interval_longer);
  EXPECT_EQ(keys.press_character('-').action, TopAction::interval_shorter);
  EXPECT_EQ(keys.press_character('[').action, TopAction::slower);
  EXPECT_EQ(keys.press_character(']').action, TopAction::faster);
  EXPECT_EQ(keys.press_kind(KeyKind::left).action, TopAction::step_back);
  EXPECT_EQ(keys.press_kind(KeyKind::right).action, TopAction::step_forward);
  EXPECT_EQ(keys.press_kind(KeyKind::backspace).action, TopAction::restart);
  keys.press_character('h');
  EXPECT_TRUE(keys.choice.help);
  keys.press_kind(KeyKind::function_1);
  EXPECT_FALSE(keys.choice.help);
}

}  // namespace
}  // namespace headroom::tui
