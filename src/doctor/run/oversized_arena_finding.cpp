#include <fmt/format.h>

#include "doctor/new_finding.h"
#include "doctor/run/model_cures.h"
#include "doctor/run/run_finding.h"

namespace headroom::doctor {

std::optional<Finding> oversized_arena(const ModelResult& model, const BenchResult&) {
  if (!model.layers) return std::nullopt;
  Bytes unused;
  for (const MemoryShare& share : model.layers->shares)
    if (share.kind == MemoryKind::arena_unused) unused += share.bytes;
  if (unused.count < kWorthTellingOfModels || unused.count * 4 < model.layers->peak.count)
    return std::nullopt;
  Finding finding = new_finding(
      "oversized-arena", Severity::warning,
      fmt::format("{}'s arena held {} of unused memory at the peak", model.name, format_bytes(unused)),
      "The arena grows to the next power of two and does not shrink.", Confidence::likely);
  finding.figures = {{"arena_unused_bytes", unused.count}, {"peak_bytes", model.layers->peak.count}};
  // Which of them helps is a matter of the model: of a text detector the first one took 29 %, and the others
  // made it larger (--try tells).
  const auto add = [&](const char* what, const char* words, std::optional<Bytes> saves) {
    add_settings(finding, model, what, words, saves);
  };
  if (is_onnxruntime(model)) {
    if (is_on_cpu(model))
      add("disable the memory pattern: its planned block comes in addition to earlier blocks", "pattern=off",
          unused);
    add("let the arena grow by the requested size only (it can also become larger)",
        "extend=same_as_requested", unused);
    if (is_on_cpu(model))
      add("disable the arena (each run allocates from the C library)", "arena=off", std::nullopt);
  }
  finding.cures.push_back(
      {"release unused arena memory after each run", "memory.enable_memory_arena_shrinkage=cpu:0", {}});
  finding.cures.push_back({"let Headroom try more settings", "headroom bench --tune", {}});
  return finding;
}

}  // namespace headroom::doctor
