// Tests the errors of TorchScript files and their messages.
// Tests that each setting reaches LibTorch or is rejected, and in which precision LibTorch computes.
#include <sys/resource.h>

#include "libtorch_fixture.h"

namespace headroom::inference {
namespace {

using test::error_of;
using test::threads_of_this_process;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

const test::Dims kPicture{1, 3, 64, 64};

class TorchScriptErrors : public test::LibTorch {};

TEST_F(TorchScriptErrors, RecognisesFileOfWeights) {
  for (const char* name : {"weights", "old_weights"}) {
    const Error error = error_of_loading(module(name));
    EXPECT_EQ(error.kind, ErrorKind::failed);
    EXPECT_THAT(error.sentence(), AllOf(HasSubstr("holds weights or a pickled Python object"),
                                        HasSubstr("torch.jit.trace"), HasSubstr(".onnx")))
        << name;
  }
}

TEST_F(TorchScriptErrors, RejectsDamagedFiles) {
  EXPECT_THAT(error_of_loading(module("cut")).why, HasSubstr("truncated or damaged"));
  const Error damaged = error_of_loading(module("damaged"));
  EXPECT_EQ(damaged.kind, ErrorKind::failed);
  EXPECT_FALSE(damaged.why.empty());
  EXPECT_THAT(damaged.why, AllOf(Not(HasSubstr("\n")), Not(HasSubstr("frame #")), Not(HasSubstr(".cpp:"))));
  const test::TemporaryFolder folder;
  test::write_text(folder / "text.pt", "this is not a model at all\n");
  EXPECT_THAT(error_of_loading(folder / "text.pt").why, StartsWith("the file is not a TorchScript archive"));
}

TEST_F(TorchScriptErrors, NamesUnknownOperator) {
  EXPECT_EQ(error_of_loading(module("unknown_operator")).why,
            "it uses an operator that this LibTorch does not support: Unknown builtin op: nowhere::blend");
}

TEST_F(TorchScriptErrors, RejectsInputsOtherThanOneTensor) {
  EXPECT_THAT(error_of_loading(module("two")).why,
              AllOf(HasSubstr("several tensors ('a', 'b')"), HasSubstr("takes one tensor")));
  EXPECT_THAT(error_of_loading(module("one_recorded")).why, HasSubstr("not a list of the 2 tensors"));
  EXPECT_THAT(error_of_loading(module("number")).why, HasSubstr("'count' of type int"));
  EXPECT_THAT(error_of_loading(module("no_forward")).why, HasSubstr("has no forward()"));
}

TEST_F(TorchScriptErrors, NamesGuessedShapeWhenRunFails) {
  auto session = test::value_of(backend_->load(module("fixed"), one_thread()));
  std::vector<float> input = test::filled(kPicture);
  ASSERT_TRUE(bind(session, input, kPicture));
  const Error error = error_of(session.run());
  EXPECT_THAT(error.why, AllOf(HasSubstr("mat1 and mat2 shapes cannot be multiplied"),
                               HasSubstr("Headroom tried float32[1,3,64,64]"), HasSubstr("--imgsz"),
                               Not(HasSubstr("Traceback")), Not(HasSubstr("\n"))));
  EXPECT_FALSE(is_out_of_memory(error));
  std::vector<float> fitting = test::filled({1, 3, 32, 32});
  ASSERT_TRUE(bind(session, fitting, {1, 3, 32, 32}));
  EXPECT_TRUE(session.run());
}

TEST_F(TorchScriptErrors, RejectsInputsThatDoNotFit) {
  auto session = test::value_of(backend_->load(module("yolov5_config"), one_thread()));
  EXPECT_THAT(error_of(session.run()).why, HasSubstr("its input is not bound"));
  std::vector<float> input = test::filled(kPicture);
  const auto why = [&](std::size_t index, ElementType type, const test::Dims& dims) {
    return error_of(session.bind_input(index, input.data(), input.size() * sizeof(float), type, dims)).why;
  };
  EXPECT_EQ(why(0, ElementType::float32, {1, 3, 32, 32}),
            "input x needs float32[1,3,64,64], but got float32[1,3,32,32]");
  EXPECT_EQ(why(0, ElementType::uint8, kPicture),
            "input x needs float32[1,3,64,64], but got uint8[1,3,64,64]");
  EXPECT_EQ(why(0, ElementType::float32, {3, 64, 64}),
            "input x needs float32[1,3,64,64], but got float32[3,64,64]");
  EXPECT_THAT(why(1, ElementType::float32, kPicture), HasSubstr("invalid input index 1"));
  input.resize(10);
  EXPECT_THAT(why(0, ElementType::float32, kPicture), HasSubstr("needs 49152 bytes"));
}

// In a child process, because the limit cannot be removed.
TEST_F(TorchScriptErrors, ReportsRefusedAllocationAsOutOfMemory) {
#ifdef HEADROOM_SANITIZED
  GTEST_SKIP() << "AddressSanitizer reserves more private memory than RLIMIT_DATA allows";
#endif
  auto session = test::value_of(backend_->load(module("large"), one_thread()));
  std::vector<float> input = test::filled(kPicture);
  ASSERT_TRUE(bind(session, input, kPicture));
  const auto run_under_a_limit = [&] {
    const rlimit limit{400U << 20, 400U << 20};
    ::setrlimit(RLIMIT_DATA, &limit);
    const Status ran = session.run();
    if (ran) std::_Exit(3);
    std::fputs(ran.error().sentence().c_str(), stderr);
    std::_Exit(is_out_of_memory(ran.error()) ? 0 : 4);
  };
  EXPECT_EXIT(run_under_a_limit(), testing::ExitedWithCode(0),
              "out of memory: .*tried to allocate 268435456 bytes");
}

TEST_F(TorchScriptErrors, RejectsUnsupportedDevice) {
  RuntimeSettings settings = one_thread();
  settings.device = "cuda:0";
  const Error error = error_of_loading(module("script"), settings);
  EXPECT_NE(error.kind, ErrorKind::internal);
  EXPECT_FALSE(error.why.empty());
  EXPECT_FALSE(backend_->prepare_device("cuda:0"));
}

class TorchScriptSettings : public test::LibTorch {
 protected:
  std::vector<float> values_with(const RuntimeSettings& settings) {
    auto session = test::value_of(backend_->load(module("script"), settings));
    precision_ = session.description().metadata_value("headroom.precision");
    std::vector<float> input = test::filled(kPicture);
    test::value_of(bind(session, input, kPicture));
    test::value_of(session.run());
    std::vector<TensorView> views;
    test::value_of(session.learn_outputs());
    test::value_of(session.outputs(views));
    return test::values_of(views);
  }
  std::string why_refused(void (*change)(RuntimeSettings&)) {
    RuntimeSettings settings = one_thread();
    change(settings);
    return error_of_loading(module("script"), settings).why;
  }
  std::string precision_;
};

TEST_F(TorchScriptSettings, StartsThreadsAndComputesInFileTypes) {
  const std::int64_t before = threads_of_this_process();
  (void)values_with(one_thread());
  EXPECT_EQ(threads_of_this_process(), before);
  EXPECT_EQ(precision_, "fp32") << "the CPU computes in the file's types";
  RuntimeSettings settings;
  settings.threads = 3;
  (void)values_with(settings);
  // The calling thread is the third. A second pool, for quantized operators, has as many threads.
  EXPECT_GE(threads_of_this_process(), before + 2);
}

// The results differ from the exact values, but only within the 8 bits of bfloat16's mantissa.
TEST_F(TorchScriptSettings, ComputesInBf16AndReturnsFloat32) {
  RuntimeSettings settings = one_thread();
  const std::vector<float> exact = values_with(settings);
  settings.precision = Precision::bf16;
  const std::vector<float> rounded = values_with(settings);
  EXPECT_EQ(precision_, "bf16");
  ASSERT_EQ(exact.size(), 10U);
  ASSERT_EQ(rounded.size(), 10U);
  EXPECT_NE(exact, rounded);
  for (std::size_t i = 0; i < exact.size(); ++i) EXPECT_NEAR(rounded[i], exact[i], 0.02);
  settings.precision = Precision::fp32;
  EXPECT_EQ(values_with(settings), exact);  // autocast is off again
}

TEST_F(TorchScriptSettings, RejectsUnsupportedSettings) {
  EXPECT_THAT(why_refused([](RuntimeSettings& s) { s.arena = false; }), HasSubstr("no arena on the CPU"));
  EXPECT_THAT(why_refused([](RuntimeSettings& s) { s.arena_extend = ArenaExtend::same_as_requested; }),
              HasSubstr("no arena on the CPU"));
  EXPECT_THAT(why_refused([](RuntimeSettings& s) { s.memory_pattern = false; }), HasSubstr("pattern"));
  EXPECT_THAT(why_refused([](RuntimeSettings& s) { s.spinning = false; }), HasSubstr("OMP_WAIT_POLICY"));
  EXPECT_THAT(why_refused([](RuntimeSettings& s) { s.graph_level = 3; }), HasSubstr("graph level 3"));
  EXPECT_THAT(why_refused([](RuntimeSettings& s) { s.threads = -1; }), HasSubstr("-1 threads"));
}

// LibTorch's CPU allocator has no figures.
TEST_F(TorchScriptSettings, ReportsNoAllocatorFiguresOnCpu) {
  auto session = test::value_of(backend_->load(module("script"), one_thread()));
  const MemoryStats stats = session.memory_stats();
  EXPECT_FALSE(stats.arena_total || stats.arena_in_use || stats.allocations);
  EXPECT_FALSE(session.placement());
  EXPECT_FALSE(session.device_time());
}

}  // namespace
}  // namespace headroom::inference
