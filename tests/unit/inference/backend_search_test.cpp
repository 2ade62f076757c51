#include <algorithm>

#include "base/files.h"
#include "inference/backend.h"
#include "scoped_environment.h"
#include "support/test_support.h"

namespace headroom::inference {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Two folders with plug-ins. They are empty files, because a search does not open them.
class BackendSearch : public ::testing::Test {
 protected:
  BackendSearch() {
    std::filesystem::create_directory(folder_ / "first");
    std::filesystem::create_directory(folder_ / "second");
  }
  void install(const std::string& folder, const std::string& name) {
    test::write_text(folder_.path() / folder / ("libheadroom_backend_" + name + ".so"), "");
  }
  std::string both() const {
    return (folder_ / "first").string() + "::" + (folder_ / "absent").string() + ":" +
           (folder_ / "second").string();
  }
  test::TemporaryFolder folder_;
};

TEST_F(BackendSearch, FirstPluginOfANameInPathWins) {
  install("first", "beta");
  install("first", "alpha");
  install("second", "alpha");
  install("second", "gamma");
  test::write_text(folder_ / "second/libheadroom_backend_.so", "");
  test::write_text(folder_ / "second/libother.so", "");
  const test::ScopedEnvironment path("HEADROOM_BACKEND_PATH", both());
  std::vector<std::string> found;
  for (const BackendFile& file : find_backend_files())
    if (file.path.string().starts_with(folder_.path().string()))
      found.push_back(file.path.parent_path().filename().string() + "/" + file.name);
  EXPECT_THAT(found, ElementsAre("first/alpha", "first/beta", "second/gamma"));
}

TEST(BackendsForExtension, PrefersTensorRtThenOnnxRuntimeThenLibTorch) {
  EXPECT_THAT(backends_for_extension(".onnx"), ElementsAre("tensorrt", "onnxruntime"));
  EXPECT_THAT(backends_for_extension(".ONNX"), ElementsAre("tensorrt", "onnxruntime"));
  EXPECT_THAT(backends_for_extension(".ort"), ElementsAre("onnxruntime"));
  EXPECT_THAT(backends_for_extension(".engine"), ElementsAre("tensorrt"));
  EXPECT_THAT(backends_for_extension(".plan"), ElementsAre("tensorrt"));
  EXPECT_THAT(backends_for_extension(".torchscript"), ElementsAre("libtorch"));
  EXPECT_THAT(backends_for_extension(".pt"), ElementsAre("libtorch"));
  EXPECT_THAT(backends_for_extension(".txt"), IsEmpty());
  EXPECT_THAT(backends_for_extension(""), IsEmpty());
}

TEST_F(BackendSearch, ReturnsFallbacksAfterTheBestBackend) {
  install("first", "onnxruntime");
  install("first", "tensorrt");
  const test::ScopedEnvironment path("HEADROOM_BACKEND_PATH", both());
  const auto names = [](const Result<std::vector<BackendFile>>& found) {
    std::vector<std::string> all;
    if (found)
      for (const BackendFile& file : *found) all.push_back(file.name);
    return all;
  };
  const std::string model = folder_ / "model.onnx";
  test::write_text(folder_ / "model.engine", "an engine built from it");
  EXPECT_THAT(names(choose_backends(model, "", "cuda:0")), ElementsAre("tensorrt", "onnxruntime"));
  EXPECT_THAT(names(choose_backends(model, "onnxruntime", "cuda:0")), ElementsAre("onnxruntime"));
  EXPECT_THAT(names(choose_backends(model, "", "cpu")), ElementsAre("onnxruntime"));
  EXPECT_THAT(names(choose_backends(model, "tensorrt", "cpu")), ElementsAre("tensorrt"))
      << "the plug-in explains why it cannot run";
  EXPECT_THAT(names(choose_backends("other.onnx", "", "cuda:0")), ElementsAre("onnxruntime"))
      << "no engine was built from it";
  std::filesystem::remove(folder_ / "first/libheadroom_backend_onnxruntime.so");
  EXPECT_THAT(names(choose_backends("other.onnx", "", "cuda:0")), ElementsAre("tensorrt"))
      << "the plug-in explains what to do";
}

TEST_F(BackendSearch, ChoosesBestInstalledBackend) {
  install("first", "onnxruntime");
  const test::ScopedEnvironment path("HEADROOM_BACKEND_PATH", both());
  auto chosen = choose_backend("model.onnx", "", "cuda:0");
  ASSERT_TRUE(chosen) << chosen.error().sentence();
  EXPECT_EQ(chosen->name, "onnxruntime");
  install("second", "tensorrt");
  const std::string model = folder_ / "model.onnx";
  test::write_text(folder_ / "model.engine", "an engine built from it");
  chosen = choose_backend(model, "", "cuda:0");
  ASSERT_TRUE(chosen) << chosen.error().sentence();
  EXPECT_EQ(chosen->path, folder_ / "second/libheadroom_backend_tensorrt.so");
  chosen = choose_backend("model.onnx", "onnxruntime", "cuda:0");
  ASSERT_TRUE(chosen) << chosen.error().sentence();
  EXPECT_EQ(chosen->name, "onnxruntime");
}

TEST_F(BackendSearch, ForcedThirdPartyPluginOpensAnyFile) {
  install("first", "mine");
  const test::ScopedEnvironment path("HEADROOM_BACKEND_PATH", both());
  const auto chosen = choose_backend("model.whatever", "mine", "cuda:0");
  ASSERT_TRUE(chosen) << chosen.error().sentence();
  EXPECT_EQ(chosen->name, "mine");
}

TEST_F(BackendSearch, SuggestsClosestBackendForTypo) {
  const test::ScopedEnvironment path("HEADROOM_BACKEND_PATH", both());
  const auto chosen = choose_backend("model.onnx", "onnxruntme", "cuda:0");
  ASSERT_FALSE(chosen);
  EXPECT_EQ(chosen.error().kind, ErrorKind::usage);
  EXPECT_EQ(chosen.error().what, "unknown backend 'onnxruntme'");
  EXPECT_EQ(chosen.error().fix, "did you mean 'onnxruntime'?");
}

TEST_F(BackendSearch, ListsBackendsForUnknownName) {
  const test::ScopedEnvironment path("HEADROOM_BACKEND_PATH", both());
  const auto chosen = choose_backend("model.onnx", "quantum", "cuda:0");
  ASSERT_FALSE(chosen);
  EXPECT_THAT(chosen.error().why,
              HasSubstr("libheadroom_backend_quantum.so not found in " + (folder_ / "first").string() + ", " +
                        (folder_ / "absent").string() + ", " + (folder_ / "second").string()));
  EXPECT_THAT(chosen.error().fix, HasSubstr("tensorrt"));
  EXPECT_THAT(chosen.error().fix, HasSubstr("libtorch"));
}

TEST_F(BackendSearch, MissingBackendErrorListsFoldersAndFix) {
  const test::ScopedEnvironment path("HEADROOM_BACKEND_PATH", both());
  for (const char* forced : {"", "tensorrt"}) {
    const auto chosen = choose_backend("model.engine", forced, "cuda:0");
    ASSERT_FALSE(chosen);
    EXPECT_EQ(chosen.error().kind, ErrorKind::input);
    EXPECT_THAT(chosen.error().why, HasSubstr("libheadroom_backend_tensorrt.so not found in"));
    EXPECT_THAT(chosen.error().why,
                HasSubstr((executable_folder() / "../lib/headroom").lexically_normal().string()));
    EXPECT_THAT(chosen.error().fix, HasSubstr("docs/tensorrt.md"));
  }
}

TEST_F(BackendSearch, RejectsBackendThatCannotReadTheFile) {
  install("first", "libtorch");
  const test::ScopedEnvironment path("HEADROOM_BACKEND_PATH", both());
  const auto chosen = choose_backend("model.onnx", "libtorch", "cuda:0");
  ASSERT_FALSE(chosen);
  EXPECT_EQ(chosen.error().sentence(),
            "backend 'libtorch' cannot open model.onnx: it reads .torchscript, .pt, .pth, .ts; use --backend "
            "tensorrt, or omit --backend");
}

TEST_F(BackendSearch, ListsReadableExtensionsForUnknownExtension) {
  const auto chosen = choose_backend("model.tflite", "", "cuda:0");
  ASSERT_FALSE(chosen);
  EXPECT_EQ(chosen.error().kind, ErrorKind::usage);
  EXPECT_EQ(chosen.error().why, "no known backend reads '.tflite' files");
  EXPECT_THAT(chosen.error().fix, HasSubstr(".onnx"));
  const auto nameless = choose_backend("model", "", "cuda:0");
  ASSERT_FALSE(nameless);
  EXPECT_EQ(nameless.error().why, "its name has no extension");
}

Error error_of_opening(const std::filesystem::path& path) {
  const auto backend = Backend::open({"x", path});
  EXPECT_FALSE(backend);
  return backend ? Error{} : backend.error();
}

std::filesystem::path faulty(const std::string& fault) {
  return std::filesystem::path(test::built_path("test-plugins/faulty")) /
         ("libheadroom_backend_" + fault + ".so");
}

TEST(BackendOpen, RejectsOtherInterfaceVersion) {
  const Error error = error_of_opening(faulty("wrong_abi"));
  EXPECT_EQ(error.kind, ErrorKind::input);
  EXPECT_EQ(error.why, "its plug-in interface has version 2, but this Headroom needs version 1");
  EXPECT_EQ(error.fix, "build the plug-in with this Headroom's inference/backend_plugin.h");
}

TEST(BackendOpen, RejectsShortFunctionTable) {
  const std::size_t needed = HEADROOM_BACKEND_SMALLEST_TABLE;
  EXPECT_EQ(error_of_opening(faulty("short_table")).why,
            "its function table has " + std::to_string(needed - sizeof(void*)) +
                " bytes, but this Headroom needs " + std::to_string(needed));
}

TEST(BackendOpen, RejectsFunctionTableWithNullEntries) {
  EXPECT_EQ(error_of_opening(faulty("missing_function")).why, "its function table has null entries");
}

TEST(BackendOpen, RejectsPluginWithoutTable) {
  EXPECT_EQ(error_of_opening(faulty("no_table")).why, "headroom_backend() returned null");
}

TEST(BackendOpen, RejectsFileThatIsNotALibrary) {
  const test::TemporaryFolder folder;
  test::write_text(folder / "libheadroom_backend_x.so", "not a library");
  const Error error = error_of_opening(folder / "libheadroom_backend_x.so");
  EXPECT_THAT(error.what, HasSubstr("cannot use the backend plug-in " + folder.path().string()));
  EXPECT_FALSE(error.why.empty());
  EXPECT_THAT(error_of_opening(folder / "absent.so").why, HasSubstr("No such file"));
}

TEST(BackendOpen, RejectsLibraryThatIsNotAPlugin) {
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
