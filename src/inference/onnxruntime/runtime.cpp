#include "inference/onnxruntime/runtime.h"

#include <dlfcn.h>

#if defined(HEADROOM_LEAK_SANITIZER)
#include <sanitizer/lsan_interface.h>
#endif

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace headroom::onnxruntime {
namespace {
namespace fs = std::filesystem;

// Version 9's function table ends with CreateSessionFromArrayWithPrepackedWeightsContainer. The two newest
// functions that are used without a version check must lie before its end.
static_assert(offsetof(OrtApi, CreateArenaCfgV2) <
              offsetof(OrtApi, CreateSessionFromArrayWithPrepackedWeightsContainer));
static_assert(offsetof(OrtApi, AddRunConfigEntry) <
              offsetof(OrtApi, CreateSessionFromArrayWithPrepackedWeightsContainer));

// The ONNX file (protocol buffer bytes) of y = Identity(x) with one float, opset 13.
constexpr std::string_view kIdentityModel(
    "\x08\x07\x3a\x37"                                                   // ir_version 7, graph of 55 bytes
    "\x0a\x10\x0a\x01x\x12\x01y\x22\x08Identity"                         // node: input, output, operator
    "\x12\x01g"                                                          // name
    "\x5a\x0f\x0a\x01x\x12\x0a\x0a\x08\x08\x01\x12\x04\x0a\x02\x08\x01"  // input: float[1]
    "\x62\x0f\x0a\x01y\x12\x0a\x0a\x08\x08\x01\x12\x04\x0a\x02\x08\x01"  // output: float[1]
    "\x42\x04\x0a\x00\x10\x0d",                                          // opset 13
    65);

using plugin::last_dl_error;

// The path of the library or program that contains this address.
fs::path file_of(const void* address) {
  Dl_info info{};
  if (::dladdr(address, &info) == 0 || info.dli_fname == nullptr) return {};
  std::error_code error;
  const fs::path file = fs::absolute(info.dli_fname, error);
  return error ? fs::path() : file;
}

void* open_library() {
  constexpr int kFlags = RTLD_NOW | RTLD_LOCAL;
  if (const char* named = std::getenv("HEADROOM_ONNXRUNTIME"); named != nullptr && *named != '\0') {
    if (void* library = ::dlopen(named, kFlags)) return library;
    const std::string reason = last_dl_error();
    throw unavailable("cannot open the library in HEADROOM_ONNXRUNTIME: {}; {}", reason,
                      fix_for_opening(reason, "correct or unset it"));
  }
  // Next to this plug-in.
  const fs::path beside =
      file_of(reinterpret_cast<const void*>(&file_of)).parent_path() / "libonnxruntime.so.1";
  std::string tried;
  for (const std::string& name :
       {beside.string(), std::string("libonnxruntime.so.1"), std::string("libonnxruntime.so")}) {
    if (void* library = ::dlopen(name.c_str(), kFlags)) return library;
    tried += (tried.empty() ? "" : "; ") + last_dl_error();
  }
  throw unavailable("cannot open ONNX Runtime's library ({}); {}", tried,
                    fix_for_opening(tried, "install it, or set HEADROOM_ONNXRUNTIME to its file"));
}

// "1.29.0" → 29; 0 for an invalid version.
uint32_t minor_of(const std::string& version) {
  const std::size_t dot = version.find('.');
  if (dot == std::string::npos) return 0;
  return static_cast<uint32_t>(std::strtoul(version.c_str() + dot + 1, nullptr, 10));
}

}  // namespace

Runtime::Runtime() : library_(open_library()) {
  using GetApiBase = const OrtApiBase*(ORT_API_CALL*)();
  const auto get_base = reinterpret_cast<GetApiBase>(::dlsym(library_, "OrtGetApiBase"));
  if (get_base == nullptr)
    throw unavailable(
        "the opened library is not ONNX Runtime: it has no OrtGetApiBase; set HEADROOM_ONNXRUNTIME "
        "to ONNX Runtime's library");
  base_ = get_base();
  version_ = base_->GetVersionString();
  minor_version_ = minor_of(version_);
  api_ = base_->GetApi(kOldestApi);
  if (api_ == nullptr)
    throw unavailable("ONNX Runtime {} is too old; install 1.{} or newer", version_, kOldestApi);
#if defined(HEADROOM_LEAK_SANITIZER)
  const __lsan::ScopedDisabler known_leak;  // CreateEnv (1.29) leaks 14 bytes, even after ReleaseEnv
#endif
  check(api_->CreateEnv(ORT_LOGGING_LEVEL_WARNING, "headroom", &env_));
}

Runtime::~Runtime() {
  if (env_ != nullptr) api_->ReleaseEnv(env_);
}

std::string Runtime::file() const { return file_of(::dlsym(library_, "OrtGetApiBase")).string(); }

const OrtApi* Runtime::newer_api(uint32_t version) const {
  // GetApi prints to stderr if it lacks the version, so request only versions that the library must have.
  return minor_version_ < version ? nullptr : base_->GetApi(version);
}

void Runtime::check(OrtStatus* status) const {
  if (status == nullptr) return;
  const Owned<OrtStatus> owned(status, api_->ReleaseStatus);
  throw classify(api_->GetErrorMessage(status));
}

bool Runtime::make_arena(std::int64_t first_bytes) {
  const std::lock_guard lock(arena_mutex_);
  if (has_arena_) return false;
  // An arena that grows as requested has no initial size. An arena that doubles has one, and its doubling
  // can be bounded. Older libraries reject the bound.
  constexpr std::array<const char*, 3> kKeys{"arena_extend_strategy", "initial_chunk_size_bytes",
                                             "max_power_of_two_extend_bytes"};
  constexpr size_t kAsRequested = 1, kDoubling = 0, kMostDoubled = size_t{1} << 20;
  const std::array<size_t, 3> values{first_bytes > 0 ? kDoubling : kAsRequested,
                                     static_cast<size_t>(first_bytes), kMostDoubled};
  const auto configuration = make(api_->ReleaseArenaCfg, api_->CreateArenaCfgV2, kKeys.data(), values.data(),
                                  first_bytes > 0 ? kKeys.size() : 1);
  const auto memory = cpu_memory(*this, OrtArenaAllocator);
  check(api_->CreateAndRegisterAllocator(env_, memory.get(), configuration.get()));
  has_arena_ = true;
  return true;
}

// The C API reaches the arena only through a session, so this creates one of kIdentityModel. One
// allocation of the arena's size becomes the arena's first region. The arena keeps that region after the
// block and the session are freed.
void Runtime::fill_shared_arena(std::int64_t bytes) {
  if (!make_arena(bytes)) return;
  const auto options = make(api_->ReleaseSessionOptions, api_->CreateSessionOptions);
  check(api_->AddSessionConfigEntry(options.get(), kUseEnvAllocators, "1"));
  check(api_->SetIntraOpNumThreads(options.get(), 1));
  const auto session = make(api_->ReleaseSession, api_->CreateSessionFromArray, env_, kIdentityModel.data(),
                            kIdentityModel.size(), options.get());
  const auto memory = cpu_memory(*this, OrtArenaAllocator);
  const auto arena = make(api_->ReleaseAllocator, api_->CreateAllocator, session.get(), memory.get());
  const auto size = static_cast<std::size_t>(bytes);
  void* block = nullptr;
  check(api_->AllocatorAlloc(arena.get(), size, &block));
  std::memset(block, 0, size);
  check(api_->AllocatorFree(arena.get(), block));
}

Owned<OrtMemoryInfo> cpu_memory(const Runtime& runtime, OrtAllocatorType type) {
  return runtime.make(runtime.api().ReleaseMemoryInfo, runtime.api().CreateCpuMemoryInfo, type,
                      OrtMemTypeDefault);
}

}  // namespace headroom::onnxruntime
