// A separate program, because it counts its allocations.
#include "sources/process_table.h"

#include "sources/system_sampler.h"
#include "support/counting_new.h"
#include "support/test_support.h"
#include "watch/alert_watch.h"
#include "watch/sample_log.h"

namespace headroom::watch {
namespace {

TEST(LineAllocations, SamplingToAJsonLineDoesNotAllocate) {
  sources::SystemSampler sampler;
  AlertWatch alerts(default_alert_settings(), {100'000'000});
  SystemSample sample;
  std::string line;
  std::int64_t before = 0;
  for (int i = 0; i < 400; ++i) {
    if (i == 100) before = test::allocations_so_far();
    sampler.sample_into(sample);
    sample.time = {i * 100'000'000LL};
    // A shortage on this machine is an alert, which allocates when it begins. Such samples are not checked
    // here.
    const auto events = alerts.add(sample);
    line.clear();
    if (events.empty()) append_json_line(line, sample);
  }
  // For ten minutes the forecast's levels and the largest free blocks still grow.
  EXPECT_LT(test::allocations_so_far() - before, 20);
}

}  // namespace
}  // namespace headroom::watch
