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
  return std::filesystem::path(HEADROOM_BINARY_DIR) / "test-plugins/faulty" /
         ("libheadroom_backend_" + fault + ".so");
}

TEST(BackendOpen, RefusesAPluginOfAnotherInterfaceVersion) {
  const Error error = error_of_opening(faulty("wrong_abi"));
  EXPECT_EQ(error.kind, ErrorKind::input);
  EXPECT_EQ(error.why, "it speaks version 2 of the plug-in interface, this Headroom version 1");
  EXPECT_EQ(error.fix, "build the plug-in with this Headroom's inference/backend_plugin.h");
}

TEST(BackendOpen, RefusesATableThatIsTooShort) {
  const std::size_t needed = HEADROOM_BACKEND_SMALLEST_TABLE;
  EXPECT_EQ(error_of_opening(faulty("short_table")).why,
            "its table of functions has " + std::to_string(needed - sizeof(void*)) +
                " bytes, this Headroom needs " + std::to_string(needed));
}

TEST(BackendOpen, RefusesATableWithGaps) {
  EXPECT_EQ(error_of_opening(faulty("missing_function")).why, "its table of functions has gaps");
}

TEST(BackendOpen, RefusesAPluginThatGivesNoTable) {
  EXPECT_EQ(error_of_opening(faulty("no_table")).why, "headroom_backend() returned nothing");
}

TEST(BackendOpen, RefusesWhatIsNoLibrary) {
  const test::TemporaryFolder folder;
  test::write_text(folder / "libheadroom_backend_x.so", "not a library");
  const Error error = error_of_opening(folder / "libheadroom_backend_x.so");
  EXPECT_THAT(error.what, HasSubstr("cannot use the backend plug-in " + folder.path().string()));
  EXPECT_FALSE(error.why.empty());
  EXPECT_THAT(error_of_opening(folder / "absent.so").why, HasSubstr("No such file"));
}

TEST(BackendOpen, RefusesALibraryThatIsNoPlugin) {
  EXPECT_EQ(error_of_opening("libm.so.6").why, "it does not export headroom_backend()");
}

TEST(OutOfMemory, IsToldByTheReason) {
  EXPECT_TRUE(is_out_of_memory(failure("cannot run m", "out of memory: 64 bytes were refused").value()));
  EXPECT_TRUE(is_out_of_memory(failure("cannot run m", "out of memory").value()));
  EXPECT_FALSE(is_out_of_memory(failure("cannot run m", "the file is damaged").value()));
  EXPECT_FALSE(is_out_of_memory(input_error("cannot read m", "out of memory").value()));
}

}  // namespace
}  // namespace headroom::inference
