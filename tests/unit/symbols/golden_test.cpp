// Compares functions, files and lines with binutils' addr2line, address by address.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/test_support.h"
#include "symbols_test_support.h"

namespace headroom::symbols::test {
namespace {

// For inlined frames without a linkage name, binutils 2.40 prints the name of the symbol around the address
// (LLVM does not). The number and places of its frames are right.
bool same_function(const Frames& ours, const Frames& theirs, std::size_t frame) {
  if (ours[frame].function == theirs[frame].function) return true;
  return frame + 1 < ours.size() && theirs[frame].function == ours.back().function;
}

// For assembly code binutils prints the object file's name, which is not a source file.
bool same_place(const Frame& ours, const Frame& theirs) {
  return ours.place == theirs.place || (ours.place == ":" && theirs.place.ends_with(".o:"));
}

// Two more differences are errors of binutils, confirmed with LLVM: it loses inlined frames in clang's output
// and with -fdebug-types-section. In these cases LLVM is the reference, with mangled names, because LLVM 14
// cannot demangle all of g++'s.
const std::vector<std::string> kLlvm{"llvm-symbolizer", "--output-style=GNU", "--no-demangle"};

void expect_same_as_addr2line(const std::filesystem::path& file, const std::vector<std::uint64_t>& addresses,
                              const std::vector<std::string>& tool = {"addr2line", "-C"}) {
  const std::vector<Frames> expected = addr2line(file, addresses, tool);
  ASSERT_EQ(expected.size(), addresses.size());
  SymbolizerOptions options;
  options.demangle = tool.back() == "-C";
  Symbolizer symbolizer({module_of(file)}, options);
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    SCOPED_TRACE(fmt::format("{:#x}", addresses[i]));
    const Frames frames = frames_of(symbolizer, addresses[i]);
    ASSERT_EQ(frames.size(), expected[i].size());
    for (std::size_t frame = 0; frame < frames.size(); ++frame) {
      EXPECT_TRUE(same_place(frames[frame], expected[i][frame]))
          << "frame " << frame << ": " << frames[frame].place << " but " << expected[i][frame].place;
      EXPECT_TRUE(same_function(frames, expected[i], frame))
          << "frame " << frame << ": " << frames[frame].function << " but " << expected[i][frame].function;
    }
  }
  EXPECT_THAT(symbolizer.problems(), testing::IsEmpty());
}

TEST(SymbolizerGolden, AgreesWithAddr2lineOnInlinedCode) {
#ifdef __clang__
  GTEST_SKIP()
      << "binutils' addr2line leaves out inlined functions that clang describes; AgreesWithLlvm has them";
#endif
  const auto addresses = addresses_in(inlined_program(), 600);
  ASSERT_GT(addresses.size(), 300U);
  expect_same_as_addr2line(inlined_program(), addresses);
}

// A desktop reads a recording of a Jetson.
TEST(SymbolizerGolden, AgreesWithAddr2lineOnAnotherArchitecture) {
  const headroom::test::TemporaryFolder folder;
  const std::string program = (folder / "program").string();
  if (!output_of(
          {"aarch64-linux-gnu-g++", "-O2", "-g", "-std=c++17", "-o", program, HEADROOM_INLINED_SOURCE}))
    GTEST_SKIP() << "the cross compiler aarch64-linux-gnu-g++ is not installed";
  const auto addresses = addresses_in(program, 300, "aarch64-linux-gnu-nm");
  ASSERT_GT(addresses.size(), 200U);
  expect_same_as_addr2line(program, addresses, {"aarch64-linux-gnu-addr2line", "-C"});
}

TEST(SymbolizerGolden, AgreesWithAddr2lineOnOtherFormsOfDebugInformation) {
  const headroom::test::TemporaryFolder folder;
  const std::string program = (folder / "program").string();
  // Formats written by the next Debian, by older compilers, and by builds that save space.
  for (const char* form : {"-gdwarf-4", "-gdwarf-3", "-gz", "-gno-column-info", "-flto"}) {
    SCOPED_TRACE(form);
    ASSERT_TRUE(output_of({"g++", "-O2", "-g", form, "-std=c++17", "-o", program, HEADROOM_INLINED_SOURCE}));
    expect_same_as_addr2line(program, addresses_in(program, 150));
  }
}

TEST(SymbolizerGolden, AgreesWithLlvm) {
  if (!output_of({"llvm-symbolizer", "--version"})) GTEST_SKIP() << "llvm-symbolizer is not installed";
  const headroom::test::TemporaryFolder folder;
  const std::string program = (folder / "program").string();
  const std::vector<std::vector<std::string>> compilers{{"g++"},
                                                        {"g++", "-fdebug-types-section"},
                                                        {"clang++"},
                                                        {"clang++", "-gdwarf-4", "-fdebug-types-section"}};
  for (std::vector<std::string> command : compilers) {
    command.insert(command.end(), {"-O2", "-g", "-std=c++17", "-o", program, HEADROOM_INLINED_SOURCE});
    SCOPED_TRACE(fmt::format("{}", fmt::join(command, " ")));
    if (output_of(command)) expect_same_as_addr2line(program, addresses_in(program, 300), kLlvm);
  }
}

}  // namespace
}  // namespace headroom::symbols::test
