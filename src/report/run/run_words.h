// What all views of a run say in the same words: the outcome of each model, the limit, the trials of --tune,
// and the verdict.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "types/bench_result.h"

namespace headroom::report {

// Errors of models in a run that ended early: of the model that was being measured, and of the later ones.
inline constexpr std::string_view kCutShort = "the run ended while it was being measured";
inline constexpr std::string_view kNotReached = "the run ended before it was measured";

enum class Outcome {
  ok,
  over,         // completed, and above the limit in a sample
  prepared,     // completed the setup phase, not measured (--skip-inference)
  fallen,       // out of memory, crashed, timed out or failed: see the status
  cut_short,    // the run ended during its measurement
  not_reached,  // the run ended before
  skipped,      // a slot without a path
};
Outcome outcome_of(const ModelResult& model);
// "ok", "over the limit", "prepared", "out of memory", "cut short", "not reached", "skipped".
std::string_view words_for_outcome(const ModelResult& model);
// Of a process that had all models: true if the run ended before it, and the words for its outcome.
bool was_cut_short(ModelStatus status, std::string_view error);
std::string_view words_for_outcome(ModelStatus status, std::string_view error);

// True if a model was only prepared (--skip-inference).
bool any_prepared(const std::vector<ModelResult>& models);
// Models without figures (skipped, not reached) come last; otherwise the order stays.
std::vector<const ModelResult*> in_reading_order(const std::vector<ModelResult>& models);

// Names the models whose latency varies by more than 2.5 % (standard deviation over mean), in one line for
// all: on most machines most models vary, and a line for each would bury the rest. Models with fewer than 10
// frames are not judged, because one slow frame would decide. Empty if no model varies.
std::string words_for_noise(const BenchResult& result);
// The model's warnings, without the one about variation if there are too few frames.
std::vector<std::string> warnings_of(const ModelResult& model);
// True for the warning about varying latency. The terminal prints one line for all models instead.
bool is_about_variation(std::string_view warning);

// True if a control group enforces the limit. Its account differs from the resident size, and only the
// account can be compared with the limit.
bool counts_by_group(const Limit& limit);
// True if RLIMIT_DATA enforces the limit. It counts reserved private writable memory (VmData).
bool counts_by_reservation(const Limit& limit);

// 0.336 of the limit → "33.6 %".
std::string share_of(Bytes peak, const Limit& limit);
// "147.2 MiB, 92.0 % of the limit". If the limit does not count resident memory:
// "147.2 MiB charged to the limit, 92.0 % of it (resident 175.4 MiB)". Empty without a measurement.
std::string peak_against(const ModelResult& model, const std::optional<Limit>& limit);

// Part of the machine's memory that a process uses: 0.016. Absent if the machine's memory is unknown.
std::optional<double> share_of_board(const std::optional<Bytes>& peak, const HostInfo& host);
// Part of a GPU's memory that a model uses at its peak. Absent if either is unknown.
std::optional<double> share_of_gpu(const GpuMemory& gpu);
// "Largest resident peak: 128.4 MiB, 1.6 % of this machine's 8.00 GiB", and one line for each GPU.
std::vector<std::string> words_for_shares(const BenchResult& result);

// Memory that the model's runtime takes before a model is loaded: its code and tables.
std::optional<Bytes> own_memory_of_runtime(const ModelMemory& memory);
// "TensorRT's own code and tables: 341.0 MiB …", one line for each runtime of the run.
std::vector<std::string> words_for_runtimes(const BenchResult& result);

// The meaning of the limit's type according to the probe of this run, with the size of the probe.
std::string meaning_of(const Limit& limit);
// The limit's note, and a note if it is larger than the machine's memory; may be empty.
std::string notes_on(const Limit& limit, const HostInfo& host);
// True if memory runs out before the limit does.
bool is_above_memory(const Limit& limit, const HostInfo& host);

// "fastest that fits", "smallest within 5 %", both, or empty for a trial that was not kept.
std::string kept_as(const ModelResult& model, const TuneTrial& trial);
// The settings that differ from `base`: "arena=off".
std::string difference(const RuntimeSettings& settings, const RuntimeSettings& base);
// "fastest of 5 settings tried: threads=2 …, P50 14.20 ms, peak 50.9 MiB; smallest within 5 %: arena=off, …".
// Empty without trials.
std::string describe_tuning(const ModelResult& model);

// The answer to "does it fit?" in one sentence, and a sentence for each failure.
enum class Tone {
  good,     // everything stayed inside an enforced limit
  neutral,  // no failure, and no proof: no limit, or a limit that nothing enforces
  bad,      // a model failed or exceeded the limit
};

struct Verdict {
  Tone tone = Tone::neutral;
  std::string sentence;
  std::vector<std::string> details;
};

Verdict verdict_of(const BenchResult& result);

// "text: over the limit of 64.0 MiB in 12 samples, with a peak of 120.0 MiB resident, 187.5 % of the limit".
std::string describe_excess(const ModelResult& model, const std::optional<Limit>& limit);

}  // namespace headroom::report
