// The parser of --fail-on. Accepted rules can be evaluated.
#include <cstdint>
#include <string_view>

#include "comparison/metric_gate.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace headroom;
  const auto rules = comparison::parse_gate({reinterpret_cast<const char*>(data), size});
  if (!rules) return 0;
  ModelResult before, after;
  before.name = after.name = "det";
  before.status = after.status = ModelStatus::ok;
  before.fps = 100;
  after.fps = 90;
  BenchResult a, b;
  const comparison::Side side_a{{"a", &a, {{&before, {}, ""}}}}, side_b{{"b", &b, {{&after, {}, ""}}}};
  (void)comparison::check_gate(*rules, comparison::compare_runs(side_a, side_b));
  return 0;
}
