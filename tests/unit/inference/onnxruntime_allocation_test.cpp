// Tests that Headroom's code adds no allocations to those of a bare loop over RunWithBinding. Both are
// counted in one process, with the same library, by replacing malloc and related functions (operator new
// calls them).
#include <dlfcn.h>
#include <onnxruntime_c_api.h>

#include <atomic>
#include <cstddef>

#include "onnxruntime_fixture.h"

namespace {
std::atomic<std::int64_t> allocations{0};
}  // namespace

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(size);
}
void* calloc(std::size_t count, std::size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_calloc(count, size);
}
void* realloc(void* memory, std::size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_realloc(memory, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** memory, std::size_t alignment, std::size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  *memory = __libc_memalign(alignment, size);
  return *memory == nullptr ? 12 : 0;
}
}

namespace headroom::inference {
namespace {

constexpr int kRuns = 50;

template <class Work>
std::int64_t count_allocations(Work&& work) {
  const std::int64_t before = allocations.load();
  work();
  return allocations.load() - before;
}

// The same model in the simplest loop that the C API permits: everything is bound once, and the outputs
// have the shapes that Headroom's session found.
class BareLoop {
 public:
  BareLoop(const std::filesystem::path& path, std::vector<SyntheticInput>& inputs,
           const ModelDescription& model, const std::vector<TensorView>& outputs) {
    void* library =
        ::dlopen((test::plugin_path("onnxruntime").parent_path() / "libonnxruntime.so.1").c_str(), RTLD_NOW);
    if (library == nullptr) library = ::dlopen("libonnxruntime.so.1", RTLD_NOW);
    const auto base = reinterpret_cast<const OrtApiBase* (*)()>(::dlsym(library, "OrtGetApiBase"));
    api_ = base()->GetApi(9);
    check(api_->CreateEnv(ORT_LOGGING_LEVEL_WARNING, "bare", &env_));
    check(api_->CreateSessionOptions(&options_));
    check(api_->SetIntraOpNumThreads(options_, 1));
    check(api_->SetInterOpNumThreads(options_, 1));
    check(api_->CreateSession(env_, path.c_str(), options_, &session_));
    check(api_->CreateIoBinding(session_, &binding_));
    check(api_->CreateRunOptions(&run_options_));
    check(api_->CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &cpu_));
    for (std::size_t i = 0; i < inputs.size(); ++i)
      bind(model.inputs[i].name, inputs[i].data.data(), inputs[i].data.size(), inputs[i].dims, true,
           inputs[i].type == ElementType::int64 ? ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64
                                                : ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const auto count = static_cast<std::size_t>(outputs[i].count());
      bind(model.outputs[i].name, buffers_.emplace_back(count).data(), count * sizeof(float),
           {outputs[i].dims, outputs[i].dims + outputs[i].rank}, false, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT);
    }
  }
  BareLoop(const BareLoop&) = delete;
  BareLoop& operator=(const BareLoop&) = delete;
  ~BareLoop() {
    for (OrtValue* value : values_) api_->ReleaseValue(value);
    api_->ReleaseIoBinding(binding_);
    api_->ReleaseRunOptions(run_options_);
    api_->ReleaseMemoryInfo(cpu_);
    api_->ReleaseSession(session_);
    api_->ReleaseSessionOptions(options_);
    api_->ReleaseEnv(env_);
  }
  void run() { check(api_->RunWithBinding(session_, run_options_, binding_)); }

 private:
  void check(OrtStatus* status) {
    if (status == nullptr) return;
    ADD_FAILURE() << api_->GetErrorMessage(status);
    api_->ReleaseStatus(status);
  }
  void bind(const std::string& name, void* data, std::size_t bytes, const std::vector<std::int64_t>& dims,
            bool input, ONNXTensorElementDataType type) {
    OrtValue* value = nullptr;
    check(api_->CreateTensorWithDataAsOrtValue(cpu_, data, bytes, dims.data(), dims.size(), type, &value));
    check(input ? api_->BindInput(binding_, name.c_str(), value)
                : api_->BindOutput(binding_, name.c_str(), value));
    values_.push_back(value);
  }

  const OrtApi* api_ = nullptr;
  OrtEnv* env_ = nullptr;
  OrtSessionOptions* options_ = nullptr;
  OrtSession* session_ = nullptr;
  OrtIoBinding* binding_ = nullptr;
  OrtRunOptions* run_options_ = nullptr;
  OrtMemoryInfo* cpu_ = nullptr;
  std::vector<OrtValue*> values_;
  std::vector<std::vector<float>> buffers_;
};

class AllocationCount : public test::OnnxRuntime, public ::testing::WithParamInterface<const char*> {};

TEST_P(AllocationCount, EqualsBareLoop) {
  FIND_MODEL(path, GetParam());
  auto model = test::value_of(load(*path, one_thread()));
  std::vector<TensorView> views;
  for (int run = 0; run < 3; ++run) ASSERT_TRUE(model.session.run());
  ASSERT_TRUE(model.session.outputs(views));
  BareLoop bare(*path, model.inputs, model.session.description(), views);
  for (int run = 0; run < 3; ++run) bare.run();

  bool all_ran = true;
  const std::int64_t ours = count_allocations([&] {
    for (int run = 0; run < kRuns; ++run)
      all_ran = all_ran && model.session.run().has_value() && model.session.outputs(views).has_value();
  });
  const std::int64_t bares = count_allocations([&] {
    for (int run = 0; run < kRuns; ++run) bare.run();
  });
  EXPECT_TRUE(all_ran);
  EXPECT_GT(bares, 0);  // the counter sees the runtime's allocations
  EXPECT_LE(ours, bares);
}

INSTANTIATE_TEST_SUITE_P(Real, AllocationCount,
                         ::testing::Values("mnist.onnx", "yunet_n_dynamic.onnx", "silero_vad.onnx",
                                           "ch_PP-OCRv4_det_infer.onnx",
                                           "face_detection_front_128x128_barracuda.onnx"),
                         [](const auto& tested) { return test::name_of_case(tested.param); });

}  // namespace
}  // namespace headroom::inference
