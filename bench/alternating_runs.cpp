// Does Headroom's way of running a model cost the model anything? In one process and by turns of a dozen
// frames:
//
//   headroom           what a worker of `headroom bench` does with a frame (bench/loaded_model.h), its
//   inference time bare               ONNX Runtime's C API, the input copied from a finished tensor before
//   the clock starts bare, letterboxed  the same, the input made from the frame before the clock starts, as
//   the worker must
//
// Two programs meet different moods of a machine, which differ by more than what is looked for here; turns of
// a few dozen milliseconds within one process meet the same. What the third differs in from the second is the
// price of having made the input just now: the frame and the tensor went through the caches that hold the
// weights.
//
//   alternating_runs MODEL SOURCE [--imgsz 640] [--frames 160] [--turns 60] [--threads 1]
//
// Prints a line of JSON: the P50 of each way, and of the ratio to `bare` of each turn the median with a
// distribution-free 95 % interval.
#include <cmath>
#include <cstring>
#include <map>

#include "bare_runtime.h"
#include "bench/loaded_model.h"
#include "source_frames.h"

namespace {

using namespace headroom;
using bench::LoadedModel;

constexpr int kTurn = 12;

[[noreturn]] void stop(const Error& error) { bare::fail("alternating_runs: " + error.sentence()); }
template <class T>
T need(Result<T> result) {
  if (!result) stop(result.error());
  return std::move(*result);
}

// A session of ONNX Runtime's C API with its defaults, as in bare_onnxruntime_loop.
class BareModel {
 public:
  BareModel(const std::string& path, int threads, const std::vector<std::int64_t>& dims) {
    OrtEnv* env = nullptr;
    OrtSessionOptions* options = nullptr;
    bare::check(bare::api->CreateEnv(ORT_LOGGING_LEVEL_ERROR, "bare", &env));
    bare::check(bare::api->CreateSessionOptions(&options));
    bare::check(bare::api->SetSessionExecutionMode(options, ORT_SEQUENTIAL));
    bare::check(bare::api->SetInterOpNumThreads(options, 1));
    bare::check(bare::api->SetIntraOpNumThreads(options, threads));
    bare::check(bare::api->CreateSession(env, path.c_str(), options, &session_));
    OrtAllocator* allocator = nullptr;
    bare::check(bare::api->GetAllocatorWithDefaultOptions(&allocator));
    bare::make_input(session_, allocator, dims, input_);
    std::size_t count = 0;
    bare::check(bare::api->SessionGetOutputCount(session_, &count));
    names_.resize(count);
    outputs_.resize(count);
    for (std::size_t i = 0; i < count; ++i)
      bare::check(bare::api->SessionGetOutputName(session_, i, allocator, &names_[i]));
  }
  std::vector<char>& input() { return input_.memory; }
  std::int64_t run() {
    const std::int64_t started = bare::now_ns();
    bare::check(bare::api->Run(session_, nullptr, &input_.name, &input_.value, 1, names_.data(),
                               names_.size(), outputs_.data()));
    return bare::now_ns() - started;
  }

 private:
  OrtSession* session_ = nullptr;
  bare::Input input_;
  std::vector<char*> names_;
  std::vector<OrtValue*> outputs_;
};

struct Options {
  std::string model, source;
  int image_size = 640, frames = 160, turns = 60, threads = 1;
};

Options parse(int count, char** values) {
  Options options;
  for (int i = 3; i + 1 < count; i += 2) {
    const std::string flag = values[i];
    int* const value = flag == "--imgsz"     ? &options.image_size
                       : flag == "--frames"  ? &options.frames
                       : flag == "--turns"   ? &options.turns
                       : flag == "--threads" ? &options.threads
                                             : nullptr;
    if (value == nullptr) bare::fail("alternating_runs: unknown flag " + flag);
    *value = std::atoi(values[i + 1]);
  }
  if (count < 3 || count % 2 == 0 || options.frames < 1 || options.turns < 1 || options.threads < 1)
    bare::fail(
        "usage: alternating_runs MODEL SOURCE [--imgsz 640] [--frames 160] [--turns 60] [--threads 1]");
  options.model = values[1];
  options.source = values[2];
  return options;
}

std::int64_t median_of(std::vector<std::int64_t> times) {
  std::sort(times.begin(), times.end());
  return bare::percentile(times, 50);
}

// Order statistics of a sign test.
std::string median_with_interval(std::vector<double> ratios) {
  std::sort(ratios.begin(), ratios.end());
  const auto n = static_cast<double>(ratios.size());
  const auto below = static_cast<std::size_t>(std::max(0.0, std::floor(n / 2 - 0.98 * std::sqrt(n))));
  char text[128];
  std::snprintf(text, sizeof text, R"({"median":%.4f,"ci95_low":%.4f,"ci95_high":%.4f,"n":%zu})",
                ratios[ratios.size() / 2], ratios[below], ratios[ratios.size() - 1 - below], ratios.size());
  return text;
}

}  // namespace

int main(int count, char** values) {
  const Options options = parse(count, values);
  inference::Backend backend =
      need(inference::Backend::open(need(inference::choose_backend(options.model, ""))));
  if (auto started = backend.start(); !started) stop(started.error());
  bench::WorkerModel worker_model{"m", options.model, "onnxruntime", "", "", {}};
  worker_model.settings.threads = options.threads;
  bench::WorkerJob job;
  job.image_size = options.image_size;
  LoadedModel measured = need(LoadedModel::load(backend, worker_model, job));
  if (!measured.takes_frames())
    bare::fail("alternating_runs: the model has no vision task, so it takes no frames");

  // What the worker's task says of its input, once more for the bare sessions.
  auto session = need(backend.load(options.model, worker_model.settings));
  inference::TaskOptions task_options;
  task_options.image_size = options.image_size;
  const auto task = need(inference::create_task(session.description(), task_options));
  const inference::InputSpec& spec = task->input();
  const std::vector<std::int64_t>& dims = task->input_dims()[spec.input_index];
  BareModel bare_model(options.model, options.threads, dims),
      letterboxed(options.model, options.threads, dims);
  inference::Preprocessor preprocessor(spec);

  const auto frames =
      need(bench_support::first_frames(options.source, static_cast<std::size_t>(options.frames)));
  if (frames.empty()) bare::fail("alternating_runs: the source gives no frames");
  const auto make_input = [&](const media::Picture& frame, char* tensor) {
    preprocessor.run(frame.bgr.data(), frame.width, frame.height, static_cast<std::size_t>(frame.width) * 3,
                     tensor);
  };
  std::vector<std::vector<char>> tensors;  // finished ones for `bare`
  for (const media::Picture& frame : frames)
    make_input(frame, tensors.emplace_back(bare_model.input().size()).data());

  const char* const names[] = {"headroom", "bare", "bare_letterboxed"};
  std::map<std::string, std::vector<std::int64_t>> all;
  std::map<std::string, std::vector<double>> ratios;
  std::size_t next = 0;
  for (int turn = -1; turn < options.turns; ++turn) {  // the first warms up
    std::map<std::string, std::int64_t> of_turn;
    for (int place = 0; place < 3; ++place) {
      const std::string name = names[(place + turn + 1) % 3];
      std::vector<std::int64_t> times;
      for (int i = 0; i < kTurn; ++i) {
        const std::size_t at = (next + static_cast<std::size_t>(i)) % frames.size();
        const media::Picture& frame = frames[at];
        if (name == "headroom") {
          bench::FrameTimes frame_times;
          if (auto done = measured.process({frame.bgr.data(), frame.width, frame.height}, frame_times); !done)
            stop(done.error());
          times.push_back(frame_times.inference.count);
        } else if (name == "bare") {
          std::memcpy(bare_model.input().data(), tensors[at].data(), tensors[at].size());
          times.push_back(bare_model.run());
        } else {
          make_input(frame, letterboxed.input().data());
          times.push_back(letterboxed.run());
        }
      }
      if (turn < 0) continue;
      of_turn[name] = median_of(times);
      all[name].insert(all[name].end(), times.begin(), times.end());
    }
    next += kTurn;
    if (turn < 0) continue;
    const auto bare_time = static_cast<double>(of_turn["bare"]);
    for (const char* name : {"headroom", "bare_letterboxed"})
      ratios[name].push_back(static_cast<double>(of_turn[name]) / bare_time);
    ratios["headroom_over_letterboxed"].push_back(static_cast<double>(of_turn["headroom"]) /
                                                  static_cast<double>(of_turn["bare_letterboxed"]));
  }
  std::printf("{");
  for (const char* name : names)
    std::printf("\"%s_p50_ns\":%lld,", name, static_cast<long long>(median_of(all[name])));
  std::printf("\"headroom_over_bare\":%s,\"letterboxed_over_bare\":%s,\"headroom_over_letterboxed\":%s}\n",
              median_with_interval(ratios["headroom"]).c_str(),
              median_with_interval(ratios["bare_letterboxed"]).c_str(),
              median_with_interval(ratios["headroom_over_letterboxed"]).c_str());
  return 0;
}
