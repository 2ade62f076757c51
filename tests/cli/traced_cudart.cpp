// Like traced_cuda, through the CUDA runtime: its shared library, opened by name, or the static one that this
// program was linked with (HEADROOM_STATIC_CUDART).
//
//   traced_cudart LIMIT STEP [LIBRARY]
//
// Exits with 4 if there is no such library.
#include "cli/cuda_routes.h"

#define RUNTIME_CALLS(CALL)                                                                        \
  CALL(cudaMalloc, (void**, std::size_t))                                                          \
  CALL(cudaMallocPitch, (void**, std::size_t*, std::size_t, std::size_t))                          \
  CALL(cudaMalloc3D, (cuda_program::PitchedPointer*, cuda_program::Extent))                        \
  CALL(cudaMallocManaged, (void**, std::size_t, unsigned))                                         \
  CALL(cudaFree, (void*))                                                                          \
  CALL(cudaMallocAsync, (void**, std::size_t, void*))                                              \
  CALL(cudaMallocFromPoolAsync, (void**, std::size_t, void*, void*))                               \
  CALL(cudaFreeAsync, (void*, void*))                                                              \
  CALL(cudaDeviceGetDefaultMemPool, (void**, int))                                                 \
  CALL(cudaMemPoolTrimTo, (void*, std::size_t))                                                    \
  CALL(cudaDeviceSynchronize, ())                                                                  \
  CALL(cudaMallocArray, (void**, const cuda_program::Format*, std::size_t, std::size_t, unsigned)) \
  CALL(cudaMalloc3DArray, (void**, const cuda_program::Format*, cuda_program::Extent, unsigned))   \
  CALL(cudaFreeArray, (void*))                                                                     \
  CALL(cudaMallocMipmappedArray,                                                                   \
       (void**, const cuda_program::Format*, cuda_program::Extent, unsigned, unsigned))            \
  CALL(cudaFreeMipmappedArray, (void*))                                                            \
  CALL(cudaGetLastError, ())

namespace cuda_program {
namespace {

// As in NVIDIA's driver_types.h.
struct Extent {
  std::size_t width, height, depth;
};
struct PitchedPointer {
  void* pointer;
  std::size_t pitch, width, height;
};
struct Format {
  int x, y, z, w, kind;
};
constexpr Format kFloat{32, 0, 0, 0, 2};

}  // namespace
}  // namespace cuda_program

#ifdef HEADROOM_STATIC_CUDART
#define DECLARE(name, parameters) extern "C" int name parameters;
RUNTIME_CALLS(DECLARE)
#undef DECLARE
#endif

namespace cuda_program {
namespace {

struct Runtime {
#define MEMBER(name, parameters) int(*name) parameters = nullptr;
  RUNTIME_CALLS(MEMBER)
#undef MEMBER
} runtime;

bool open_runtime(const char* name) {
#ifdef HEADROOM_STATIC_CUDART
#define TAKE(call, parameters) runtime.call = &::call;
  (void)name;
#else
  void* opened = name == nullptr ? nullptr : dlopen(name, RTLD_NOW);
  for (const char* known : {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"})
    if (opened == nullptr && name == nullptr) opened = dlopen(known, RTLD_NOW);
  if (opened == nullptr) return false;
#define TAKE(call, parameters)                                              \
  runtime.call = reinterpret_cast<int(*) parameters>(dlsym(opened, #call)); \
  if (runtime.call == nullptr) fail("the runtime has no", #call, 0);
#endif
  RUNTIME_CALLS(TAKE)
#undef TAKE
  return true;
}

// What was allocated, and how to free it.
struct Held : Route {
  std::vector<void*> all;
  int (*free)(void*) = runtime.cudaFree;
  Result keep(int result, void* const& made) {
    runtime.cudaGetLastError();  // the error stays set until it is read
    if (result == kSuccess) all.push_back(made);
    return result;
  }
  void free_all() override {
    for (void* one : all) check(free(one), "free");
    all.clear();
  }
};
struct Malloc : Held {
  bool managed = false;
  explicit Malloc(bool is_managed) : managed(is_managed) {}
  Result allocate(std::uint64_t step, std::uint64_t& cost) override {
    void* made = nullptr;
    cost = step;
    return keep(managed ? runtime.cudaMallocManaged(&made, step, 1) : runtime.cudaMalloc(&made, step), made);
  }
};
struct Rows : Held {
  bool is_cube = false;
  explicit Rows(bool cube) : is_cube(cube) {}
  Result allocate(std::uint64_t step, std::uint64_t& cost) override {
    constexpr std::size_t kWidth = 1000, kRows = 64;
    PitchedPointer made{};
    int result = 0;
    if (is_cube) {
      const Extent extent{kWidth, kRows, static_cast<std::size_t>(step / 1024 / kRows)};
      result = runtime.cudaMalloc3D(&made, extent);
      cost = made.pitch * extent.height * extent.depth;
    } else {
      result = runtime.cudaMallocPitch(&made.pointer, &made.pitch, kWidth, step / 1024);
      cost = made.pitch * (step / 1024);
    }
    return keep(result, made.pointer);
  }
  bool is_exact() const override { return false; }
};
struct InOrder : Held {
  bool from_pool = false;
  void* pool = nullptr;
  explicit InOrder(bool by_pool) : from_pool(by_pool) {
    check(runtime.cudaDeviceGetDefaultMemPool(&pool, 0), "default pool");
  }
  Result allocate(std::uint64_t step, std::uint64_t& cost) override {
    void* made = nullptr;
    cost = step;
    return keep(from_pool ? runtime.cudaMallocFromPoolAsync(&made, step, pool, nullptr)
                          : runtime.cudaMallocAsync(&made, step, nullptr),
                made);
  }
  void free_all() override {
    for (void* one : all) check(runtime.cudaFreeAsync(one, nullptr), "cudaFreeAsync");
    all.clear();
    check(runtime.cudaDeviceSynchronize(), "synchronize");
    check(runtime.cudaMemPoolTrimTo(pool, 0), "trim");
  }
  bool is_exact() const override { return false; }
  std::uint64_t granule() const override { return kPoolGranule; }
};
struct RuntimeArrays : Held {
  int dimensions;  // 0: a mipmap
  explicit RuntimeArrays(int which) : dimensions(which) {
    free = which == 0 ? runtime.cudaFreeMipmappedArray : runtime.cudaFreeArray;
  }
  Result allocate(std::uint64_t step, std::uint64_t& cost) override {
    cost = 0;  // determined by the driver
    void* made = nullptr;
    const Extent extent{256, 64, std::max<std::size_t>(1, step / 65536)};
    const int result = dimensions == 2   ? runtime.cudaMallocArray(&made, &kFloat, 1024, step / 4096, 0)
                       : dimensions == 3 ? runtime.cudaMalloc3DArray(&made, &kFloat, extent, 0)
                                         : runtime.cudaMallocMipmappedArray(&made, &kFloat, extent, 3, 0);
    return keep(result, made);
  }
  bool is_exact() const override { return false; }
};

}  // namespace
}  // namespace cuda_program

int main(int count, char** arguments) {
  using namespace cuda_program;
  if (count < 3) return 2;
  const std::uint64_t limit = std::strtoull(arguments[1], nullptr, 10),
                      step = std::strtoull(arguments[2], nullptr, 10);
  if (!open_runtime(count > 3 ? arguments[3] : nullptr)) {
    std::printf("there is no CUDA runtime: %s\n", dlerror());
    return 4;
  }
  library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) fail("no driver", dlerror(), 0);
  lookup = "dlsym";
  check(runtime.cudaFree(nullptr), "cudaFree");  // creates the context
  bool sound = true;
  const auto try_route = [&](const char* name, Route&& one) { sound = run(name, one, limit, step) && sound; };
  try_route("malloc", Malloc(false));
  try_route("pitch", Rows(false));
  try_route("cube", Rows(true));
  try_route("managed", Malloc(true));
  try_route("async", InOrder(false));
  try_route("pool", InOrder(true));
  try_route("array", RuntimeArrays(2));
  try_route("array3d", RuntimeArrays(3));
  try_route("mipmap", RuntimeArrays(0));
  return sound ? 0 : 1;
}
