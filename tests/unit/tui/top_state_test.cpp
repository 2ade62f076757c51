#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sample_machines.h"
#include "sources/process_table.h"
#include "support/test_support.h"
#include "tui/top_keys.h"
#include "tui/top_session.h"
#include "tui/top_view.h"

namespace headroom::tui {

namespace {
using testing::ElementsAre;
using Value = std::optional<double>;

SystemSample with_cpu(std::optional<double> percent) {
  SystemSample sample;
  sample.cpu_percent = percent;
  return sample;
}

TEST(TopHistory, NewestIsLastAndAbsentStaysAbsent) {
  TopHistory history;
  for (const Value& value : {Value{10}, Value{}, Value{30}}) history.add(with_cpu(value));
  EXPECT_THAT(history.columns(Curve::cpu, 5, 1),
              ElementsAre(Value{}, Value{}, Value{10}, Value{}, Value{30}));
  EXPECT_THAT(history.columns(Curve::cpu, 2, 1), ElementsAre(Value{}, Value{30}));
  EXPECT_FALSE(history.has(Curve::gpu));
  EXPECT_TRUE(history.has(Curve::cpu));
  EXPECT_TRUE(history.columns(Curve::cpu, -1, 1).empty());
}

// A peak stays in its column when the next sample arrives.
TEST(TopHistory, ColumnsOfSeveralSamplesKeepTheirPeaks) {
  TopHistory history;
  for (const double value : {1, 9, 2, 3, 4}) history.add(with_cpu(value));
  EXPECT_THAT(history.columns(Curve::cpu, 3, 2), ElementsAre(Value{9}, Value{3}, Value{4}));
  history.add(with_cpu(5));
  EXPECT_THAT(history.columns(Curve::cpu, 3, 2), ElementsAre(Value{9}, Value{3}, Value{5}));
  for (std::size_t i = 0; i < TopHistory::kMost; ++i) history.add(with_cpu(7));
  EXPECT_EQ(history.columns(Curve::cpu, static_cast<int>(TopHistory::kMost) + 1, 1).front(), std::nullopt);
}

SystemSample at_second(int second) {
  SystemSample sample = vm_sample();
  sample.time = {second * 1'000'000'000LL};
  return sample;
}

TEST(TopSession, HeldPictureDoesNotChangeDuringSampling) {
  SessionOptions options;
  options.alerts = watch::default_alert_settings();
  TopSession session(options);
  SystemSample sample = at_second(1);
  session.take(sample);
  session.hold_picture(true);
  for (int second = 2; second <= 60; ++second) {
    sample = at_second(second);
    sample.oom_kills = second == 30 ? 1 : 0;
    sample.kernel_events.clear();
    if (second == 30) sample.kernel_events.push_back({KernelEventKind::oom_kill, 7, "victim", "killed"});
    session.take(sample);
    if (second == 32) {
      EXPECT_EQ(session.sample().time.count, 1'000'000'000);
      EXPECT_EQ(session.picture().sample->time.count, 1'000'000'000);
      EXPECT_TRUE(session.picture().alerts.empty());
      EXPECT_TRUE(session.picture().kernel_events.empty());
      session.hold_picture(false);
      ASSERT_EQ(session.picture().alerts.size(), 1u);
      EXPECT_EQ(session.picture().alerts[0].rule, "oom_kill");
      session.hold_picture(true);
    }
  }
  const auto since_then = session.picture().history->columns(Curve::memory, 100, 1);
  EXPECT_EQ(std::ranges::count_if(since_then, [](auto value) { return !!value; }), 32);
  session.hold_picture(false);
  EXPECT_EQ(session.picture().sample->time.count, 60'000'000'000);
  EXPECT_EQ(session.picture().since_before, (Nanoseconds{1'000'000'000})) << "rates are per interval";
  ASSERT_EQ(session.picture().kernel_events.size(), 1u);
  EXPECT_EQ(session.picture().kernel_events[0].process, "victim");
}

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
  ASSERT_NE(step.signal, nullptr);
  EXPECT_EQ(step.signal->number, SIGKILL);
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

using testing::HasSubstr;

TEST(SendSignal, SendsOnlyToTheProcessWithTheSameStartTime) {
  const pid_t child = ::fork();
  if (child == 0)
    for (;;) ::pause();
  ProcessSample process;
  process.pid = child;
  process.name = "any name";
  process.start_ticks = sources::read_process_start(child);
  ASSERT_TRUE(process.start_ticks);
  --*process.start_ticks;  // a process that had the same number before
  const auto other = send_signal(process, SIGKILL);
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().sentence(), HasSubstr("another process has this number now"));
  EXPECT_EQ(::waitpid(child, nullptr, WNOHANG), 0);
  process.start_ticks.reset();
  EXPECT_FALSE(send_signal(process, SIGKILL)) << "the start time is unknown";

  process.start_ticks = sources::read_process_start(child);
  EXPECT_TRUE(send_signal(process, SIGTERM));
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WTERMSIG(status), SIGTERM);
  const auto ended = send_signal(process, SIGTERM);
  ASSERT_FALSE(ended);
}

}  // namespace

}  // namespace headroom::tui
