// Which commands can be traced, according to their files.
#include "trace/traced_command.h"

#include <elf.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cstring>

#include "support/test_support.h"

namespace headroom::trace {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

const fs::path kLibrary = "/proc/self/exe";  // only its architecture matters

std::string why_not(const fs::path& program) {
  const auto status = check_traceable(program, kLibrary);
  if (status) return "";
  EXPECT_EQ(status.error().kind, ErrorKind::usage);
  return status.error().sentence();
}

// A program to modify. It is dynamically linked for this machine and never built with a sanitizer, unlike
// this test.
const fs::path kOrdinary = "/bin/true";
std::string ordinary_program() { return test::read_text(kOrdinary); }

fs::path executable(const fs::path& path, const std::string& content, mode_t mode = 0755) {
  test::write_text(path, content);
  ::chmod(path.c_str(), mode);
  return path;
}

template <class Edit>
std::string with_headers(std::string program, Edit edit) {
  Elf64_Ehdr header;
  std::memcpy(&header, program.data(), sizeof header);
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    char* at = program.data() + header.e_phoff + i * sizeof segment;
    std::memcpy(&segment, at, sizeof segment);
    if (segment.p_type == PT_INTERP) edit(program, segment);
    std::memcpy(at, &segment, sizeof segment);
  }
  return program;
}

// A statically linked program.
std::string without_loader() {
  return with_headers(ordinary_program(),
                      [](std::string&, Elf64_Phdr& segment) { segment.p_type = PT_NULL; });
}

TEST(ProgramCheck, AcceptsAnOrdinaryProgram) { EXPECT_EQ(why_not(kOrdinary), ""); }

TEST(ProgramCheck, RejectsAStaticProgram) {
  test::TemporaryFolder folder;
  EXPECT_THAT(why_not(executable(folder / "static", without_loader())), HasSubstr("statically linked"));
  EXPECT_EQ(why_not(executable(folder / "ld-linux-any.so.2", without_loader())), "")
      << "the loader honors LD_PRELOAD";
}

TEST(ProgramCheck, RejectsAnotherCLibrary) {
  test::TemporaryFolder folder;
  const auto musl = with_headers(ordinary_program(), [](std::string& program, Elf64_Phdr& segment) {
    std::strcpy(program.data() + segment.p_offset, "/lib/ld-musl.so.1");
  });
  EXPECT_THAT(why_not(executable(folder / "app", musl)), HasSubstr("musl"));
}

TEST(ProgramCheck, RejectsSanitizersByName) {
  test::TemporaryFolder folder;
  const auto with_name = [&](std::string name) {
    std::string program = ordinary_program();
    const std::string replaced = "__libc_start_main";  // every program imports it from the C library
    const std::size_t at = program.find('\0' + replaced + '\0');
    EXPECT_NE(at, std::string::npos);
    name.resize(replaced.size());
    return executable(folder / "app", program.replace(at + 1, name.size(), name));
  };
  EXPECT_THAT(why_not(with_name("__asan_init")), HasSubstr("built with AddressSanitizer"));
  EXPECT_THAT(why_not(with_name("__tsan_init")), HasSubstr("built with ThreadSanitizer"));
  EXPECT_EQ(why_not(with_name("__ubsan_init")), "");
}

TEST(ProgramCheck, RejectsAnotherArchitectureByName) {
  test::TemporaryFolder folder;
  std::string program = ordinary_program();
  Elf64_Ehdr header;
  std::memcpy(&header, program.data(), sizeof header);
  header.e_machine = header.e_machine == EM_RISCV ? EM_X86_64 : EM_RISCV;
  std::memcpy(program.data(), &header, sizeof header);
  EXPECT_THAT(why_not(executable(folder / "app", program)),
              HasSubstr(header.e_machine == EM_RISCV ? "for RISC-V" : "for x86-64"));
}

TEST(ProgramCheck, ChecksTheInterpreterOfAScript) {
  test::TemporaryFolder folder;
  const fs::path interpreter = executable(folder / "interpreter", without_loader());
  const fs::path script = executable(folder / "script", "#! " + interpreter.string() + " -x\nsay hello\n");
  EXPECT_THAT(why_not(script), AllOf(HasSubstr("statically linked"), HasSubstr("interpreter")));
  EXPECT_EQ(why_not(executable(folder / "ordinary", "#!/bin/sh\nexit 0\n")), "");
  EXPECT_EQ(why_not(executable(folder / "without_first_line", "exit 0\n")), "");
  EXPECT_THAT(why_not(executable(folder / "orphan", "#!/nowhere/interpreter\n")),
              HasSubstr("does not exist"));
  const fs::path own = folder / "endless";
  EXPECT_THAT(why_not(executable(own, "#!" + own.string() + "\n")), HasSubstr("in a loop"));
}

TEST(ProgramCheck, RejectsAProgramThatGainsRights) {
  test::TemporaryFolder folder;
  struct statvfs mount {};
  ASSERT_EQ(::statvfs(folder.path().c_str(), &mount), 0);
  if ((mount.f_flag & ST_NOSUID) != 0) GTEST_SKIP() << "this file system is mounted nosuid";
  const fs::path program = executable(folder / "app", ordinary_program(), 04755);
  EXPECT_EQ(why_not(program), "") << "setuid to the current user grants no rights";
  if (::getuid() != 0) GTEST_SKIP() << "only root can create another user's program";
  constexpr uid_t kNobody = 65534;
  ASSERT_EQ(::chown(program.c_str(), kNobody, kNobody), 0);
  ::chmod(program.c_str(), 04755);
  EXPECT_THAT(why_not(program), HasSubstr("setuid"));
  ::chmod(program.c_str(), 02755);
  EXPECT_THAT(why_not(program), HasSubstr("setgid"));
  ::chmod(program.c_str(), 0755);
  EXPECT_EQ(why_not(program), "");
}

TEST(ProgramCheck, AcceptsAProgramThatCannotBeRead) {
  EXPECT_EQ(why_not("/nowhere/at/all"), "");  // find_program() reports that it does not exist
}

}  // namespace
}  // namespace headroom::trace
