// What is resident after a model was released, over the bare runtime (docs/figures.md), stayed behind: a
// program that loads and frees models in turn has it on top of the next one.
//
// Something always stays: pages of code that were needed for the first time, and free blocks of a heap that
// is cut up. Over the runtime it was, of 111 runs of small models, 16 MiB at most; by ONNX Runtime 36.5 of
// 159 MiB (23 %, yolox at 1280), 30.7 of 371 (mlsd), 32.3 of 52 (62 %, a text recogniser), 64.6 of 372 (17 %,
// 160 MiB of weights without an arena: MALLOC_MMAP_THRESHOLD_=131072 left 12.5 of it); by LibTorch 31.7
// of 96. Under AddressSanitizer, which keeps what was freed for a while, it was 70 of 102 MiB. So half of
// what the model took is told, from 64 MiB on, and from 32 MiB more than all pages of files that the process
// ever had: all of them may be new code.
//
// On a GPU the process keeps the driver's and the libraries' code and tables: 666 MiB of 668 of resnet50 by
// ONNX Runtime (benchmarks/results/gpu_inference.json). That says nothing of the model.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "doctor/cure_commands.h"
#include "doctor/cure_trials.h"
#include "doctor/new_finding.h"
#include "doctor/run/model_cures.h"
#include "doctor/run/run_finding.h"

namespace headroom::doctor {
namespace {

struct LeftBehind {
  Bytes left, taken;  // both over the bare runtime
};

std::optional<LeftBehind> left_behind(const ModelResult& model) {
  const ModelMemory& memory = model.memory;
  if (model.status != ModelStatus::ok || !is_on_cpu(model) || !model.gpu_memory.empty()) return std::nullopt;
  if (!memory.residual || !memory.runtime) return std::nullopt;
  // Frames are no part of the model, and were released, too.
  const Bytes run = memory.run_peak.value_or(Bytes{}) - memory.frames.value_or(Bytes{});
  const Bytes peak = std::max(memory.load_peak.value_or(Bytes{}), run);
  return LeftBehind{*memory.residual - *memory.runtime, peak - *memory.runtime};
}

bool is_worth_telling(const ModelResult& model, const LeftBehind& found) {
  constexpr Bytes kLeast = mebibytes(64), kLeastBesidesCode = mebibytes(32);
  const Bytes code = model.memory.file_backed_peak.value_or(Bytes{});
  return found.left >= kLeast && found.left - code >= kLeastBesidesCode && found.taken.count > 0 &&
         2 * found.left.count >= found.taken.count;
}

// The run of this model alone once more, behind `words`. Of a report that did not keep its options what is
// known.
std::vector<std::string> run_again(const BenchResult& result, const ModelResult& model,
                                   const std::string& behind_model, std::vector<std::string> words = {}) {
  words.emplace_back("headroom");
  std::vector<std::string> arguments{"bench", "--model", fmt::format("{}={}", model.name, model.path)};
  if (result.options) {
    BenchResult without = result;
    without.options->memory_limit.reset();  // it may hold neither a pool nor what a tracer takes
    arguments = bench_arguments(without, model, std::nullopt);
  }
  for (std::size_t i = 0; i < arguments.size(); ++i)
    words.push_back(arguments[i] + (i > 0 && arguments[i - 1] == "--model" ? behind_model : ""));
  return words;
}

std::vector<Cure> cures_of(const BenchResult& result, const ModelResult& model, Bytes left) {
  // The process itself has the runtime, too.
  const Bytes peak =
      std::max(model.memory.load_peak.value_or(Bytes{}), model.memory.run_peak.value_or(Bytes{}));
  std::vector<std::string> pool = run_again(result, model, ",isolated=on");
  pool.insert(pool.end(), {"--pool", fmt::format("{}MiB", mebibytes_above(peak))});
  return {{"run it in its own process, as the model pool does: unloading releases all of its memory "
           "(ModelPool, .isolated = true)",
           shell_command(pool), left},
          {"let freed large blocks return to the system at once, which leaves less if the heap is the cause "
           "(or call malloc_trim(0) after the release)",
           shell_command(run_again(result, model, "", {"MALLOC_MMAP_THRESHOLD_=131072"})), left},
          {"otherwise, find the call stack that keeps it",
           shell_command(run_again(result, model, "", {"headroom", "trace", "--"})),
           {}}};
}

}  // namespace

std::vector<Finding> model_leaves_memory(const BenchResult& result) {
  std::vector<Finding> told;
  for (const ModelResult& model : result.models) {
    const auto found = left_behind(model);
    if (!found || !is_worth_telling(model, *found)) continue;
    Finding finding =
        new_finding("model-leaves-memory", Severity::warning,
                    fmt::format("{} used {} and left {} in memory after its release", model.name,
                                format_bytes(found->taken), format_bytes(found->left)),
                    "A cache or an object that outlives the model keeps this memory, or the heap is "
                    "fragmented. The next model needs its memory in addition.",
                    Confidence::possible);
    finding.figures = {{"level", "model"},
                       {"left_bytes", found->left.count},
                       {"taken_bytes", found->taken.count},
                       {"residual_bytes", model.memory.residual->count},
                       {"runtime_bytes", model.memory.runtime->count}};
    finding.cures = cures_of(result, model, found->left);
    told.push_back(std::move(finding));
  }
  return told;
}

}  // namespace headroom::doctor
