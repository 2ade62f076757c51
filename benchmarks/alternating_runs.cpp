// Measures whether running a model through Headroom costs time. Alternates between these runners in one
// process, in turns of a dozen frames:
//
//   headroom           the code that a worker of `headroom bench` runs for a frame
//   (bench/worker/worker_state.h);
//                      its inference time
//   bare               ONNX Runtime's C API; the input is copied from a prepared tensor before the clock
//   starts bare, letterboxed  the same, but the input is made from the frame before the clock starts, as in
//   the worker bare, again        only without a source: a second session like `bare`
//
// Two processes see different states of the machine, and these differ by more than the effect to be measured.
// Turns of a few dozen milliseconds within one process see the same state. The difference between
// `bare, letterboxed` and `bare` is the cost of making the input just before: the frame and the tensor
// displace the weights from the caches. The difference between `bare, again` and `bare` is that of two equal
// sessions.
//
//   alternating_runs MODEL [SOURCE] [--imgsz 640] [--frames 160] [--turns 60] [--threads 1]
//                    [--task WORD] [--device cpu|cuda:N] [--conv-search heuristic] [--only headroom|bare]
//
// Without a source, inputs are made from the model's signature. With --task none, nothing runs between two
// runs of any runner. On a GPU, `bare` is the code of bare_on_device.h. With --only there is only this
// runner, and it runs on command (on_command.h). This is for models of which ONNX Runtime cannot have two
// sessions in a process.
//
// Prints one line of JSON: the P50 of each runner, and the median ratio to `bare` over all turns with a
// distribution-free 95 % interval.
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <optional>

#include "bare_on_device.h"
#include "bare_runtime.h"
#include "bench/worker/worker_state.h"
#include "inference/synthetic_input.h"
#include "on_command.h"
#include "source_frames.h"
#include "types/device_name.h"

namespace {

using namespace headroom;
using bench::LoadedModel;

constexpr std::size_t kTurn = 12;

[[noreturn]] void stop(const Error& error) { bare::fail("alternating_runs: " + error.sentence()); }
template <class T>
T need(Result<T> result) {
  if (!result) stop(result.error());
  return std::move(*result);
}

struct Options {
  std::string model, source, task, device = "cpu", conv_search = "heuristic", only;
  int image_size = 640, frames = 160, turns = 60, threads = 1;
};

// A session of ONNX Runtime's C API with default options, as in bare_onnxruntime_loop.
class BareModel {
 public:
  BareModel(const Options& wanted, const std::vector<std::int64_t>& dims) {
    OrtEnv* env = nullptr;
    OrtSessionOptions* options = nullptr;
    bare::check(bare::api->CreateEnv(ORT_LOGGING_LEVEL_ERROR, "bare", &env));
    bare::check(bare::api->CreateSessionOptions(&options));
    bare::check(bare::api->SetSessionExecutionMode(options, ORT_SEQUENTIAL));
    bare::check(bare::api->SetInterOpNumThreads(options, 1));
    bare::check(bare::api->SetIntraOpNumThreads(options, wanted.threads));
    const auto device = parse_device_name(wanted.device);
    const bool on_device = device && device->is_cuda;
    const auto ordinal = on_device ? static_cast<int>(device->ordinal) : 0;
    if (on_device) {
      if (const char* problem = device_.open(ordinal)) bare::fail(problem);
      bare_cuda::use(options, {ordinal, false, wanted.conv_search}, device_);
    }
    bare::check(bare::api->CreateSession(env, wanted.model.c_str(), options, &session_));
    OrtAllocator* allocator = nullptr;
    bare::check(bare::api->GetAllocatorWithDefaultOptions(&allocator));
    bare::make_input(session_, allocator, dims, input_);
    std::size_t count = 0;
    bare::check(bare::api->SessionGetOutputCount(session_, &count));
    names_.resize(count);
    outputs_.resize(count);
    for (std::size_t i = 0; i < count; ++i)
      bare::check(bare::api->SessionGetOutputName(session_, i, allocator, &names_[i]));
    if (on_device) run_.emplace(session_, ordinal, device_, input_, names_);
  }
  BareModel(const BareModel&) = delete;
  BareModel& operator=(const BareModel&) = delete;
  std::vector<char>& input() { return input_.memory; }
  std::int64_t run() {
    const std::int64_t started = bare::now_ns();
    if (run_)
      run_->run();
    else
      bare::check(bare::api->Run(session_, nullptr, &input_.name, &input_.value, 1, names_.data(),
                                 names_.size(), outputs_.data()));
    return bare::now_ns() - started;
  }

 private:
  bare_cuda::Device device_;
  OrtSession* session_ = nullptr;
  bare::Input input_;
  std::vector<char*> names_;
  std::vector<OrtValue*> outputs_;
  std::optional<bare_cuda::Run> run_;
};

Options parse(int count, char** values) {
  Options options;
  int first_flag = 1;
  for (std::string* place : {&options.model, &options.source})
    if (first_flag < count && values[first_flag][0] != '-') *place = values[first_flag++];
  for (int i = first_flag; i + 1 < count; i += 2) {
    const std::string flag = values[i];
    std::string* const word = flag == "--device"        ? &options.device
                              : flag == "--conv-search" ? &options.conv_search
                              : flag == "--task"        ? &options.task
                              : flag == "--only"        ? &options.only
                                                        : nullptr;
    int* const value = flag == "--imgsz"     ? &options.image_size
                       : flag == "--frames"  ? &options.frames
                       : flag == "--turns"   ? &options.turns
                       : flag == "--threads" ? &options.threads
                                             : nullptr;
    if (word != nullptr)
      *word = values[i + 1];
    else if (value != nullptr)
      *value = std::atoi(values[i + 1]);
    else
      bare::fail("alternating_runs: unknown flag " + flag);
  }
  if (options.model.empty() || (count - first_flag) % 2 != 0 || options.frames < 1 || options.turns < 1 ||
      options.threads < 1 ||
      (!options.only.empty() && options.only != "headroom" && options.only != "bare") ||
      (!options.only.empty() && !options.source.empty()) || !parse_device_name(options.device) ||
      !parse_conv_search(options.conv_search))
    bare::fail(
        "usage: alternating_runs MODEL [SOURCE] [--imgsz 640] [--frames 160] [--turns 60] [--threads 1] "
        "[--task WORD] [--device cpu|cuda:N] [--conv-search exhaustive|heuristic|default] [--only "
        "headroom|bare]");
  return options;
}

std::int64_t median_of(std::vector<std::int64_t> times) {
  std::sort(times.begin(), times.end());
  return bare::percentile(times, 50);
}

// The interval is from order statistics (sign test).
std::string median_with_interval(std::vector<double> ratios) {
  std::sort(ratios.begin(), ratios.end());
  const auto n = static_cast<double>(ratios.size());
  const auto below = static_cast<std::size_t>(std::max(0.0, std::floor(n / 2 - 0.98 * std::sqrt(n))));
  char text[128];
  std::snprintf(text, sizeof text, R"({"median":%.4f,"ci95_low":%.4f,"ci95_high":%.4f,"n":%zu})",
                ratios[ratios.size() / 2], ratios[below], ratios[ratios.size() - 1 - below], ratios.size());
  return text;
}

// Runs one frame with one of the three runners; returns its inference time.
class Runners {
 public:
  explicit Runners(const Options& options)
      : backend_(need(
            inference::Backend::open(need(inference::choose_backend(options.model, "", options.device))))) {
    if (auto started = backend_.start(); !started) stop(started.error());
    bench::WorkerModel model{"m", options.model, "onnxruntime", "", options.task, {}};
    model.settings.threads = options.threads;
    model.settings.device = options.device;
    model.settings.conv_search = *parse_conv_search(options.conv_search);
    bench::WorkerJob job;
    job.image_size = options.image_size;
    if (options.device != "cpu") need(backend_.prepare_device(options.device));
    if (options.only != "bare") measured_.emplace(need(LoadedModel::load(backend_, model, job)));
    if (options.only == "headroom") return;
    // The worker's input specification, needed again for the bare sessions.
    auto session = need(backend_.load(options.model, model.settings));
    if (options.source.empty())
      make_signature_input(options, session.description(), options.only.empty());
    else
      read_frames(options, session.description());
  }

  std::vector<std::string> names() const {
    return {"headroom", "bare", frames_.empty() ? "bare_again" : "bare_letterboxed"};
  }
  std::int64_t run(const std::string& runner, std::size_t number) {
    if (runner == "headroom") return run_headroom(number);
    BareModel& model = runner == "bare" ? *bare_ : *second_;
    if (runner == "bare_letterboxed")
      preprocess(frames_[number % frames_.size()], model.input().data());
    else if (!tensors_.empty())
      std::memcpy(model.input().data(), tensors_[number % tensors_.size()].data(), model.input().size());
    return model.run();
  }

 private:
  void read_frames(const Options& options, const ModelDescription& description) {
    inference::TaskOptions task_options;
    task_options.image_size = options.image_size;
    task_options.forced = options.task;
    const auto task = need(inference::create_task(description, task_options));
    if (task == nullptr)
      bare::fail(
          "alternating_runs: the model has no vision task, so it takes no frames; leave out the source");
    const std::vector<std::int64_t>& dims = task->input_dims()[task->input().input_index];
    bare_.emplace(options, dims);
    second_.emplace(options, dims);
    preprocessor_.emplace(task->input());
    frames_ = need(bench_support::first_frames(options.source, static_cast<std::size_t>(options.frames)));
    if (frames_.empty()) bare::fail("alternating_runs: the source gives no frames");
    for (const media::Picture& frame : frames_) {
      tensors_.emplace_back(bare_->input().size());
      preprocess(frame, tensors_.back().data());
    }
  }
  void make_signature_input(const Options& options, const ModelDescription& description, bool twice) {
    constexpr std::uint32_t kSeed = 1;
    const auto made = need(inference::make_synthetic_inputs(description, options.image_size, kSeed));
    for (auto* model : {&bare_, &second_}) {
      if (model == &second_ && !twice) continue;
      model->emplace(options, made.front().dims);
      std::memcpy((*model)->input().data(), made.front().data.data(), (*model)->input().size());
    }
  }
  void preprocess(const media::Picture& frame, char* tensor) {
    preprocessor_->run(frame.bgr.data(), frame.width, frame.height, static_cast<std::size_t>(frame.width) * 3,
                       tensor);
  }
  std::int64_t run_headroom(std::size_t number) {
    bench::FrameView view;
    if (!frames_.empty()) {
      const media::Picture& frame = frames_[number % frames_.size()];
      view = {frame.bgr.data(), frame.width, frame.height};
    }
    FrameTimes times;
    const Status done = measured_->facts().task != "generic" && frames_.empty()
                            ? measured_->process_blank(times)
                            : measured_->process(view, times);
    if (!done) stop(done.error());
    return times.inference.count;
  }

  inference::Backend backend_;
  std::optional<LoadedModel> measured_;
  std::optional<BareModel> bare_, second_;
  std::optional<inference::Preprocessor> preprocessor_;
  std::vector<media::Picture> frames_;
  std::vector<std::vector<char>> tensors_;  // prepared inputs for `bare`
};

}  // namespace

int main(int count, char** values) {
  const Options options = parse(count, values);
  Runners runners(options);
  if (!options.only.empty()) return run_on_command([&] { return runners.run(options.only, 0); });
  const std::vector<std::string> names = runners.names();
  std::map<std::string, std::vector<std::int64_t>> all;
  std::map<std::string, std::vector<double>> ratios;
  std::size_t next = 0;
  for (int turn = -1; turn < options.turns; ++turn, next += kTurn) {  // the first turn is warm-up
    std::map<std::string, std::int64_t> of_turn;
    for (std::size_t place = 0; place < names.size(); ++place) {
      const std::string& name = names[(place + static_cast<std::size_t>(turn + 1)) % names.size()];
      std::vector<std::int64_t> times;
      for (std::size_t i = 0; i < kTurn; ++i) times.push_back(runners.run(name, next + i));
      if (turn < 0) continue;
      of_turn[name] = median_of(times);
      all[name].insert(all[name].end(), times.begin(), times.end());
    }
    if (turn < 0) continue;
    const auto ratio = [&](const char* over, const char* under) {
      if (!of_turn.contains(over) || !of_turn.contains(under)) return;
      ratios[std::string(over) + "_over_" + under].push_back(static_cast<double>(of_turn[over]) /
                                                             static_cast<double>(of_turn[under]));
    };
    ratio("headroom", "bare");
    ratio("bare_letterboxed", "bare");
    ratio("headroom", "bare_letterboxed");
    ratio("bare_again", "bare");
    ratio("headroom", "bare_again");
  }
  std::string line;
  for (const std::string& name : names)
    line += "\"" + name + "_p50_ns\":" + std::to_string(median_of(all[name])) + ",";
  for (const auto& [name, of_turns] : ratios)
    line += "\"" + name + "\":" + median_with_interval(of_turns) + ",";
  line.back() = '}';
  std::printf("{%s\n", line.c_str());
  return 0;
}
