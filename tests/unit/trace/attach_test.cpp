// What `headroom trace --pid` reads of a process, and why it refuses one.
#include <gmock/gmock.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>

#include "trace/attach_checks.h"
#include "trace/attach_process.h"
#include "trace/attach_thread.h"

namespace headroom::trace {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

TEST(Mappings, HaveAddressesOffsetsAndNamesWithSpaces) {
  const auto mappings = parse_mappings(
      "7f0012340000-7f0012350000 r-xp 0000a000 08:01 12345      /opt/my robot/lib.so\n"
      "7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0          [stack]\n"
      "7ffd00030000-7ffd00040000 rw-p 00000000 00:00 0 \n"
      "damaged line\n");
  ASSERT_EQ(mappings.size(), 3);
  EXPECT_EQ(mappings[0].start, 0x7f0012340000);
  EXPECT_EQ(mappings[0].end, 0x7f0012350000);
  EXPECT_EQ(mappings[0].offset, 0xa000);
  EXPECT_EQ(mappings[0].path, "/opt/my robot/lib.so");
  EXPECT_EQ(mappings[1].path, "[stack]");
  EXPECT_EQ(mappings[2].path, "");
}

TEST(SystemCalls, AreReadFromTheKernelsLine) {
  const auto waiting = parse_system_call("202 0x7f00 0x189 0x0 0x0 0x0 0xffffffff 0x7ffc 0x7f11");
  ASSERT_TRUE(waiting);
  EXPECT_EQ(waiting->number, 202);
  EXPECT_EQ(waiting->arguments[1], 0x189);
  EXPECT_EQ(waiting->arguments[5], 0xffffffff);
  EXPECT_EQ(parse_system_call("-1 0x7ffc 0x7f11")->number, -1);
  EXPECT_FALSE(parse_system_call("running\n"));
  EXPECT_FALSE(parse_system_call(""));
}

TEST(SystemCalls, OfConditionVariablesAreSafeAndOfLockedMutexesAreNot) {
  const RemoteProcess self(::getpid());
  SystemCall call{SYS_futex, {}};
  call.arguments[1] = 0x189;  // FUTEX_WAIT_BITSET, private, real-time clock
  EXPECT_TRUE(is_safe_wait(self, call));
  call.arguments[1] = 0x80;  // FUTEX_WAIT, private: also the allocator's own lock
  EXPECT_FALSE(is_safe_wait(self, call));
  EXPECT_TRUE(is_safe_wait(self, {SYS_ppoll, {}}));
  EXPECT_FALSE(is_safe_wait(self, {SYS_brk, {}}));
  EXPECT_FALSE(is_safe_wait(self, {SYS_mmap, {}}));
}

TEST(SystemCalls, ThatReadAreSafeUnlessTheyReadAFile) {
  const RemoteProcess self(::getpid());
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const UniqueFd reader(ends[0]), writer(ends[1]);
  const auto file = open_regular_file("/proc/self/exe");
  ASSERT_TRUE(file);
  SystemCall call{SYS_read, {}};
  call.arguments[0] = static_cast<std::uint64_t>(reader.get());
  EXPECT_TRUE(is_safe_wait(self, call));
  call.arguments[0] = static_cast<std::uint64_t>(file->get());
  EXPECT_FALSE(is_safe_wait(self, call));
}

TEST(RemoteProcess, FindsFunctionsOfTheCLibrary) {
  const RemoteProcess self(::getpid());
  const std::uint64_t base = self.base_of("libc.so.6");
  ASSERT_NE(base, 0);
  EXPECT_EQ(self.address_of(base, "abort"), reinterpret_cast<std::uint64_t>(&std::abort));
  EXPECT_EQ(self.address_of(base, "no_such_function"), 0);
  EXPECT_EQ(self.address_of(base + 4096, "abort"), 0);  // not the start of a file
  EXPECT_NE(find_landing(self, base), 0);
}

TEST(RemoteProcess, ReadsTextsUpToTheirEnd) {
  const RemoteProcess self(::getpid());
  const char text[] = "library";
  EXPECT_EQ(self.read_text(reinterpret_cast<std::uint64_t>(text), 100), "library");
  EXPECT_EQ(self.read_text(reinterpret_cast<std::uint64_t>(text), 3), "lib");
  EXPECT_EQ(self.read_text(8, 100), "");
}

TEST(RemoteProcess, ListsItsMainThreadFirst) {
  const auto threads = RemoteProcess(::getpid()).threads();
  ASSERT_FALSE(threads.empty());
  EXPECT_EQ(threads.front(), ::getpid());
}

constexpr const char* kUsual =
    "Name:\tnode\nState:\tS "
    "(sleeping)\nTgid:\t4711\nPid:\t4711\nTracerPid:\t0\nUid:\t1000\t1000\t1000\t1000\n"
    "VmSize:\t  123456 kB\nSeccomp:\t0\nSeccomp_filters:\t0\n";
constexpr const char* kOwn =
    "Name:\theadroom\nUid:\t1000\t1000\t1000\t1000\nSeccomp:\t0\nSeccomp_filters:\t0\n";

std::string changed(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}
std::string refusal(const std::string& status, const std::string& own = kOwn) {
  const auto checked = check_state(4711, {status, own});
  return checked ? "" : checked.error().sentence();
}

TEST(CheckState, AcceptsAUsualProcess) { EXPECT_THAT(refusal(kUsual), IsEmpty()); }

TEST(CheckState, SaysWhyAProcessCannotBeRecorded) {
  EXPECT_THAT(refusal(""), HasSubstr("there is no such process"));
  EXPECT_THAT(refusal(changed(kUsual, "Tgid:\t4711", "Tgid:\t4700")), HasSubstr("use --pid 4700"));
  EXPECT_THAT(refusal(changed(kUsual, "S (sleeping)", "Z (zombie)")), HasSubstr("it has ended"));
  EXPECT_THAT(refusal(changed(kUsual, "VmSize:", "Other:")), HasSubstr("a thread of the kernel"));
  EXPECT_THAT(refusal(changed(kUsual, "TracerPid:\t0", "TracerPid:\t1")), HasSubstr("traces it already"));
  EXPECT_THAT(refusal(changed(kUsual, "S (sleeping)", "T (stopped)")), HasSubstr("kill -CONT 4711"));
  EXPECT_THAT(refusal(changed(kUsual, "Seccomp:\t0", "Seccomp:\t1")), HasSubstr("seccomp"));
}

TEST(CheckState, AcceptsTheFilterOfTheContainerInWhichHeadroomRuns) {
  const std::string filtered =
      changed(kUsual, "Seccomp:\t0\nSeccomp_filters:\t0", "Seccomp:\t2\nSeccomp_filters:\t1");
  EXPECT_THAT(refusal(filtered), HasSubstr("seccomp"));
  EXPECT_THAT(refusal(filtered, changed(kOwn, "Seccomp_filters:\t0", "Seccomp_filters:\t1")), IsEmpty());
}

TEST(ForbiddenByKernel, NamesTheReasonAndTheCommandThatHelps) {
  AttachFacts facts{kUsual, kOwn};
  facts.user = facts.own_user = "robot";
  facts.ptrace_scope = 1;
  EXPECT_THAT(forbidden_by_kernel(4711, facts).sentence(),
              HasSubstr("sudo sysctl kernel.yama.ptrace_scope=0"));
  facts.ptrace_scope = 2;
  EXPECT_THAT(forbidden_by_kernel(4711, facts).fix, "run headroom with sudo");
  facts.ptrace_scope = 3;
  EXPECT_THAT(forbidden_by_kernel(4711, facts).sentence(), HasSubstr("headroom trace --"));
  facts.ptrace_scope = std::nullopt;
  EXPECT_THAT(forbidden_by_kernel(4711, facts).sentence(), HasSubstr("CAP_SYS_PTRACE"));
  facts.user = "root";
  EXPECT_THAT(forbidden_by_kernel(4711, facts).sentence(),
              HasSubstr("it belongs to user root, and headroom runs as robot"));
}

TEST(RecorderIn, KnowsThePreloadedLibraries) {
  EXPECT_EQ(recorder_in({{0, 1, 0, "/opt/lib/libheadroom_trace.so"}}), "libheadroom_trace.so");
  EXPECT_EQ(recorder_in({{0, 1, 0, "/opt/lib/libheadroom_trace_gpu.so"}}), "libheadroom_trace_gpu.so");
  EXPECT_THAT(recorder_in({{0, 1, 0, "/opt/lib/libheadroom_trace_attach.so"}}), IsEmpty());
}

}  // namespace
}  // namespace headroom::trace
