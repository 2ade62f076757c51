#include "base/files.h"
#include "inference/backend.h"
#include "support/scoped_environment.h"
#include "support/test_support.h"
#include "unit/inference/results.h"

namespace headroom::inference {
namespace {

using test::error_of;
using test::value_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Two folders with plug-ins. They are empty files, because a search does not open them.
class BackendSearch : public ::testing::Test {
 protected:
  void install(const std::string& folder, const std::string& name) {
    test::write_text(folder_.path() / folder / ("libheadroom_backend_" + name + ".so"), "");
  }
  std::string in_path(const char* separator) const {
    return (folder_ / "first").string() + separator + (folder_ / "absent").string() + separator +
           (folder_ / "second").string();
  }
  static std::vector<std::string> names(const std::filesystem::path& model, std::string_view forced,
                                        std::string_view device) {
    std::vector<std::string> all;
    for (const BackendFile& file : value_of(choose_backends(model, forced, device))) all.push_back(file.name);
    return all;
  }
  test::TemporaryFolder folder_;
  bool made_ = std::filesystem::create_directory(folder_ / "first") &&
               std::filesystem::create_directory(folder_ / "second");
  test::ScopedEnvironment path_{"HEADROOM_BACKEND_PATH", in_path("::")};
};

TEST_F(BackendSearch, FirstPluginOfANameInPathWins) {
  install("first", "beta");
  install("first", "alpha");
  install("second", "alpha");
  install("second", "gamma");
  test::write_text(folder_ / "second/libheadroom_backend_.so", "");
  test::write_text(folder_ / "second/libother.so", "");
  std::vector<std::string> found;
  for (const BackendFile& file : find_backend_files())
    if (file.path.string().starts_with(folder_.path().string()))
      found.push_back(file.path.parent_path().filename().string() + "/" + file.name);
  EXPECT_THAT(found, ElementsAre("first/alpha", "first/beta", "second/gamma"));
}

TEST(BackendsForExtension, PrefersTensorRtThenOnnxRuntimeThenLibTorch) {
  for (const char* extension : {".onnx", ".ONNX"})
    EXPECT_THAT(backends_for_extension(extension), ElementsAre("tensorrt", "onnxruntime"));
  EXPECT_THAT(backends_for_extension(".ort"), ElementsAre("onnxruntime"));
  for (const char* extension : {".engine", ".plan"})
    EXPECT_THAT(backends_for_extension(extension), ElementsAre("tensorrt"));
  for (const char* extension : {".torchscript", ".pt"})
    EXPECT_THAT(backends_for_extension(extension), ElementsAre("libtorch"));
  for (const char* extension : {".txt", ""}) EXPECT_THAT(backends_for_extension(extension), IsEmpty());
}

TEST_F(BackendSearch, ReturnsFallbacksAfterTheBestBackend) {
  install("first", "onnxruntime");
  install("second", "tensorrt");
  const std::string model = folder_ / "model.onnx";
  test::write_text(folder_ / "model.engine", "an engine built from it");
  EXPECT_THAT(names(model, "", "cuda:0"), ElementsAre("tensorrt", "onnxruntime"));
  EXPECT_EQ(value_of(choose_backend(model, "", "cuda:0")).path,
            folder_ / "second/libheadroom_backend_tensorrt.so");
  EXPECT_THAT(names(model, "onnxruntime", "cuda:0"), ElementsAre("onnxruntime"));
  EXPECT_THAT(names(model, "", "cpu"), ElementsAre("onnxruntime"));
  EXPECT_THAT(names(model, "tensorrt", "cpu"), ElementsAre("tensorrt"))
      << "the plug-in explains why it cannot run";
  EXPECT_THAT(names("other.onnx", "", "cuda:0"), ElementsAre("onnxruntime")) << "no engine was built from it";
  std::filesystem::remove(folder_ / "first/libheadroom_backend_onnxruntime.so");
  EXPECT_THAT(names("other.onnx", "", "cuda:0"), ElementsAre("tensorrt"))
      << "the plug-in explains what to do";
}

TEST_F(BackendSearch, ForcedThirdPartyPluginOpensAnyFile) {
  install("first", "mine");
  EXPECT_EQ(value_of(choose_backend("model.whatever", "mine", "cuda:0")).name, "mine");
}

TEST_F(BackendSearch, SuggestsClosestBackendForTypo) {
  const Error error = error_of(choose_backend("model.onnx", "onnxruntme", "cuda:0"));
  EXPECT_EQ(error.kind, ErrorKind::usage);
  EXPECT_EQ(error.what, "unknown backend 'onnxruntme'");
  EXPECT_EQ(error.fix, "did you mean 'onnxruntime'?");
}

TEST_F(BackendSearch, ListsBackendsForUnknownName) {
  const Error error = error_of(choose_backend("model.onnx", "quantum", "cuda:0"));
  EXPECT_THAT(error.why, HasSubstr("libheadroom_backend_quantum.so not found in " + in_path(", ")));
  EXPECT_THAT(error.fix, AllOf(HasSubstr("tensorrt"), HasSubstr("libtorch")));
}

TEST_F(BackendSearch, MissingBackendErrorListsFoldersAndFix) {
  for (const char* forced : {"", "tensorrt"}) {
    const Error error = error_of(choose_backend("model.engine", forced, "cuda:0"));
    EXPECT_EQ(error.kind, ErrorKind::input);
    EXPECT_THAT(error.why, AllOf(HasSubstr("libheadroom_backend_tensorrt.so not found in"),
                                 HasSubstr((executable_folder() / "../lib/headroom").lexically_normal())));
    EXPECT_THAT(error.fix, HasSubstr("docs/tensorrt.md"));
  }
}

TEST_F(BackendSearch, RejectsBackendThatCannotReadTheFile) {
  install("first", "libtorch");
  EXPECT_EQ(error_of(choose_backend("model.onnx", "libtorch", "cuda:0")).sentence(),
            "backend 'libtorch' cannot open model.onnx: it reads .torchscript, .pt, .pth, .ts; use --backend "
            "tensorrt, or omit --backend");
}

TEST_F(BackendSearch, ListsReadableExtensionsForUnknownExtension) {
  const Error error = error_of(choose_backend("model.tflite", "", "cuda:0"));
  EXPECT_EQ(error.kind, ErrorKind::usage);
  EXPECT_EQ(error.why, "no known backend reads '.tflite' files");
  EXPECT_THAT(error.fix, HasSubstr(".onnx"));
  EXPECT_EQ(error_of(choose_backend("model", "", "cuda:0")).why, "its name has no extension");
}

Error error_of_opening(const std::filesystem::path& path) { return error_of(Backend::open({"x", path})); }

TEST(BackendOpen, RejectsFaultyPlugins) {
  const auto faulty = [](const std::string& fault) {
    return error_of_opening(test::built_path("test-plugins/faulty/libheadroom_backend_" + fault + ".so"));
  };
  const Error other_version = faulty("wrong_abi");
  EXPECT_EQ(other_version.kind, ErrorKind::input);
  EXPECT_EQ(other_version.why, "its plug-in interface has version 2, but this Headroom needs version 1");
  EXPECT_EQ(other_version.fix, "build the plug-in with this Headroom's inference/backend_plugin.h");
  const std::string stale = test::built_path("test-plugins/faulty/libheadroom_backend_wrong_abi.so");
  EXPECT_EQ(error_of(Backend::open({"tensorrt", stale})).fix, "run headroom build-plugin tensorrt");
  const std::size_t needed = HEADROOM_BACKEND_SMALLEST_TABLE;
  EXPECT_EQ(faulty("short_table").why, "its function table has " + std::to_string(needed - sizeof(void*)) +
                                           " bytes, but this Headroom needs " + std::to_string(needed));
  EXPECT_EQ(faulty("missing_function").why, "its function table has null entries");
  EXPECT_EQ(faulty("no_table").why, "headroom_backend() returned null");
}

TEST(BackendOpen, RejectsFileThatIsNotAPlugin) {
  const test::TemporaryFolder folder;
  test::write_text(folder / "libheadroom_backend_x.so", "not a library");
  const Error error = error_of_opening(folder / "libheadroom_backend_x.so");
  EXPECT_THAT(error.what, HasSubstr("cannot use the backend plug-in " + folder.path().string()));
  EXPECT_FALSE(error.why.empty());
  EXPECT_THAT(error_of_opening(folder / "absent.so").why, HasSubstr("No such file"));
  EXPECT_EQ(error_of_opening("libm.so.6").why, "it does not export headroom_backend()");
}

TEST(OutOfMemory, IsRecognisedByTheReason) {
  EXPECT_TRUE(is_out_of_memory(failure("cannot run m", "out of memory: 64 bytes were refused").value()));
  EXPECT_TRUE(is_out_of_memory(failure("cannot run m", "out of memory").value()));
  EXPECT_FALSE(is_out_of_memory(failure("cannot run m", "the file is damaged").value()));
  EXPECT_FALSE(is_out_of_memory(input_error("cannot read m", "out of memory").value()));
}

}  // namespace
}  // namespace headroom::inference
