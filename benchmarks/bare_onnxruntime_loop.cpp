// The reference for Headroom's own figures: a minimal program that loads a model with ONNX Runtime's C API
// and runs it. It uses the options that are Headroom's defaults, and no code of Headroom
// (benchmarks/truth.py).
//
//   bare_onnxruntime_loop --model M --threads N --iterations K [--warmup W] [--input-file F]
//   [--dims 1,3,640,640] [--arena doubling|exact|off] [--device cpu|cuda:N] [--capture on]
//   [--conv-search exhaustive|heuristic|default]
//
// On a GPU, input and outputs are bound on the device, with pinned host memory and one stream, as in
// Headroom. The time of a run is from the copy of its input to the end of the copies of its outputs.
// --capture on: run as a CUDA graph.
//
// F contains raw numbers for the model's one input, several frames one after another. They are used in a
// circle, and read between the timed runs. Without F the input is all zeros. --dims is required if the model
// leaves dimensions open. Outputs are those of the first run, as in any program with a fixed input size.
// Prints one line of JSON.
// --on-command on: runs only on command, for gpu_trace_cost.py (on_command.h).
#include <fcntl.h>
#include <onnxruntime_c_api.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "bare_on_device.h"
#include "bare_runtime.h"
#include "on_command.h"

namespace {

using namespace bare;

struct Arguments {
  std::string model, input_file;
  int threads = 0, iterations = 100, warmup = 10;
  std::string arena = "doubling";  // exact: grows by the requested size; off: no arena
  int cuda = -1;                   // CUDA device; -1: the CPU
  bool capture = false, on_command = false;
  std::string conv_search = "exhaustive";  // the runtime's default
  std::vector<int64_t> dims;
};

Arguments parse(int count, char** values) {
  Arguments arguments;
  for (int i = 1; i + 1 < count; i += 2) {
    const std::string flag = values[i];
    const char* value = values[i + 1];
    if (flag == "--model")
      arguments.model = value;
    else if (flag == "--input-file")
      arguments.input_file = value;
    else if (flag == "--threads")
      arguments.threads = std::atoi(value);
    else if (flag == "--iterations")
      arguments.iterations = std::atoi(value);
    else if (flag == "--warmup")
      arguments.warmup = std::atoi(value);
    else if (flag == "--arena")
      arguments.arena = value;
    else if (flag == "--device")
      arguments.cuda = std::strncmp(value, "cuda:", 5) == 0 ? std::atoi(value + 5) : -1;
    else if (flag == "--conv-search")
      arguments.conv_search = value;
    else if (flag == "--capture")
      arguments.capture = std::strcmp(value, "on") == 0;
    else if (flag == "--on-command")
      arguments.on_command = std::strcmp(value, "on") == 0;
    else if (flag == "--dims")
      arguments.dims = parse_dims(value);
    else
      fail("unknown flag " + flag);
  }
  if (arguments.model.empty() || arguments.iterations < 1 || arguments.warmup < 0 || count % 2 == 0)
    fail(
        "usage: --model M --threads N --iterations K [--warmup W] [--input-file F] [--dims 1,3,640,640] "
        "[--arena doubling|exact|off] [--device cpu|cuda:N] [--capture on] [--conv-search WORD] "
        "[--on-command on]");
  return arguments;
}

// The value of a line of /proc/self/status, in bytes.
int64_t status_bytes(const char* key) {
  FILE* file = std::fopen("/proc/self/status", "r");
  if (file == nullptr) return 0;
  char line[256];
  int64_t kibibytes = 0;
  while (std::fgets(line, sizeof line, file) != nullptr)
    if (std::strncmp(line, key, std::strlen(key)) == 0) kibibytes = std::atoll(line + std::strlen(key) + 1);
  std::fclose(file);
  return kibibytes * 1024;
}

// Frames from a file, repeated in a circle.
class Frames {
 public:
  Frames(const std::string& path, size_t frame_bytes) : bytes_(frame_bytes) {
    if (path.empty()) return;
    struct stat info {};
    fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd_ < 0 || ::fstat(fd_, &info) != 0) fail("cannot open " + path);
    count_ = static_cast<size_t>(info.st_size) / bytes_;
    if (count_ == 0) fail(path + " holds less than one frame of " + std::to_string(bytes_) + " bytes");
  }
  void read_next(char* memory) {
    if (fd_ < 0) return;
    const auto offset = static_cast<off_t>(next_++ % count_ * bytes_);
    if (::pread(fd_, memory, bytes_, offset) != static_cast<ssize_t>(bytes_)) fail("cannot read a frame");
  }

 private:
  size_t bytes_ = 0, count_ = 0, next_ = 0;
  int fd_ = -1;
};

}  // namespace

int main(int count, char** values) {
  const Arguments arguments = parse(count, values);
  if (api == nullptr) fail("this ONNX Runtime is older than 1.9");
  OrtEnv* env = nullptr;
  check(api->CreateEnv(ORT_LOGGING_LEVEL_WARNING, "bare", &env));
  const int64_t rss_after_env = status_bytes("VmRSS:");

  // All other options keep ONNX Runtime's defaults: arena, memory pattern, prepacking, spinning, all
  // optimizations.
  OrtSessionOptions* options = nullptr;
  check(api->CreateSessionOptions(&options));
  check(api->SetSessionExecutionMode(options, ORT_SEQUENTIAL));
  check(api->SetInterOpNumThreads(options, 1));
  if (arguments.arena == "exact") use_exact_arena(env, options);
  if (arguments.arena == "off") switch_off_arena(options);
  bare_cuda::Device device;
  if (arguments.cuda >= 0) {
    if (const char* problem = device.open(arguments.cuda)) fail(problem);
    bare_cuda::use(options, {arguments.cuda, arguments.capture, arguments.conv_search}, device);
  }
  if (arguments.threads > 0) check(api->SetIntraOpNumThreads(options, arguments.threads));
  OrtSession* session = nullptr;
  check(api->CreateSession(env, arguments.model.c_str(), options, &session));
  const int64_t rss_after_load = status_bytes("VmRSS:");

  OrtAllocator* allocator = nullptr;
  check(api->GetAllocatorWithDefaultOptions(&allocator));
  Input input;
  make_input(session, allocator, arguments.dims, input);
  size_t output_count = 0;
  check(api->SessionGetOutputCount(session, &output_count));
  std::vector<char*> output_names(output_count);
  for (size_t i = 0; i < output_count; ++i)
    check(api->SessionGetOutputName(session, i, allocator, &output_names[i]));
  std::vector<OrtValue*> outputs(output_count, nullptr);

  Frames frames(arguments.input_file, input.memory.size());
  bare_cuda::Run* const on_device =
      arguments.cuda >= 0 ? new bare_cuda::Run(session, arguments.cuda, device, input, output_names)
                          : nullptr;
  std::vector<int64_t> times;
  times.reserve(static_cast<size_t>(arguments.iterations));
  const auto timed_run = [&] {
    frames.read_next(input.memory.data());
    const int64_t started = now_ns();
    if (on_device != nullptr)
      on_device->run();
    else
      check(api->Run(session, nullptr, &input.name, &input.value, 1, output_names.data(), output_count,
                     outputs.data()));
    return now_ns() - started;
  };
  if (arguments.on_command) return run_on_command(timed_run);
  for (int i = -arguments.warmup; i < arguments.iterations; ++i) {
    const int64_t time = timed_run();
    if (i >= 0) times.push_back(time);
  }

  double sum = 0;
  for (const int64_t time : times) sum += static_cast<double>(time);
  std::sort(times.begin(), times.end());
  std::printf(
      "{\"runtime\":\"%s\",\"n\":%zu,\"min_ns\":%lld,\"mean_ns\":%.0f,\"p50_ns\":%lld,\"p90_ns\":%lld,"
      "\"vm_hwm_bytes\":%lld,\"rss_after_env_bytes\":%lld,\"rss_after_load_bytes\":%lld}\n",
      OrtGetApiBase()->GetVersionString(), times.size(), static_cast<long long>(times.front()),
      sum / static_cast<double>(times.size()), static_cast<long long>(percentile(times, 50)),
      static_cast<long long>(percentile(times, 90)), static_cast<long long>(status_bytes("VmHWM:")),
      static_cast<long long>(rss_after_env), static_cast<long long>(rss_after_load));
  return 0;
}
