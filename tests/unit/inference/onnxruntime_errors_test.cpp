// Tests the errors of the ONNX Runtime plug-in and their messages.
#include <unistd.h>

#include "onnxruntime_fixture.h"
#include "support/scoped_environment.h"

namespace headroom::inference {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Errors : public test::OnnxRuntime {
 protected:
  test::TemporaryFolder folder_;
};

TEST_F(Errors, UnknownOperatorFailsTheLoad) {
  const auto path = test::shared_data("models_bad/pytorch_superresolution_prepost.onnx");
  if (!path) GTEST_SKIP() << test::absent_message("pytorch_superresolution_prepost.onnx");
  const Error error = error_of_loading(*path);
  EXPECT_EQ(error.kind, ErrorKind::failed);
  EXPECT_EQ(error.what, "onnxruntime cannot load " + path->string());
  EXPECT_THAT(error.why,
              AllOf(HasSubstr("com.microsoft.extensions:DecodeImage"), Not(HasSubstr("Load model from")),
                    Not(HasSubstr(".cc:")), Not(HasSubstr("\n"))));
  EXPECT_FALSE(is_out_of_memory(error));
}

TEST_F(Errors, FailingOperatorFailsTheRun) {
  const auto path = test::shared_data("models_bad/bodypix_mbv1_050_s8.onnx");
  if (!path) GTEST_SKIP() << test::absent_message("bodypix_mbv1_050_s8.onnx");
  auto model = test::value_of(load(*path, one_thread()));
  const Error error = test::error_of(model.session.run());
  EXPECT_EQ(error.what, "onnxruntime cannot run bodypix_mbv1_050_s8.onnx");
  EXPECT_THAT(error.why, HasSubstr("Dilation not supported for AutoPadType::SAME_UPPER"));
  EXPECT_FALSE(is_out_of_memory(error));
  std::vector<TensorView> views;
  EXPECT_FALSE(model.session.outputs(views));
}

TEST_F(Errors, RejectsDamagedFiles) {
  FIND_MODEL(whole, "mnist.onnx");
  const std::string bytes = test::read_text(*whole);
  for (const std::size_t share : {2, 50, 95}) {
    const auto path = folder_ / "truncated.onnx";
    test::write_text(path, bytes.substr(0, bytes.size() * share / 100));
    const Error error = error_of_loading(path);
    EXPECT_EQ(error.kind, ErrorKind::failed);
    EXPECT_FALSE(error.why.empty());
    EXPECT_THAT(error.why, Not(HasSubstr(".cc:")));
  }
  test::write_text(folder_ / "text.onnx", "this is not a model at all\n");
  EXPECT_THAT(error_of_loading(folder_ / "text.onnx").why, HasSubstr("Protobuf parsing failed"));
}

TEST_F(Errors, RejectsMissingAndUnreadableFiles) {
  const Error absent = error_of_loading(folder_ / "absent.onnx");
  EXPECT_EQ(absent.kind, ErrorKind::input);
  EXPECT_EQ(absent.sentence(), "cannot open model " + (folder_ / "absent.onnx").string() +
                                   ": No such file or directory; check the path");
  test::write_text(folder_ / "empty.onnx", "");
  EXPECT_EQ(error_of_loading(folder_ / "empty.onnx").why, "the file is empty");
  const Error folder = error_of_loading(folder_.path());
  EXPECT_EQ(folder.kind, ErrorKind::input);
  EXPECT_EQ(folder.why, "it is a folder");
  if (::geteuid() == 0) return;  // root may read anything
  test::write_text(folder_ / "locked.onnx", "x");
  std::filesystem::permissions(folder_ / "locked.onnx", std::filesystem::perms::none);
  EXPECT_EQ(error_of_loading(folder_ / "locked.onnx").why, "Permission denied");
}

TEST_F(Errors, RejectsInputsThatDoNotFit) {
  FIND_MODEL(path, "mnist.onnx");
  auto session = test::value_of(backend_->load(*path, one_thread()));
  std::vector<float> data(28 * 28);
  const std::size_t bytes = data.size() * sizeof(float);
  const auto why = [&](std::size_t index, std::size_t size, ElementType type, const test::Dims& dims) {
    return test::error_of(session.bind_input(index, data.data(), size, type, dims)).why;
  };
  EXPECT_EQ(why(0, bytes, ElementType::float32, {1, 1, 14, 56}),
            "input Input3 needs float32[1,1,28,28], but got float32[1,1,14,56]");
  EXPECT_EQ(why(0, bytes, ElementType::int32, {1, 1, 28, 28}),
            "input Input3 needs float32[1,1,28,28], but got int32[1,1,28,28]");
  EXPECT_EQ(why(0, bytes, ElementType::float32, {1, 28, 28}),
            "input Input3 needs float32[1,1,28,28], but got float32[1,28,28]");
  EXPECT_EQ(why(0, bytes - 4, ElementType::float32, {1, 1, 28, 28}),
            "input Input3 needs 3136 bytes, but got 3132");
  EXPECT_EQ(why(1, bytes, ElementType::float32, {1, 1, 28, 28}), "invalid input index 1; the model has 1");
  EXPECT_EQ(test::error_of(session.run()).why, "1 of its inputs are not bound");
}

TEST_F(Errors, ReportsLibraryThatDoesNotOpen) {
  const test::ScopedEnvironment library("HEADROOM_ONNXRUNTIME", (folder_ / "absent.so").string());
  backend_.reset();  // it is the last backend, so the next start opens the library again
  auto opened = test::value_of(Backend::open({"onnxruntime", test::plugin_path("onnxruntime")}));
  const Error error = test::error_of(opened.start());
  EXPECT_EQ(error.kind, ErrorKind::input);
  EXPECT_EQ(error.what, "cannot start onnxruntime");
  EXPECT_THAT(error.why, AllOf(HasSubstr("HEADROOM_ONNXRUNTIME"), HasSubstr("absent.so")));
  const test::ScopedEnvironment other("HEADROOM_ONNXRUNTIME", "libm.so.6");
  EXPECT_THAT(test::error_of(opened.start()).why, HasSubstr("is not ONNX Runtime"));
}

}  // namespace
}  // namespace headroom::inference
