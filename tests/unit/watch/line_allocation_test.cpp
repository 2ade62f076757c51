// A program of its own: it counts its allocations.
#include "sources/process_table.h"
#include "sources/system_sampler.h"
#include "support/counting_new.h"
#include "support/test_support.h"
#include "watch/alert_watch.h"
#include "watch/sample_writer.h"

namespace headroom::watch {
namespace {

TEST(LineAllocations, ASampleOfThisMachineWithAlertsToAJsonLine) {
  sources::SystemSampler sampler;
  AlertWatch alerts(default_alert_settings(), {100'000'000});
  SystemSample sample;
  std::string line;
  std::int64_t before = 0;
  for (int i = 0; i < 400; ++i) {
    if (i == 100) before = test::allocations_so_far();
    sampler.sample_into(sample);
    sample.time = {i * 100'000'000LL};
    // What this machine has too little of is an alert, which allocates when it begins: not looked at here.
    const auto events = alerts.add(sample);
    line.clear();
    if (events.empty()) append_json_line(line, sample);
  }
  // The forecast's levels and the largest free blocks of ten minutes still grow.
  EXPECT_LT(test::allocations_so_far() - before, 20);
}

}  // namespace
}  // namespace headroom::watch
