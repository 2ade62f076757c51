// Tests the errors of TorchScript files and their messages.
#include <sys/resource.h>

#include "libtorch_fixture.h"

namespace headroom::inference {
namespace {

using test::Dims;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class TorchScriptErrors : public test::LibTorch {
 protected:
  test::TemporaryFolder folder_;
};

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
  test::write_text(folder_ / "text.pt", "this is not a model at all\n");
  EXPECT_THAT(error_of_loading(folder_ / "text.pt").why, StartsWith("the file is not a TorchScript archive"));
}

TEST_F(TorchScriptErrors, NamesUnknownOperator) {
  const Error error = error_of_loading(module("unknown_operator"));
  EXPECT_EQ(error.why,
            "it uses an operator that this LibTorch does not support: Unknown builtin op: nowhere::blend");
}

TEST_F(TorchScriptErrors, RejectsInputsOtherThanOneTensor) {
  EXPECT_THAT(error_of_loading(module("two")).why,
              AllOf(HasSubstr("several tensors ('a', 'b')"), HasSubstr("takes one tensor")));
  EXPECT_THAT(error_of_loading(module("number")).why, HasSubstr("'count' of type int"));
  EXPECT_THAT(error_of_loading(module("no_forward")).why, HasSubstr("has no forward()"));
}

TEST_F(TorchScriptErrors, NamesGuessedShapeWhenRunFails) {
  auto session = backend_->load(module("fixed"), one_thread());
  ASSERT_TRUE(session) << session.error().sentence();
  std::vector<float> input = test::filled({1, 3, 64, 64});
  ASSERT_TRUE(bind(*session, input, {1, 3, 64, 64}));
  const Status ran = session->run();
  ASSERT_FALSE(ran);
  EXPECT_THAT(ran.error().why, AllOf(HasSubstr("mat1 and mat2 shapes cannot be multiplied"),
                                     HasSubstr("Headroom tried float32[1,3,64,64]"), HasSubstr("--imgsz"),
                                     Not(HasSubstr("Traceback")), Not(HasSubstr("\n"))));
  EXPECT_FALSE(is_out_of_memory(ran.error()));
  std::vector<float> fitting = test::filled({1, 3, 32, 32});
  ASSERT_TRUE(bind(*session, fitting, {1, 3, 32, 32}));
  EXPECT_TRUE(session->run());
}

TEST_F(TorchScriptErrors, RejectsInputsThatDoNotFit) {
  auto session = backend_->load(module("yolov5_config"), one_thread());
  ASSERT_TRUE(session) << session.error().sentence();
  EXPECT_THAT(session->run().error().why, HasSubstr("its input is not bound"));
  std::vector<float> input = test::filled({1, 3, 64, 64});
  const auto why = [&](std::size_t index, ElementType type, const Dims& dims) {
    const Status bound = session->bind_input(index, input.data(), input.size() * sizeof(float), type, dims);
    return bound ? std::string() : bound.error().why;
  };
  EXPECT_EQ(why(0, ElementType::float32, {1, 3, 32, 32}),
            "input x needs float32[1,3,64,64], but got float32[1,3,32,32]");
  EXPECT_EQ(why(0, ElementType::uint8, {1, 3, 64, 64}),
            "input x needs float32[1,3,64,64], but got uint8[1,3,64,64]");
  EXPECT_EQ(why(0, ElementType::float32, {3, 64, 64}),
            "input x needs float32[1,3,64,64], but got float32[3,64,64]");
  EXPECT_THAT(why(1, ElementType::float32, {1, 3, 64, 64}), HasSubstr("invalid input index 1"));
  input.resize(10);
  EXPECT_THAT(why(0, ElementType::float32, {1, 3, 64, 64}), HasSubstr("needs 49152 bytes"));
}

// In a child process, because the limit cannot be removed.
TEST_F(TorchScriptErrors, ReportsRefusedAllocationAsOutOfMemory) {
#ifdef HEADROOM_SANITIZED
  GTEST_SKIP() << "AddressSanitizer reserves more private memory than RLIMIT_DATA allows";
#endif
  auto session = backend_->load(module("large"), one_thread());
  ASSERT_TRUE(session) << session.error().sentence();
  std::vector<float> input = test::filled({1, 3, 64, 64});
  ASSERT_TRUE(bind(*session, input, {1, 3, 64, 64}));
  const auto run_under_a_limit = [&] {
    const rlimit limit{400U << 20, 400U << 20};
    ::setrlimit(RLIMIT_DATA, &limit);
    const Status ran = session->run();
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

}  // namespace
}  // namespace headroom::inference
