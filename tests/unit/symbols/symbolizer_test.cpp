#include "symbols/symbolizer.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/text.h"
#include "support/test_support.h"
#include "symbols_test_support.h"

namespace headroom::symbols::test {
namespace {

namespace fs = std::filesystem;
using headroom::test::TemporaryFolder;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::uint64_t address_of(const fs::path& file, const std::string& function) {
  const std::string listing = output_of({"nm", "-C", "--defined-only", file.string()}).value_or("");
  for (const std::string_view line : split(listing, '\n'))
    if (line.size() > 19 && line.substr(19) == function)
      return std::stoull(std::string(line.substr(0, 16)), nullptr, 16);
  ADD_FAILURE() << "no " << function << " in " << file;
  return 0;
}

// Copies of the program as distributions ship it: stripped, with a separate debug file.
struct SplitProgram {
  explicit SplitProgram(const TemporaryFolder& folder)
      : code(folder / "program"), debug(folder / "program.debug") {
    const std::string whole = inlined_program().string();
    EXPECT_TRUE(output_of({"objcopy", "--only-keep-debug", whole, debug.string()}));
    EXPECT_TRUE(output_of({"objcopy", "--strip-all", whole, code.string()}));
  }
  fs::path code, debug;
};

constexpr const char* kFunction = "plain_c_function";

SourceFrame frame_in(Symbolizer& symbolizer, std::uint64_t offset = 0) {
  return symbolizer.frames_of(kLoadBias + address_of(inlined_program(), kFunction) + offset, false).back();
}

void expect_same(const std::vector<SourceFrame>& found, const std::vector<SourceFrame>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].function, expected[i].function);
    EXPECT_EQ(found[i].file, expected[i].file);
    EXPECT_EQ(found[i].line, expected[i].line);
  }
}

TEST(Symbolizer, FindsFunctionFileAndLine) {
  Symbolizer symbolizer({module_of(inlined_program())});
  const SourceFrame frame = frame_in(symbolizer);
  EXPECT_EQ(frame.function, kFunction);
  EXPECT_THAT(std::string(frame.file), testing::EndsWith("tests/unit/symbols/inlined_program.cpp"));
  EXPECT_GT(frame.line, 0);
  EXPECT_EQ(frame.module, "symbols_inlined_program");
  EXPECT_TRUE(frame.named);
}

TEST(Symbolizer, InlinedFramesComeFirstAndKeepTheirNamespaces) {
  Symbolizer symbolizer({module_of(inlined_program())});
  bool seen = false;
  for (const std::uint64_t address : addresses_in(inlined_program(), 5000)) {
    const auto& frames = symbolizer.frames_of(kLoadBias + address, false);
    // g++ writes no parameters for inlined functions; clang does.
    seen |= frames.size() >= 3 && frames[0].function.starts_with("(anonymous namespace)::third_level") &&
            frames[1].function.starts_with("(anonymous namespace)::second_level") &&
            frames[2].function == "(anonymous namespace)::first_level(int)";
  }
  EXPECT_TRUE(seen);
}

TEST(Symbolizer, AReturnAddressBelongsToTheCallBeforeIt) {
  const fs::path program = inlined_program();
  Symbolizer symbolizer({module_of(program)});
  // The first byte of a function, as a return address, belongs to the code before it.
  const std::uint64_t start = kLoadBias + address_of(program, kFunction);
  EXPECT_EQ(symbolizer.frames_of(start, false).back().function, kFunction);
  EXPECT_NE(symbolizer.frames_of(start, true).back().function, kFunction);
  EXPECT_EQ(symbolizer.frames_of(start + 1, true).back().function, kFunction);
}

TEST(Symbolizer, CachesResultsAndPrepareGivesTheSame) {
  std::vector<std::uint64_t> addresses;
  for (const std::uint64_t address : addresses_in(inlined_program(), 300))
    addresses.push_back(kLoadBias + address);
  Symbolizer one_by_one({module_of(inlined_program())}), prepared({module_of(inlined_program())});
  prepared.prepare(addresses, true);
  for (const std::uint64_t address : addresses) {
    const auto& frames = one_by_one.frames_of(address, true);
    EXPECT_EQ(&frames, &one_by_one.frames_of(address, true));
    expect_same(frames, prepared.frames_of(address, true));
  }
}

TEST(Symbolizer, ClosesModulesBeyondItsMemoryAndStillAnswers) {
  recording::Module second = module_of(inlined_program());
  second.load_bias = second.start = second.end;
  second.end += 0x1000'0000;
  Symbolizer symbolizer({module_of(inlined_program()), second}, {.memory = Bytes{1}});
  for (const std::uint64_t address : addresses_in(inlined_program(), 40))
    EXPECT_EQ(symbolizer.frames_of(kLoadBias + address, false).front().line,
              symbolizer.frames_of(second.load_bias + address, false).front().line);
}

TEST(Symbolizer, FindsDebugInformationByTheLinkInTheFile) {
  const TemporaryFolder folder;
  const SplitProgram split(folder);
  ASSERT_TRUE(output_of({"objcopy", "--add-gnu-debuglink=" + split.debug.string(), split.code.string()}));
  recording::Module module = module_of(split.code);
  for (const bool in_subfolder : {false, true}) {
    if (in_subfolder) {
      fs::create_directory(folder / ".debug");
      fs::rename(split.debug, folder.path() / ".debug" / "program.debug");
    }
    for (const std::string& build_id :
         {module.build_id, std::string()}) {  // without a build id the checksum decides
      module.build_id = build_id;
      Symbolizer symbolizer({module});
      EXPECT_GT(frame_in(symbolizer).line, 0) << build_id;
    }
  }
  headroom::test::write_text(folder.path() / ".debug" / "program.debug", "other");
  Symbolizer symbolizer({module});
  EXPECT_EQ(frame_in(symbolizer).line, 0);
}

// A desktop reads a recording that was made on a device.
TEST(Symbolizer, FindsFilesOfAnotherMachineInSymbolFolders) {
  const TemporaryFolder folder;
  const SplitProgram split(folder);
  const recording::Module module = module_of(split.code, "/nowhere/on/this/machine/program");
  const fs::path by_id = folder.path() / "tree" / ".build-id" / module.build_id.substr(0, 2);
  fs::create_directories(by_id);
  fs::create_directories(folder.path() / "plain" / "deep" / "er");
  fs::copy(split.debug, by_id / (module.build_id.substr(2) + ".debug"));
  fs::copy(split.debug, folder.path() / "plain" / "deep" / "er" / "any-name");
  headroom::test::write_text(folder.path() / "plain" / "not-elf", "text");
  ASSERT_EQ(::mkfifo((folder.path() / "plain" / "pipe").c_str(), 0600), 0);
  for (const char* name : {"tree", "plain"}) {
    Symbolizer symbolizer({module}, {.symbol_folders = {folder / name}});
    EXPECT_EQ(frame_in(symbolizer).function, kFunction) << name;
    EXPECT_GT(frame_in(symbolizer).line, 0) << name;
    EXPECT_EQ(frame_in(symbolizer).module, "program");
    EXPECT_THAT(symbolizer.problems(), IsEmpty()) << name;
  }
  Symbolizer without({module});
  EXPECT_FALSE(frame_in(without).named);
  EXPECT_THAT(without.problems(),
              ElementsAre(testing::AllOf(HasSubstr("No such file"), HasSubstr(module.build_id),
                                         HasSubstr("--symbols"))));
}

TEST(Symbolizer, LooksUnderASysroot) {
  const TemporaryFolder folder;
  fs::create_directories(folder.path() / "opt" / "app");
  fs::copy(inlined_program(), folder.path() / "opt" / "app" / "program");
  Symbolizer symbolizer({module_of(inlined_program(), "/opt/app/program")}, {.sysroot = folder.path()});
  EXPECT_GT(frame_in(symbolizer).line, 0);
}

TEST(Symbolizer, GivesNoNamesForAChangedFile) {
  recording::Module module = module_of(inlined_program());
  module.build_id = "00112233445566778899aabbccddeeff00112233";
  Symbolizer symbolizer({module});
  const std::uint64_t address = address_of(inlined_program(), kFunction);
  EXPECT_EQ(frame_in(symbolizer).function, fmt::format("symbols_inlined_program+{:#x}", address));
  EXPECT_THAT(symbolizer.problems(), ElementsAre(HasSubstr("has changed since the recording")));
}

TEST(Symbolizer, GivesTheSymbolWithoutDebugInformation) {
  const TemporaryFolder folder;
  ASSERT_TRUE(
      output_of({"objcopy", "--strip-debug", inlined_program().string(), (folder / "program").string()}));
  Symbolizer symbolizer({module_of(folder / "program")});
  EXPECT_EQ(frame_in(symbolizer, 3).function, kFunction);
}

TEST(Symbolizer, ReadsTheCompressedSymbolTableOfStrippedFiles) {
  const TemporaryFolder folder;
  const SplitProgram split(folder);
  const std::string symbols = (folder / "symbols").string();
  ASSERT_TRUE(output_of({"objcopy", "--strip-debug", inlined_program().string(), symbols}));
  if (!output_of({"xz", "-k", symbols})) GTEST_SKIP() << "xz is not installed";
  ASSERT_TRUE(
      output_of({"objcopy", "--add-section", ".gnu_debugdata=" + symbols + ".xz", split.code.string()}));
  Symbolizer symbolizer({module_of(split.code)});
  EXPECT_EQ(frame_in(symbolizer).function, kFunction);
}

TEST(Symbolizer, NamesLinkageStubs) {
  const fs::path program = inlined_program();
  const std::string listing =
      output_of({"objdump", "-d", "--no-show-raw-insn", program.string()}).value_or("");
  std::size_t compared = 0;
  for (const std::string_view line : split(listing, '\n')) {
    // "0000000000001080 <malloc@plt>:"
    if (!line.ends_with("@plt>:")) continue;
    const std::uint64_t address = std::stoull(std::string(line.substr(0, 16)), nullptr, 16);
    const std::string_view name = line.substr(18, line.size() - 20);
    Symbolizer mangled({module_of(program)}, {.demangle = false});
    EXPECT_EQ(mangled.frames_of(kLoadBias + address, false).front().function, name);
    ++compared;
  }
  EXPECT_GT(compared, 5U);
}

// glibc names its functions like this for internal calls.
TEST(Symbolizer, NamesCFunctionsAsTheSourceDoes) {
  const TemporaryFolder folder;
  const fs::path program = folder / "program";
  headroom::test::write_text(
      folder / "source.cpp",
      "extern \"C\" __attribute__((noinline)) int set_up(int v) __asm__(\"__GI_set_up\");\n"
      "int set_up(int v) { return v * 3; }\n"
      "int main(int count, char**) { return set_up(count); }\n");
  ASSERT_TRUE(output_of({"g++", "-g", "-o", program.string(), (folder / "source.cpp").string()}));
  Symbolizer symbolizer({module_of(program)});
  EXPECT_THAT(functions_at(symbolizer, addresses_in(program, 400)),
              testing::AllOf(Contains("set_up"), Not(Contains("__GI_set_up"))));
}

TEST(Symbolizer, PrintsAddressesOutsideOfFiles) {
  recording::Module vdso;
  vdso.path = "linux-vdso.so.1";
  vdso.load_bias = vdso.start = 0x7ffd00000000;
  vdso.end = vdso.start + 0x2000;
  Symbolizer symbolizer({vdso});
  EXPECT_EQ(symbolizer.frames_of(vdso.start + 0x9c5, false).front().function, "[vdso]+0x9c5");
  EXPECT_EQ(symbolizer.frames_of(0x1234, false).front().function, "0x1234");
  EXPECT_EQ(symbolizer.frames_of(0, true).front().function, "0x0");
  EXPECT_THAT(symbolizer.problems(), IsEmpty());
}

TEST(Symbolizer, OpensOnlyRegularFilesAndNoPathsFromBuildIds) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  for (const std::string& path :
       {(folder / "pipe").string(), folder.path().string(), std::string("/dev/zero"), std::string(),
        std::string("relative"), std::string(5000, 'x')}) {
    recording::Module module = module_of(inlined_program(), path);
    for (const char* build_id : {"", "../../../../etc", "zz", "0"}) {
      module.build_id = build_id;
      Symbolizer symbolizer({module}, {.symbol_folders = {folder.path(), folder / "absent"}});
      EXPECT_FALSE(frame_in(symbolizer).named) << path;
      EXPECT_THAT(symbolizer.problems(), Contains(HasSubstr("absent")));
    }
  }
}

TEST(CarrySymbols, CopiedSymbolsGiveTheSameNamesElsewhere) {
  const TemporaryFolder folder;
  const SplitProgram split(folder);
  ASSERT_TRUE(output_of({"objcopy", "--add-gnu-debuglink=" + split.debug.string(), split.code.string()}));
  recording::Module unknown, vdso;
  unknown.path = "/gone/no-build-id.so";
  vdso.path = "[vdso]";
  const recording::Module module = module_of(split.code);
  const fs::path out = folder / "carried";
  for (const bool again : {false, true}) {
    const auto carried = carry_symbols({module, module, unknown, vdso}, {}, out);
    ASSERT_TRUE(carried) << carried.error().sentence();
    EXPECT_EQ(carried->modules, 1U);
    EXPECT_EQ(carried->files, 2U);
    EXPECT_EQ(carried->copied.count > 0, !again);
    EXPECT_THAT(carried->problems, ElementsAre(HasSubstr("no-build-id.so has no build id")));
  }
  recording::Module elsewhere = module;
  elsewhere.path = "/on/another/machine/program";
  Symbolizer here({module}), there({elsewhere}, {.symbol_folders = {out}});
  for (const std::uint64_t address : addresses_in(inlined_program(), 200)) {
    expect_same(there.frames_of(kLoadBias + address, false), here.frames_of(kLoadBias + address, false));
  }
  EXPECT_THAT(there.problems(), IsEmpty());
}

// dwz moves data that several programs share to another file. libc6-dbg and most of Debian's debug packages
// use this.
TEST(CarrySymbols, FollowsDebugInformationThatDwzSplitOff) {
  const TemporaryFolder folder;
  const std::string one = (folder / "one").string(), two = (folder / "two").string(),
                    shared = (folder / "shared").string();
  fs::copy(inlined_program(), one);
  ASSERT_TRUE(output_of({"g++", "-O1", "-g", "-std=c++17", "-o", two, HEADROOM_INLINED_SOURCE}));
  if (!output_of({"dwz", "-m", shared, one, two})) GTEST_SKIP() << "dwz is not installed";
  const recording::Module module = module_of(one);
  const auto carried = carry_symbols({module}, {.symbol_folders = {folder.path()}}, folder / "carried");
  ASSERT_TRUE(carried) << carried.error().sentence();
  EXPECT_EQ(carried->files, 2U);
  fs::remove(shared);
  Symbolizer whole({module_of(inlined_program())}), split({module}, {.symbol_folders = {folder / "carried"}});
  for (const std::uint64_t address : addresses_in(inlined_program(), 200)) {
    expect_same(split.frames_of(kLoadBias + address, false), whole.frames_of(kLoadBias + address, false));
  }
}

// Without measures against it, elfutils asks the servers in DEBUGINFOD_URLS for missing files.
TEST(Symbolizer, NeverUsesTheNetwork) {
  const int server = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  ASSERT_EQ(::bind(server, reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(::listen(server, 4), 0);
  ASSERT_EQ(::getsockname(server, reinterpret_cast<sockaddr*>(&address), &length), 0);
  ::setenv("DEBUGINFOD_URLS", fmt::format("http://127.0.0.1:{}", ntohs(address.sin_port)).c_str(), 1);
  ::setenv("DEBUGINFOD_TIMEOUT", "1", 1);
  const TemporaryFolder folder;
  const SplitProgram split(folder);
  ASSERT_TRUE(output_of({"objcopy", "--add-gnu-debuglink=" + split.debug.string(), split.code.string()}));
  fs::remove(split.debug);
  Symbolizer symbolizer({module_of(split.code), module_of(split.code, "/gone/program")});
  EXPECT_FALSE(frame_in(symbolizer).line > 0);
  pollfd waiting{server, POLLIN, 0};
  EXPECT_EQ(::poll(&waiting, 1, 100), 0) << "something connected";
  ::unsetenv("DEBUGINFOD_URLS");
  ::unsetenv("DEBUGINFOD_TIMEOUT");
  ::close(server);
}

}  // namespace
}  // namespace headroom::symbols::test
