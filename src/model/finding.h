// What headroom doctor answers with: what happened, where that was seen, how sure it is, and what helps.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/units.h"

namespace headroom {

// The worst first: findings are ordered by it.
enum class Severity {
  severe,   // something failed, was killed, or will
  warning,  // worth a change; it works for now
  note,     // good to know
  benign,   // looks like trouble and is none
};

// How sure the cause is.
enum class Confidence {
  certain,   // the program or the kernel said so itself, or it was measured
  likely,    // the figures fit, and other causes are rarer
  possible,  // one of several causes that look alike
};

// A figure by its name with unit, as "requested_bytes"; a name that ends in _bytes holds an integer.
struct Figure {
  std::string name;
  std::variant<std::int64_t, double, std::string> value;
};

struct Evidence {
  std::string file;
  std::int64_t line = 0;  // from 1; 0: the file has none
  std::string text;       // as it was found, at most some hundred bytes of it
};

// A cure as headroom bench can try it: what is different for one model of a run.
struct CureSettings {
  std::string model;     // its name in the run
  std::string settings;  // behind its path, "prepack=off,mapped=on" (set_by_words)
  std::optional<std::int64_t> max_frames_in_memory{};
  // Other models of the run that get the same settings, or are left out: then all that were in memory at once
  // are tried at once.
  std::vector<std::string> also{};
  bool leave_out_also = false;
  friend bool operator==(const CureSettings&, const CureSettings&) = default;
};

// What a cure did when it was tried.
enum class CureVerdict {
  helps,          // less memory, no slower, or came through where it did not before
  costs_speed,    // less memory, and slower
  no_difference,  // none that runs of one thing do not have, too
  worse,          // more memory, or slower for nothing
  failed,         // it did not come through
};

struct TriedFigure {
  std::string name;  // with its unit: "run_peak_bytes", "latency_ns"
  double before = 0, after = 0;
  double low = 1, high = 1;  // the interval of after / before
  bool differs = false;      // by more than runs of one thing do
  bool is_judged = true;     // false: the runs tell too little of it (latency of fewer than ten frames)
};

struct TriedCure {
  CureSettings settings;
  std::string command;  // that was run
  CureVerdict verdict = CureVerdict::no_difference;
  std::string sentence;
  std::vector<TriedFigure> figures;  // those that both runs have
  // Of the larger of load peak and run peak; below zero: it takes more. Absent where one did not come
  // through.
  std::optional<Bytes> saved;
  std::optional<double> latency_change;  // after / before - 1
};

struct Cure {
  std::string what;
  std::string command;                     // or the setting; empty where there is none
  std::optional<Bytes> saves;              // what it should save; absent where nobody can know
  std::optional<CureSettings> settings{};  // absent where headroom bench cannot try it
  std::optional<TriedCure> tried{};        // --try
};

struct Finding {
  std::string id;  // "pytorch-out-of-memory"; never changes its meaning
  Severity severity = Severity::warning;
  std::string title;  // what happened, with its figures
  std::string cause;  // the likely cause
  Confidence confidence = Confidence::certain;
  std::int64_t times = 1;
  std::vector<Evidence> evidence;
  std::vector<Figure> figures;
  std::vector<Cure> cures;  // the largest gain first
  // The first cure is the one for the cause, and stays the first whatever others save; not where it was tried
  // in vain.
  bool first_cure_meets_cause = false;
};

constexpr std::string_view name_of(Severity severity) {
  constexpr std::string_view kNames[] = {"severe", "warning", "note", "benign"};
  return kNames[static_cast<int>(severity)];
}
constexpr std::string_view name_of(CureVerdict verdict) {
  constexpr std::string_view kNames[] = {"helps", "costs_speed", "no_difference", "worse", "failed"};
  return kNames[static_cast<int>(verdict)];
}
constexpr std::string_view name_of(Confidence confidence) {
  constexpr std::string_view kNames[] = {"certain", "likely", "possible"};
  return kNames[static_cast<int>(confidence)];
}

}  // namespace headroom
