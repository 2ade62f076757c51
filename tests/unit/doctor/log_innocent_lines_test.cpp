// Lines that look like an error but report none: manuals, lists, arguments, and errors that are over. Each
// case is paired with a line of the same shape that does report a failure.
#include "log_lines.h"
#include "support/test_support.h"

namespace headroom::test {
namespace {

TEST(LogInnocentLines, IgnoresManualsOfErrorCodes) {
  for (const std::string line :
       {"The Vulkan spec states: on failure, this command returns VK_ERROR_OUT_OF_HOST_MEMORY",
        "[INFO] CL error codes -5: CL_OUT_OF_RESOURCES",
        "warning: enumeration value 'VK_ERROR_OUT_OF_DEVICE_MEMORY' not handled in switch [-Wswitch]",
        "a.cpp:3:1: error: 'VK_ERROR_OUT_OF_DEVICE_MEMORY' was not declared in this scope",
        "vkAllocateMemory may return VK_ERROR_OUT_OF_DEVICE_MEMORY when the heap is exhausted"})
    EXPECT_TRUE(findings_of({line}).empty()) << line;
  // Vulkan's API dump reports a returned error in the present tense.
  for (const std::string line :
       {"vkAllocateMemory(device) returns VkResult VK_ERROR_OUT_OF_DEVICE_MEMORY (-2):",
        "vkAllocateMemory(): returned VK_ERROR_OUT_OF_DEVICE_MEMORY"})
    EXPECT_EQ(findings_of({line}).size(), 1U) << line;
}

TEST(LogInnocentLines, IgnoresCatchStatements) {
  for (const std::string line :
       {"catch (java.lang.OutOfMemoryError e) {", "  } catch (vk::OutOfDeviceMemoryError& e) {"})
    EXPECT_TRUE(findings_of({line}).empty()) << line;
  EXPECT_EQ(findings_of({"could not catch (signal 9): CUDA out of memory"}).size(), 1U);
}

TEST(LogInnocentLines, RequiresErrorInXlaCompilerLine) {
  EXPECT_TRUE(findings_of({"I0000 xla: Ran out of memory in memory space hbm is handled by remat"}).empty());
  EXPECT_EQ(findings_of({"RESOURCE_EXHAUSTED: Ran out of memory in memory space vmem"}).size(), 1U);
}

TEST(LogInnocentLines, IgnoresArgumentsAndRecoveredErrors) {
  for (const std::string line :
       {"[INFO] args: Namespace(epochs=3, message='CUDA out of memory', n=(3))",
        "[INFO] retry_on='CUDA out of memory'", "ignored_errors = ['CUDA out of memory', 'timeout']",
        "notes: CUDA out of memory recovered after the cache was cleared",
        "INFO CUDA out of memory was recovered: cache cleared"})
    EXPECT_TRUE(findings_of({line}).empty()) << line;
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
