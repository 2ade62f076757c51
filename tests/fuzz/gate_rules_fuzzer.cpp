// The parser of --fail-on. Accepted rules can be evaluated.
#include "comparison/gate.h"
#include "fuzz.h"

void fuzz(std::string_view text) {
  using namespace headroom;
  const auto rules = comparison::parse_gate(text);
  if (!rules) return;
  ModelResult before, after;
  before.name = after.name = "det";
  before.status = after.status = ModelStatus::ok;
  before.fps = 100;
  after.fps = 90;
  BenchResult a, b;
  const comparison::Side side_a{{"a", &a, {{&before, {}, ""}}}}, side_b{{"b", &b, {{&after, {}, ""}}}};
  (void)comparison::check_gate(*rules, comparison::compare_runs(side_a, side_b));
}
