// A backend that misbehaves on command, to show that the conductor survives any fault of a runtime. Its
// "models" are text files. Each line is a command: a stage, an action and an optional number.
//
//   load hang | load crash | load fail | run hang | run crash | run fail
//   load allocate 300      allocates 300 MiB and keeps it
//   load threads 300       starts 300 threads that wait
//   load share 100         allocates 100 MiB of shared memory and keeps it
//   load say               writes a coloured warning
//   load device 64         allocates 64 MiB of GPU memory until the model is unloaded; also run device 1
//   pattern allocate 200   allocates while it loads with the setting memory_pattern
//   run allocate 8         allocates 8 MiB per run and keeps it: a leak
//   run sleep 5            sleeps 5 ms
//   run exit 7 | run kill (SIGKILL) | run bad_alloc
//   run crash_after 3      crashes after 3 runs of the session; also run kill_after 3
//   run crash_beside       crashes while another model is loaded in the process; also run fail_beside,
//                          run allocate_beside 8
//   trim release           frees the kept memory, like an arena that shrinks
//   exit hang              hangs in an exit handler, after all work
//   segment noise 4096     takes a picture of 4096 x 4096 and returns a soft mask of its size: noise;
//                          any other word than "noise": a uniform mask
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "inference/backend_plugin.h"

constexpr const char* kNoNames[] = {"", "", "", ""};

struct hr_session {
  struct Command {
    std::string stage, action;
    long amount = 0;
  };
  std::vector<Command> commands;
  std::vector<char*> kept;
  std::vector<std::uint64_t> kept_on_device;
  bool on_device = false;
  long runs = 0;
  float input[4] = {};
  std::vector<float> output = std::vector<float>(4);
  // For a model with the command "segment".
  int64_t picture_dims[4] = {1, 3, 0, 0}, mask_dims[4] = {1, 1, 0, 0};
  hr_tensor_spec picture{"picture", 1, 4, picture_dims, kNoNames}, mask{"mask", 1, 4, mask_dims, kNoNames};
};

namespace {

constexpr int64_t kDims[] = {1, 4};
constexpr int32_t kFloat32 = 1;
const hr_tensor_spec kInput{"x", kFloat32, 2, kDims, kNoNames};
const hr_tensor_spec kOutput{"y", kFloat32, 2, kDims, kNoNames};
const char* const kExtensions[] = {".misbehave", nullptr};

int fail(hr_error* error, int32_t kind, const char* message) {
  error->kind = kind;
  std::snprintf(error->message, sizeof error->message, "%s", message);
  return 1;
}

// Returns a function of the CUDA driver; null if there is no driver.
template <class Function>
Function driver(const char* name) {
  static void* const library = ::dlopen("libcuda.so.1", RTLD_NOW);
  return library == nullptr ? nullptr : reinterpret_cast<Function>(::dlsym(library, name));
}
using Allocate = int (*)(std::uint64_t*, std::size_t);
using Free = int (*)(std::uint64_t);

int prepare_device(const char* device, hr_device_facts* facts, hr_error* error) {
  const auto initialize = driver<int (*)(unsigned)>("cuInit");
  if (initialize == nullptr)
    return fail(error, HR_ERROR_UNAVAILABLE, "CUDA driver not found (libcuda.so.1); install NVIDIA's driver");
  const int ordinal = std::atoi(device + std::strlen("cuda:"));
  int count = 0, number = 0;
  void* context = nullptr;
  initialize(0);
  driver<int (*)(int*)>("cuDeviceGetCount")(&count);
  if (ordinal >= count) return fail(error, HR_ERROR_UNAVAILABLE, "there is no such device");
  driver<int (*)(int*, int)>("cuDeviceGet")(&number, ordinal);
  driver<int (*)(void**, int)>("cuDevicePrimaryCtxRetain")(&context, number);
  driver<int (*)(void*)>("cuCtxSetCurrent")(context);
  std::snprintf(facts->name, sizeof facts->name, "Fake GPU %d", number);
  std::snprintf(facts->uuid, sizeof facts->uuid, "GPU-fake-%d", number);
  facts->total_bytes = std::int64_t{64} << 30;
  facts->is_integrated = 0;
  return 0;
}

int allocate_on_device(hr_session& session, long mebibytes, hr_error* error) {
  const auto allocate = driver<Allocate>("cuMemAlloc_v2");
  std::uint64_t memory = 0;
  if (allocate == nullptr || allocate(&memory, static_cast<std::size_t>(mebibytes) << 20) != 0)
    return fail(error, HR_ERROR_FAILED, "the device refused");
  session.kept_on_device.push_back(memory);
  return 0;
}

std::atomic<int> loaded_sessions = 0;

int obey(hr_session& session, const std::string& stage, hr_error* error) {
  for (const auto& command : session.commands) {
    if (command.stage != stage) continue;
    if (command.action == "hang")
      for (;;) ::pause();
    if (command.action == "crash") std::raise(SIGSEGV);
    const bool is_old = stage == "run" && session.runs > command.amount;
    if (command.action == "crash_after" && is_old) std::raise(SIGSEGV);
    if (command.action == "kill_after" && is_old) std::raise(SIGKILL);
    const bool has_company = loaded_sessions > 1;
    if (command.action == "crash_beside" && has_company) std::raise(SIGSEGV);
    if (command.action == "fail_beside" && has_company)
      return fail(error, HR_ERROR_FAILED, "it was told to fail beside others");
    if (command.action == "kill") std::raise(SIGKILL);
    if (command.action == "say") std::fprintf(stderr, "\033[0;93mit was told to warn\033[m\n");
    if (command.action == "share") {
      const auto bytes = static_cast<std::size_t>(command.amount) << 20;
      void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
      if (memory != MAP_FAILED) std::memset(memory, 1, bytes);
    }
    if (command.action == "bad_alloc") {
      std::fprintf(stderr, "terminate called after throwing an instance of 'std::bad_alloc'\n");
      std::abort();
    }
    if (command.action == "threads")
      for (long i = 0; i < command.amount; ++i) std::thread([] { ::pause(); }).detach();
    if (command.action == "exit") ::_exit(static_cast<int>(command.amount));
    if (command.action == "sleep") std::this_thread::sleep_for(std::chrono::milliseconds(command.amount));
    if (command.action == "fail") return fail(error, HR_ERROR_FAILED, "it was told to fail");
    if (command.action == "release") {
      for (char* memory : session.kept) delete[] memory;
      session.kept.clear();
    }
    if (command.action == "device" && allocate_on_device(session, command.amount, error) != 0) return 1;
    if (command.action == "allocate" || (command.action == "allocate_beside" && has_company)) {
      const auto bytes = static_cast<std::size_t>(command.amount) << 20;
      char* memory = new (std::nothrow) char[bytes];
      if (memory == nullptr) return fail(error, HR_ERROR_OUT_OF_MEMORY, "an allocation was refused");
      std::memset(memory, 1, bytes);
      session.kept.push_back(memory);
    }
  }
  return 0;
}

int start(hr_error*) { return 0; }
void stop() {}
const char* version() { return "1.0-test"; }

void unload(hr_session* session) {
  --loaded_sessions;
  for (char* memory : session->kept) delete[] memory;
  for (const std::uint64_t memory : session->kept_on_device) driver<Free>("cuMemFree_v2")(memory);
  delete session;
}

void make_mask(hr_session& session, bool noise, long side) {
  session.picture_dims[2] = session.picture_dims[3] = session.mask_dims[2] = session.mask_dims[3] = side;
  session.output.resize(static_cast<std::size_t>(side * side));
  for (std::size_t i = 0; i < session.output.size(); ++i)
    session.output[i] = noise ? static_cast<float>(i * 2654435761U % 251) / 250.0F : 0.75F;
}

int load(const char* path, const hr_settings* settings, hr_session** session, hr_error* error) {
  std::ifstream file(path);
  if (!file) return fail(error, HR_ERROR_FAILED, "cannot open the model");
  auto* loaded = new hr_session;
  ++loaded_sessions;
  loaded->on_device = std::strcmp(settings->device, "cpu") != 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    hr_session::Command command;
    words >> command.stage >> command.action >> command.amount;
    loaded->commands.push_back(command);
    if (command.stage == "segment") make_mask(*loaded, command.action == "noise", command.amount);
    if (command.stage == "exit")
      std::atexit([] {
        for (;;) ::pause();
      });
  }
  if (obey(*loaded, "load", error) != 0 ||
      (settings->memory_pattern != 0 && obey(*loaded, "pattern", error) != 0)) {
    unload(loaded);
    return 1;
  }
  *session = loaded;
  return 0;
}

int describe(hr_session* session, hr_description* description, hr_error*) {
  description->input_count = description->output_count = 1;
  description->metadata_count = 0;
  description->inputs = &kInput;
  description->outputs = &kOutput;
  if (session->mask_dims[2] > 0) {
    description->inputs = &session->picture;
    description->outputs = &session->mask;
  }
  return 0;
}
int bind_input(hr_session*, int32_t, const hr_tensor*, hr_error*) { return 0; }
int run(hr_session* session, hr_error* error) {
  ++session->runs;
  return obey(*session, "run", error);
}
int output(hr_session* session, int32_t, hr_tensor* tensor, hr_error*) {
  const bool is_mask = session->mask_dims[2] > 0;
  *tensor = {session->output.data(), session->output.size() * sizeof(float), kFloat32, is_mask ? 4 : 2,
             is_mask ? session->mask_dims : kDims};
  return 0;
}
int memory_stats(hr_session*, hr_memory_stats* stats, hr_error*) {
  stats->arena_in_use = stats->arena_total = stats->arena_peak = stats->allocations =
      stats->arena_extensions = -1;
  return 0;
}
int trim(hr_session* session, hr_error* error) { return obey(*session, "trim", error); }
int placement(hr_session* session, hr_placement* placement, hr_error*) {
  if (!session->on_device) return 0;
  placement->nodes_on_device = 3;
  placement->nodes_elsewhere = 1;
  std::snprintf(placement->elsewhere, sizeof placement->elsewhere, "Shape");
  return 0;
}
void run_facts(hr_session* session, hr_run_facts* facts) {
  facts->device_time_ns = session->on_device ? 1'500'000 : -1;
}

const hr_backend kBackend{HEADROOM_BACKEND_ABI,
                          sizeof(hr_backend),
                          "misbehaving",
                          kExtensions,
                          start,
                          stop,
                          version,
                          load,
                          unload,
                          describe,
                          bind_input,
                          run,
                          output,
                          memory_stats,
                          trim,
                          prepare_device,
                          placement,
                          run_facts,
                          nullptr,
                          nullptr,
                          nullptr};

}  // namespace

extern "C" __attribute__((visibility("default"))) const hr_backend* headroom_backend(void) {
  return &kBackend;
}
