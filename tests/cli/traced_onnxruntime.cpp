// Loads ONNX Runtime with dlopen and loads a model, in a program without a C++ runtime. The session is still
// open at the end. If TEST_PROFILE is set, the program profiles the session itself, into files with that
// prefix, and prints their names:
//
//     traced_onnxruntime MODEL.onnx LIBRARY...
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

#include "preload/onnxruntime_table.h"

using namespace headroom::preload;

namespace {

constexpr std::size_t kCreateEnv = 3;
constexpr int kErrorsOnly = 3;

void** table_of(const char* library) {
  void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    std::puts(dlerror());
    return nullptr;
  }
  const auto get_base = reinterpret_cast<const ort::ApiBase* (*)()>(dlsym(handle, "OrtGetApiBase"));
  if (get_base == nullptr) return nullptr;
  return static_cast<void**>(const_cast<void*>(get_base()->get_api(ort::kOldestMinorVersion)));
}

template <class Function>
Function function_at(void** table, std::size_t position) {
  return reinterpret_cast<Function>(table[position]);
}

int end_profile(void** table, ort::Session* session) {
  ort::Allocator* allocator = nullptr;
  char* path = nullptr;
  if (function_at<ort::GetDefaultAllocator>(table, ort::kGetDefaultAllocator)(&allocator) != nullptr)
    return 6;
  const auto end = function_at<ort::SessionEndProfiling>(table, ort::kSessionEndProfiling);
  if (end(session, allocator, &path) != nullptr) return 7;
  std::puts(path);
  return 0;
}

int load(const char* library, const char* model) {
  void** table = table_of(library);
  if (table == nullptr) return 1;
  ort::Env* env = nullptr;
  const auto create_env = function_at<ort::Status* (*)(int, const char*, ort::Env**)>(table, kCreateEnv);
  if (create_env(kErrorsOnly, "test", &env) != nullptr) return 2;
  ort::SessionOptions* options = nullptr;
  if (function_at<ort::CreateSessionOptions>(table, ort::kCreateSessionOptions)(&options) != nullptr)
    return 3;
  const char* profile = std::getenv("TEST_PROFILE");
  if (profile != nullptr &&
      function_at<ort::EnableProfiling>(table, ort::kEnableProfiling)(options, profile) != nullptr)
    return 5;
  ort::Session* session = nullptr;
  if (function_at<ort::CreateSession>(table, ort::kCreateSession)(env, model, options, &session) != nullptr)
    return 4;
  function_at<ort::ReleaseSessionOptions>(table, ort::kReleaseSessionOptions)(options);
  return profile != nullptr ? end_profile(table, session) : 0;
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 2; i < argc; ++i)
    if (const int failure = load(argv[i], argv[1])) return failure;
}
