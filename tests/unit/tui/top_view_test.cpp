// Compares the screens of three machines with their golden files. After an intended change:
//   HEADROOM_UPDATE_GOLDEN=1 build/release/tests/tui_test --gtest_filter='*Golden*'
// Then read the difference with git before you commit it.

#include <cmath>
#include <cstdlib>
#include <memory>

#include "base/text.h"
#include "base/utf8.h"
#include "sample_machines.h"
#include "support/test_support.h"
#include "tui/canvas.h"
#include "tui/panels.h"
#include "tui/top_session.h"
#include "tui/top_view.h"

namespace headroom::tui {

namespace {
using testing::HasSubstr;
using testing::Not;

struct Machine {
  std::string name;
  SystemSample sample;
};

std::vector<Machine> machines() {
  return {{"orin", orin_sample()}, {"desktop", desktop_sample()}, {"vm", vm_sample()}};
}

// A session of one minute with changing GPU load.
std::unique_ptr<TopSession> session_of(const SystemSample& last, int samples = 60) {
  SessionOptions options;
  options.alerts = watch::default_alert_settings();
  auto session = std::make_unique<TopSession>(options);
  for (int second = 1; second <= samples; ++second) {
    SystemSample sample = last;
    sample.time = last.time - Nanoseconds{std::int64_t{samples - second} * 1'000'000'000};
    if (second < samples && sample.gpu_percent) sample.gpu_percent = 50 + 45 * std::sin(second / 4.0);
    if (second < samples && sample.cpu_percent)
      sample.cpu_percent = *sample.cpu_percent * (second % 20) / 20.0;
    session->take(sample);
  }
  return session;
}

TopPicture picture_of(const TopSession& session) {
  TopPicture picture = session.picture();
  picture.source = "robot-7";
  picture.pace = "every 1 s";
  picture.clock = "14:02:31";
  picture.processes = 212;
  return picture;
}

std::string screen_of(const SystemSample& sample, int width, int height, TopChoice choice = {},
                      ColorDepth depth = ColorDepth::none) {
  const auto session = session_of(sample);
  return to_text(draw_top(picture_of(*session), choice, width, height), depth);
}

TEST(TopGolden, MachinesOnSmallAndLargeScreens) {
  for (const Machine& machine : machines()) {
    test::compare_with_golden("top/" + machine.name + "_80x24.txt", screen_of(machine.sample, 80, 24));
    test::compare_with_golden("top/" + machine.name + "_160x50.txt", screen_of(machine.sample, 160, 50));
  }
}

TEST(TopGolden, ColoursAndAscii) {
  test::compare_with_golden("top/orin_256_colours.txt",
                            screen_of(orin_sample(), 80, 24, {}, ColorDepth::colors_256));
  test::compare_with_golden("top/desktop_16_colours.txt",
                            screen_of(desktop_sample(), 80, 24, {}, ColorDepth::colors_16));
  TopChoice ascii;
  ascii.ascii = true;
  test::compare_with_golden("top/orin_ascii.txt", screen_of(orin_sample(), 80, 24, ascii));
}

TEST(TopGolden, Help) {
  TopChoice choice;
  choice.help = true;
  test::compare_with_golden("top/help.txt", screen_of(vm_sample(), 80, 24, choice));
}

TEST(TopView, FitsEverySize) {
  for (const Machine& machine : machines()) {
    const auto session = session_of(machine.sample, 12);
    for (const int width : {1, 2, 7, 20, 39, 80, 81, 133, 300}) {
      for (const int height : {1, 2, 3, 5, 10, 17, 24, 25, 32, 60}) {
        TopChoice choice;
        choice.selected = machine.sample.processes.back().pid;
        const std::string text =
            to_text(draw_top(picture_of(*session), choice, width, height), ColorDepth::none);
        const auto lines = split(text, '\n');
        ASSERT_EQ(lines.size(), static_cast<std::size_t>(height) + 1);
        for (const auto line : lines) EXPECT_LE(display_width(line), width) << line;
      }
    }
  }
}

TEST(TopView, OmitsUnknownFigures) {
  const std::string vm = screen_of(vm_sample(), 120, 40);
  EXPECT_THAT(vm, Not(HasSubstr("GPU 0")));
  EXPECT_THAT(vm, Not(HasSubstr("Temp")));
  EXPECT_THAT(vm, HasSubstr("Swap none"));
  SystemSample little;  // as from a line of tegrastats
  little.ram_total = gibibytes(8);
  little.ram_used = gibibytes(6);
  little.swap_total.reset();
  const std::string text = screen_of(little, 80, 24);
  EXPECT_THAT(text, HasSubstr("cache and free 2.00 GiB"));
  EXPECT_THAT(text, Not(HasSubstr("Swap")));
  EXPECT_THAT(text, HasSubstr("No process list in this sample."));
  EXPECT_THAT(screen_of(SystemSample{}, 80, 24), HasSubstr("Memory unknown"));
}

TEST(TopView, ShowsAlertsAndKills) {
  SystemSample full = vm_sample();
  full.ram_used = gibibytes(4) - mebibytes(100);
  full.ram_available = mebibytes(100);
  full.kernel_events = {
      {KernelEventKind::oom_kill, 77, "victim", "Out of memory: Killed process 77 (victim)\033[2J"}};
  const std::string text = screen_of(full, 120, 40);
  EXPECT_THAT(text, HasSubstr("Alert total_memory"));
  EXPECT_THAT(text, HasSubstr("OOM kill victim 77"));
  EXPECT_THAT(text, Not(HasSubstr("\033")));
  const std::string small = screen_of(full, 80, 24);
  EXPECT_THAT(small, HasSubstr("Kernel"));
}

TEST(TopView, SortsAndFiltersProcesses) {
  SystemSample sample = orin_sample();
  const auto pids = [&sample](TopChoice choice) {
    std::vector<std::int64_t> list;
    for (const ProcessSample* row : rows_of(sample, choice)) list.push_back(row->pid);
    return list;
  };
  TopChoice choice;
  EXPECT_THAT(pids(choice), testing::ElementsAre(2210, 2214, 2230, 1801, 990, 1));
  choice.reversed = true;
  EXPECT_THAT(pids(choice), testing::ElementsAre(1, 990, 1801, 2230, 2214, 2210));
  choice.sort = ProcessColumn::gpu;  // processes without a value stay last
  EXPECT_THAT(pids(choice), testing::ElementsAre(990, 2230, 2214, 2210, 1, 1801));
  choice = {};
  choice.sort = ProcessColumn::name;
  EXPECT_THAT(pids(choice), testing::ElementsAre(990, 1801, 2230, 1, 2210, 2214));
  choice.filter = "NODE";
  EXPECT_THAT(pids(choice), testing::ElementsAre(2210));
  choice.filter = "990";
  EXPECT_THAT(pids(choice), testing::ElementsAre(990));
}

TEST(TopView, AlwaysShowsTheSelectedProcess) {
  SystemSample sample = vm_sample();
  for (int i = 0; i < 200; ++i) {
    ProcessSample process = sample.processes[0];
    process.pid = 1000 + i;
    process.name = "p" + std::to_string(i);
    process.rss = Bytes{1000 - i};
    sample.processes.push_back(process);
  }
  TopChoice choice;
  choice.selected = 1150;
  EXPECT_THAT(screen_of(sample, 80, 24, choice, ColorDepth::colors_16), HasSubstr(";7m   1150"));
}

TEST(Panels, FormatsShortSizes) {
  EXPECT_EQ(short_size(Bytes{0}), "0 B");
  EXPECT_EQ(short_size(Bytes{999}), "999 B");
  EXPECT_EQ(short_size(Bytes{1000}), "0.98 KiB");
  EXPECT_EQ(short_size(mebibytes(512)), "512 MiB");
  EXPECT_EQ(short_size(mebibytes(1023)), "1.00 GiB");
  EXPECT_EQ(short_size(mebibytes(12282)), "12.0 GiB");
  EXPECT_EQ(short_size(kibibytes(1024 * 1024 * 20)), "20.0 GiB");
}

TEST(Panels, CountsPiecesThatDoNotFit) {
  Canvas canvas(12, 2);
  EXPECT_EQ(put_flow(canvas, 0, {{{"aaaa", {}}}, {{"bbbb", {}}}, {{"cccc", {}}}, {{"dddd", {}}}}, 2), 2);
  EXPECT_EQ(to_text(canvas, ColorDepth::none), "aaaa  bbbb\ncccc  dddd\n");
  Canvas one(12, 1);
  put_flow(one, 0, {{{"aaaa", {}}}, {{"bbbb", {}}}, {{"cccc", {}}}}, 1);
  EXPECT_EQ(to_text(one, ColorDepth::none), "aaaa +2\n");
}

TEST(Canvas, ClipsTextOutside) {
  Canvas canvas(4, 2);
  EXPECT_EQ(canvas.put(2, 0, "abc"), 4);
  canvas.put(0, 5, "x");
  canvas.put(-1, 0, "x");
  EXPECT_EQ(to_text(canvas, ColorDepth::none), "  ab\n\n");
}

TEST(Canvas, HandlesWideCombiningAndControlCharacters) {
  Canvas canvas(6, 1);
  canvas.put(0, 0, "日e\u0301\033x");
  EXPECT_EQ(canvas.at(1, 0).glyph, "");
  EXPECT_EQ(to_text(canvas, ColorDepth::none), "日e\u0301?x\n");
  Canvas narrow(1, 1);
  narrow.put(0, 0, "日");
  EXPECT_EQ(to_text(narrow, ColorDepth::none), "\n");
}

TEST(Canvas, WritesColoursByDepth) {
  Canvas canvas(4, 1);
  canvas.put(0, 0, "a", {Ink::critical, true});
  canvas.put(1, 0, "b");
  EXPECT_EQ(to_text(canvas, ColorDepth::none), "ab\n");
  EXPECT_EQ(to_text(canvas, ColorDepth::colors_16), "\033[0;1;31ma\033[0mb\n");
  EXPECT_EQ(to_text(canvas, ColorDepth::colors_256), "\033[0;1;38;5;203ma\033[0mb\n");
}

}  // namespace

}  // namespace headroom::tui
