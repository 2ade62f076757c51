// Loads ONNX Runtime with dlopen, runs a model in threads that share a session, and then ends:
//
//     traced_inference LIBRARY MODEL.onnx THREADS RUNS END
//
// Each of THREADS threads runs RUNS times. Loading happens in the scope "setup", each run in "infer". END is:
//
//     return         returns from main
//     exit-at-once   calls _exit
//     abort, kill    ends by SIGABRT or SIGKILL
//     handler        calls _exit in a signal handler
//     fork           a child runs the session once more
//     exec           executes another program
//     async          RUNS more runs in the runtime's pool, each started by the callback of the last
#include <dlfcn.h>
#include <headroom/scope.h>
#include <onnxruntime_c_api.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <future>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

const OrtApi* api = nullptr;

void check(OrtStatus* status) {
  if (status == nullptr) return;
  std::puts(api->GetErrorMessage(status));
  std::fflush(stdout);
  _exit(9);
}

// A model with one input of floats.
struct Model {
  OrtSession* session = nullptr;
  std::vector<float> data;
  OrtValue* input = nullptr;
  char* input_name = nullptr;
  std::vector<char*> output_names;
};

void load(const char* path, OrtEnv* env, Model& model) {
  const headroom::Scope scope("setup");
  OrtSessionOptions* options = nullptr;
  check(api->CreateSessionOptions(&options));
  check(api->SetIntraOpNumThreads(options, 2));  // with one thread, RunAsync would have none to run in
  check(api->CreateSession(env, path, options, &model.session));
  api->ReleaseSessionOptions(options);
}

void describe(Model& model) {
  OrtAllocator* allocator = nullptr;
  check(api->GetAllocatorWithDefaultOptions(&allocator));
  check(api->SessionGetInputName(model.session, 0, allocator, &model.input_name));
  OrtTypeInfo* type = nullptr;
  const OrtTensorTypeAndShapeInfo* tensor = nullptr;
  check(api->SessionGetInputTypeInfo(model.session, 0, &type));
  check(api->CastTypeInfoToTensorInfo(type, &tensor));
  std::size_t rank = 0;
  check(api->GetDimensionsCount(tensor, &rank));
  std::vector<std::int64_t> dims(rank);
  check(api->GetDimensions(tensor, dims.data(), rank));
  api->ReleaseTypeInfo(type);
  std::size_t count = 1;
  for (std::int64_t& dim : dims) count *= static_cast<std::size_t>(dim = dim > 0 ? dim : 1);
  model.data.assign(count, 0.5F);
  OrtMemoryInfo* cpu = nullptr;
  check(api->CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &cpu));
  check(api->CreateTensorWithDataAsOrtValue(cpu, model.data.data(), count * sizeof(float), dims.data(), rank,
                                            ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &model.input));
  std::size_t outputs = 0;
  check(api->SessionGetOutputCount(model.session, &outputs));
  model.output_names.resize(outputs);
  for (std::size_t i = 0; i < outputs; ++i)
    check(api->SessionGetOutputName(model.session, i, allocator, &model.output_names[i]));
}

void run(const Model& model) {
  const headroom::Scope scope("infer");
  std::vector<OrtValue*> outputs(model.output_names.size());
  const OrtValue* const input = model.input;
  check(api->Run(model.session, nullptr, &model.input_name, &input, 1, model.output_names.data(),
                 outputs.size(), outputs.data()));
  for (OrtValue* output : outputs) api->ReleaseValue(output);
}

// A chain of runs: the callback of each starts the next.
struct AsyncRuns {
  const Model& model;
  int left;
  std::vector<OrtValue*> outputs;
  std::promise<void> over;
  const OrtValue* input = model.input;  // read when the run starts, which is later

  void begin() {
    for (OrtValue*& output : outputs) api->ReleaseValue(std::exchange(output, nullptr));
    check(api->RunAsync(model.session, nullptr, &model.input_name, &input, 1, model.output_names.data(),
                        outputs.size(), outputs.data(), ended, this));
  }
  static void ended(void* context, OrtValue**, std::size_t, OrtStatus* status) {
    auto& runs = *static_cast<AsyncRuns*>(context);
    check(status);
    if (--runs.left > 0)
      runs.begin();
    else
      runs.over.set_value();
  }
};

void run_async(const Model& model, int count) {
  AsyncRuns runs{model, count, std::vector<OrtValue*>(model.output_names.size()), {}, model.input};
  runs.begin();
  runs.over.get_future().wait();
  for (OrtValue* output : runs.outputs) api->ReleaseValue(output);
}

void end_at_once(int) { _exit(0); }

void end(const std::string& how, const Model& model) {
  if (how == "exit-at-once") _exit(0);
  if (how == "exec") ::execl("/bin/true", "true", nullptr);
  if (how == "abort") std::abort();
  if (how == "kill") ::kill(::getpid(), SIGKILL);
  if (how == "handler") {
    ::signal(SIGUSR1, end_at_once);
    ::raise(SIGUSR1);
  }
  if (how == "fork") {
    const pid_t child = ::fork();
    if (child == 0) {
      run(model);
      _exit(0);  // exit() would make the runtime wait for its threads, which exist only in the parent
    }
    ::waitpid(child, nullptr, 0);
  }
}

}  // namespace

int main(int count, char** values) {
  if (count != 6) return 1;
  void* library = ::dlopen(values[1], RTLD_NOW);
  if (library == nullptr) return 2;
  const auto get_base = reinterpret_cast<const OrtApiBase* (*)()>(::dlsym(library, "OrtGetApiBase"));
  api = get_base()->GetApi(9);
  OrtEnv* env = nullptr;
  check(api->CreateEnv(ORT_LOGGING_LEVEL_ERROR, "test", &env));
  Model model;
  load(values[2], env, model);
  describe(model);

  const std::string how = values[5];
  const int runs = std::atoi(values[4]);
  std::vector<std::thread> threads;
  for (int i = 0; i < std::atoi(values[3]); ++i)
    threads.emplace_back([&model, runs] {
      for (int k = 0; k < runs; ++k) run(model);
    });
  for (std::thread& thread : threads) thread.join();
  if (how == "async") run_async(model, runs);
  end(how, model);
  return 0;
}
