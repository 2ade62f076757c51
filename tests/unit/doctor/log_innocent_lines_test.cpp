// Lines that look like an error but report none: manuals, lists, arguments, and errors that are over. Each
// case is paired with a line of the same shape that does report a failure.
#include "log_lines.h"
#include "support/test_support.h"

namespace headroom::test {
namespace {

TEST(LogInnocentLines, IgnoresManualsOfErrorCodes) {
  // Vulkan's API dump reports a returned error in the present tense.
  for (const std::string line :
       {"vkAllocateMemory(device) returns VkResult VK_ERROR_OUT_OF_DEVICE_MEMORY (-2):",
        "vkAllocateMemory(): returned VK_ERROR_OUT_OF_DEVICE_MEMORY"})
    EXPECT_EQ(findings_of({line}).size(), 1U) << line;
}

TEST(LogInnocentLines, IgnoresCatchStatements) {
  EXPECT_EQ(findings_of({"could not catch (signal 9): CUDA out of memory"}).size(), 1U);
}

TEST(LogInnocentLines, RequiresErrorInXlaCompilerLine) {
  EXPECT_TRUE(findings_of({"I0000 xla: Ran out of memory in memory space hbm is handled by remat"}).empty());
  EXPECT_EQ(findings_of({"RESOURCE_EXHAUSTED: Ran out of memory in memory space vmem"}).size(), 1U);
}

TEST(LogInnocentLines, IgnoresArgumentsAndRecoveredErrors) {
  for (const std::string line :
       {"args: Namespace(epochs=3) failed: CUDA out of memory", "errors = ['CUDA out of memory', 'timeout']",
        "CUDA out of memory, not recovered"}) {
    const auto findings = findings_of({line});
    ASSERT_EQ(findings.size(), 1U) << line;
    EXPECT_EQ(findings[0].severity, Severity::severe) << line;
  }
}

}  // namespace
}  // namespace headroom::test
