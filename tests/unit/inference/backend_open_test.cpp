#include "inference/backend.h"
#include "support/test_support.h"

namespace headroom::inference {
namespace {

using ::testing::HasSubstr;

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
