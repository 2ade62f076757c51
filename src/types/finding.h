// A result of headroom doctor: what happened, the evidence, the confidence, and the cures.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/units.h"
#include "types/enum_names.h"

namespace headroom {

// Sorted from worst to least; findings are ordered by it.
enum class Severity {
  severe,   // a failure or a kill, happened or expected
  warning,  // needs a change, but works for now
  note,     // information
  benign,   // looks like trouble, but is harmless
};

// How certain the cause is.
enum class Confidence {
  certain,   // stated by the program or the kernel, or measured
  likely,    // the figures match, and other causes are rarer
  possible,  // one of several causes that look alike
};

// A figure. Its name contains the unit: "requested_bytes". A name that ends in _bytes has an integer value.
struct Figure {
  std::string name;
  std::variant<std::int64_t, double, std::string> value;
};

struct Evidence {
  std::string file{};
  std::int64_t line = 0;  // from 1; 0: the input has no lines
  std::string text{};     // quoted from the input, at most some hundred bytes
};

// A cure that headroom bench can try: changed settings for one model of a run.
struct CureSettings {
  std::string model;     // the model's name in the run
  std::string settings;  // added after its path, "prepack=off,mapped=on" (set_settings)
  std::optional<std::int64_t> max_frames_in_memory{};
  // Other models of the run that get the same settings, or are left out. Models that were in memory at the
  // same time are then tried together.
  std::vector<std::string> also{};
  bool leave_out_also = false;
  friend bool operator==(const CureSettings&, const CureSettings&) = default;
};

// The result of trying a cure.
enum class CureVerdict {
  helps,          // less memory and not slower, or the run succeeded where it failed before
  costs_speed,    // less memory, but slower
  no_difference,  // the difference is within the variation of identical runs
  worse,          // more memory, or slower without a gain
  failed,         // the run with the cure failed
};

struct TriedFigure {
  std::string name;  // with unit: "run_peak_bytes", "latency_ns"
  double before = 0, after = 0;
  // Interval of after / before; `high` is infinite for a time of too few runs. Its confidence grows with the
  // number of comparisons (comparison::compare_runs()).
  double low = 1, high = 1;
  bool differs = false;   // differs by more than identical runs do
  bool is_judged = true;  // false: too little data to judge (latency of too few runs or frames)
};

struct TriedCure {
  CureSettings settings;
  std::string command;  // the command that was run
  CureVerdict verdict = CureVerdict::no_difference;
  std::string sentence;
  std::vector<TriedFigure> figures;  // figures that both runs have
  // Reduction of the larger of load peak and run peak; negative if the cure needs more. Absent if one of the
  // runs failed.
  std::optional<Bytes> saved;
  std::optional<double> latency_change;  // after / before − 1: -0.1 is 10 % faster
};

struct Cure {
  std::string what;
  std::string command{};                   // a command or a setting; may be empty
  std::optional<Bytes> saves{};            // expected saving; absent if it cannot be known
  std::optional<CureSettings> settings{};  // absent if headroom bench cannot try the cure
  std::optional<TriedCure> tried{};        // --try
};

struct Finding {
  std::string id{};  // "pytorch-out-of-memory"; an id never changes its meaning
  Severity severity = Severity::warning;
  std::string title{};  // what happened, with figures
  std::string cause{};  // the likely cause
  Confidence confidence = Confidence::certain;
  std::int64_t times = 1;  // number of occurrences
  std::vector<Evidence> evidence{};
  std::vector<Figure> figures{};
  std::vector<Cure> cures{};  // largest saving first
  // The first cure addresses the cause. It stays first even if others save more, unless a trial showed that
  // it does not help.
  bool first_cure_meets_cause = false;
};

constexpr std::string_view name_of(Severity severity) {
  return name_in({"severe", "warning", "note", "benign"}, severity);
}
constexpr std::string_view name_of(CureVerdict verdict) {
  return name_in({"helps", "costs_speed", "no_difference", "worse", "failed"}, verdict);
}
constexpr std::string_view name_of(Confidence confidence) {
  return name_in({"certain", "likely", "possible"}, confidence);
}

}  // namespace headroom
