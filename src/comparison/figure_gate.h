// --fail-on for what is compared figure by figure: logs of headroom watch and recordings. The figures have
// the names of --json, which end in their units. Pure.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "comparison/gate_limit.h"
#include "comparison/metric_gate.h"

namespace headroom::comparison {

struct FigureRule {
  GateLimit limit;
  double amount = 0;  // a share, bytes, or a number; signed
};

struct GatedFigure {
  std::string name;
  double before = 0, after = 0;
  double low = 0, high = 0;  // the interval of the change; both are the change where it is exact

  double change() const { return after - before; }
};

// "ram_used_bytes>+5%", "max:temperature_celsius.cpu-thermal>80": figures that end in _bytes take sizes. A
// rule on what is none of `figures` is no error whatever its amount is: check_figure_gate() tells it.
Result<std::vector<FigureRule>> parse_figure_gate(std::string_view text,
                                                  const std::vector<GatedFigure>& figures);

using FigureWords = std::function<std::string(const std::string& name, double value)>;

// What is beyond its limit. A figure that both sides do not have cannot be judged.
GateJudgement check_figure_gate(const std::vector<FigureRule>& rules, const std::vector<GatedFigure>& figures,
                                const FigureWords& words);

}  // namespace headroom::comparison
