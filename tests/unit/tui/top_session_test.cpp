#include "tui/top_session.h"

#include "sample_machines.h"
#include "support/test_support.h"

namespace headroom::tui {
namespace {

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
  EXPECT_EQ(std::count_if(since_then.begin(), since_then.end(), [](auto value) { return !!value; }), 32);
  session.hold_picture(false);
  EXPECT_EQ(session.picture().sample->time.count, 60'000'000'000);
  EXPECT_EQ(session.picture().since_before, (Nanoseconds{1'000'000'000})) << "rates are per interval";
  ASSERT_EQ(session.picture().kernel_events.size(), 1u);
  EXPECT_EQ(session.picture().kernel_events[0].process, "victim");
}

}  // namespace
}  // namespace headroom::tui
