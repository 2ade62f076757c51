// The part of ONNX Runtime's C API (MIT, onnxruntime_c_api.h) that the tracer wraps, as positions in its
// function table. Declared here because the preload library is built without ONNX Runtime. Tests call the
// real library at these positions (tests/cli/traced_onnxruntime.cpp).
#pragma once

#include <cstddef>
#include <cstdint>

namespace headroom::preload::ort {

// Opaque, as in the runtime's own header.
struct Env;
struct Status;
struct Session;
struct SessionOptions;
struct RunOptions;
struct Value;
struct IoBinding;
struct Allocator;
struct PrepackedWeights;

struct ApiBase {
  const void* (*get_api)(std::uint32_t version);
  const char* (*get_version)();
};

enum Position : std::size_t {
  kCreateSession = 7,
  kCreateSessionFromArray = 8,
  kRun = 9,
  kCreateSessionOptions = 10,
  kCloneSessionOptions = 12,
  kEnableProfiling = 14,
  kDisableProfiling = 15,
  kAllocatorFree = 76,
  kGetDefaultAllocator = 78,
  kReleaseStatus = 93,
  kReleaseSession = 95,
  kReleaseSessionOptions = 100,
  kSessionEndProfiling = 110,
  kRunWithBinding = 133,              // since 1.4
  kSessionProfilingStartTime = 146,   // since 1.7
  kCreateSessionWithPrepacked = 168,  // since 1.9
  kCreateSessionFromArrayWithPrepacked = 169,
  kRunAsync = 260,  // since 1.16: beyond the end of older tables
};
// Older runtimes have shorter tables and are not wrapped.
inline constexpr int kOldestMinorVersion = 9;
inline constexpr int kOldestWithRunAsync = 16;

using CreateSession = Status* (*)(const Env*, const char*, const SessionOptions*, Session**);
using Run = Status* (*)(Session*, const RunOptions*, const char* const*, const Value* const*, std::size_t,
                        const char* const*, std::size_t, Value**);
using RunAsyncCallback = void (*)(void* user_data, Value** outputs, std::size_t output_count, Status*);
using RunAsync = Status* (*)(Session*, const RunOptions*, const char* const*, const Value* const*,
                             std::size_t, const char* const*, std::size_t, Value**, RunAsyncCallback,
                             void* user_data);
using RunWithBinding = Status* (*)(Session*, const RunOptions*, const IoBinding*);
using CreateSessionOptions = Status* (*)(SessionOptions**);
using CloneSessionOptions = Status* (*)(const SessionOptions*, SessionOptions**);
using EnableProfiling = Status* (*)(SessionOptions*, const char* prefix);
using DisableProfiling = Status* (*)(SessionOptions*);
using AllocatorFree = Status* (*)(Allocator*, void*);
using GetDefaultAllocator = Status* (*)(Allocator**);
using ReleaseStatus = void (*)(Status*);
using ReleaseSession = void (*)(Session*);
using ReleaseSessionOptions = void (*)(SessionOptions*);
using SessionEndProfiling = Status* (*)(Session*, Allocator*, char** path);
using SessionProfilingStartTime = Status* (*)(const Session*, std::uint64_t* realtime_ns);

}  // namespace headroom::preload::ort
