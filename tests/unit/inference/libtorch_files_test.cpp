// Tests the code that does not need LibTorch: file kinds, messages, settings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "inference/libtorch/checks.h"
#include "support/test_support.h"

namespace headroom::libtorch {
namespace {

using ::testing::HasSubstr;

std::string file_bytes_of(auto number) { return {reinterpret_cast<const char*>(&number), sizeof number}; }

// A ZIP file's directory with these entry names. The entries have no content, because nothing reads it.
std::string zip_with(const std::vector<std::string>& names, bool large = false) {
  const std::string content = "PK\x03\x04 the entries";
  std::string directory;
  for (const std::string& name : names) {
    std::string entry =
        "PK\x01\x02" + std::string(24, '\0') + file_bytes_of(static_cast<std::uint16_t>(name.size()));
    entry += file_bytes_of(std::uint16_t{2}) + file_bytes_of(std::uint16_t{1}) + std::string(12, '\0');
    directory += entry + name + "xx" + "c";
  }
  std::string end = "PK\x05\x06" + std::string(8, '\0');
  std::string large_end;
  if (large) {
    large_end = "PK\x06\x06" + std::string(36, '\0') + file_bytes_of(std::uint64_t{directory.size()}) +
                file_bytes_of(std::uint64_t{content.size()});
    large_end += "PK\x06\x07" + std::string(4, '\0') +
                 file_bytes_of(std::uint64_t{content.size() + directory.size()}) + std::string(4, '\0');
    end += file_bytes_of(~std::uint32_t{0}) + file_bytes_of(~std::uint32_t{0});
  } else {
    end += file_bytes_of(static_cast<std::uint32_t>(directory.size())) +
           file_bytes_of(static_cast<std::uint32_t>(content.size()));
  }
  return content + directory + large_end + end + file_bytes_of(std::uint16_t{7}) + "comment";
}

class ArchiveKinds : public ::testing::Test {
 protected:
  ArchiveKind kind_of(const std::string& bytes) {
    test::write_text(folder_ / "file", bytes);
    return archive_kind((folder_ / "file").string());
  }
  test::TemporaryFolder folder_;
};

TEST_F(ArchiveKinds, AreRecognisedByEntryNames) {
  for (const bool large : {false, true}) {
    const auto kind = [&](const std::vector<std::string>& names) { return kind_of(zip_with(names, large)); };
    EXPECT_EQ(kind({"m/data.pkl", "m/code/__torch__.py", "m/version"}), ArchiveKind::torchscript);
    EXPECT_EQ(kind({"m/data.pkl", "m/data/0", "m/version"}), ArchiveKind::checkpoint);
    EXPECT_EQ(kind({"m/archive_format", "m/models/model.json"}), ArchiveKind::exported_program);
    EXPECT_EQ(kind({"word/document.xml"}), ArchiveKind::foreign);
  }
  EXPECT_EQ(kind_of(std::string("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9 and so on", 19)),
            ArchiveKind::checkpoint);
  EXPECT_EQ(kind_of("text"), ArchiveKind::foreign);
  EXPECT_EQ(kind_of("P"), ArchiveKind::foreign);
  EXPECT_EQ(archive_kind((folder_ / "absent").string()), ArchiveKind::foreign);
}

// Truncated and corrupted archives: the function must return a kind, and must not read out of bounds.
TEST_F(ArchiveKinds, HandlesDamagedArchives) {
  for (const bool large : {false, true}) {
    const std::string whole = zip_with({"m/data.pkl", "m/code/__torch__.py"}, large);
    for (std::size_t length = 2; length + 7 + 2 < whole.size(); ++length)
      EXPECT_EQ(kind_of(whole.substr(0, length)), ArchiveKind::damaged) << length;
    for (std::size_t at = 2; at < whole.size(); ++at) {
      std::string turned = whole;
      turned[at] = static_cast<char>(~turned[at]);
      (void)kind_of(turned);
    }
  }
}

TEST(TorchMessages, AreOneLineWithoutStacks) {
  EXPECT_EQ(clean_message("The following operation failed in the TorchScript interpreter.\n"
                          "Traceback of TorchScript, serialized code (most recent call last):\n"
                          "  File \"code/__torch__.py\", line 5, in forward\n    x\n    ~ <--- HERE\n"
                          "RuntimeError: shapes cannot be multiplied (1x2 and 3x4)\n"),
            "shapes cannot be multiplied (1x2 and 3x4)");
  EXPECT_EQ(
      clean_message("\nUnknown builtin op: a::b.\nCould not find any similar ops to a::b. This op may not "
                    "exist.\n:\n  File \"code/x.py\", line 8\n"),
      "Unknown builtin op: a::b");
  EXPECT_EQ(
      clean_message("it failed\nException raised from f at ../c10/core/x.cpp:12 (most recent call first):\n"
                    "frame #0: …"),
      "it failed");
  EXPECT_LT(clean_message(std::string(5000, 'x')).size(), 500U);
}

TEST(TorchMessages, RefusedMemoryKeepsItsFigures) {
  const plugin::Failure cpu = classify(
      "RuntimeError: [enforce fail at alloc_cpu.cpp:75] err == 0. DefaultCPUAllocator: can't allocate "
      "memory: "
      "you tried to allocate 268435456 bytes. Error code 12 (Cannot allocate memory)\n");
  EXPECT_EQ(cpu.kind, HR_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(
      cpu.message,
      "DefaultCPUAllocator: can't allocate memory: you tried to allocate 268435456 bytes. Error code 12 "
      "(Cannot allocate memory)");
  const plugin::Failure cuda = classify(
      "CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 7.44 GiB total capacity; 5.01 GiB already "
      "allocated) If reserved memory is >> allocated memory try setting max_split_size_mb");
  EXPECT_EQ(cuda.kind, HR_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(
      cuda.message,
      "CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 7.44 GiB total capacity; 5.01 GiB already "
      "allocated)");
  // The message of the caching allocator on a Jetson.
  EXPECT_EQ(
      classify("NVML_SUCCESS == r INTERNAL ASSERT FAILED at \"/opt/CUDACachingAllocator.cpp\":838").kind,
      HR_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(classify("expected input to have 3 channels").kind, HR_ERROR_FAILED);
}

TEST(TorchPrecision, DependsOnDevice) {
  const Capabilities cpu{}, new_cpu{std::nullopt, true}, ampere{8, true}, volta{7, true};
  hr_settings settings{};
  const auto with = [&](Precision precision, const Capabilities& capabilities) {
    settings.precision = static_cast<std::int32_t>(precision);
    return precision_of(settings, capabilities);
  };
  EXPECT_EQ(with(Precision::automatic, cpu), Precision::fp32);
  EXPECT_EQ(with(Precision::automatic, volta), Precision::fp32);
  EXPECT_EQ(with(Precision::automatic, ampere), Precision::bf16);
  EXPECT_EQ(with(Precision::fp32, ampere), Precision::fp32);
  EXPECT_EQ(with(Precision::fp16, volta), Precision::fp16);
  EXPECT_EQ(with(Precision::fp16, new_cpu), Precision::fp16);
  EXPECT_EQ(with(Precision::bf16, cpu), Precision::bf16);
  EXPECT_THROW(with(Precision::fp16, cpu), plugin::Failure);
  EXPECT_THROW(with(Precision::bf16, volta), plugin::Failure);
}

// Autocast cannot change the type of fused or oneDNN operators.
TEST(TorchGraphOptimization, FusesOnlyInFloat32) {
  hr_settings settings{};
  settings.graph_level = 99;
  settings.prepacking = 1;
  EXPECT_EQ(graph_optimization_of(settings, Precision::fp32), GraphOptimization::optimize);
  EXPECT_EQ(graph_optimization_of(settings, Precision::bf16), GraphOptimization::fold);
  settings.prepacking = 0;
  EXPECT_EQ(graph_optimization_of(settings, Precision::fp32), GraphOptimization::fold);
  settings.graph_level = 0;
  EXPECT_EQ(graph_optimization_of(settings, Precision::bf16), GraphOptimization::none);
}

TEST(TorchSettings, CapturesGraphsOnGpuOnly) {
  hr_settings settings{};
  settings.arena = settings.memory_pattern = settings.spinning = settings.device_graph = 1;
  EXPECT_NO_THROW(check_settings(settings, true));
  EXPECT_THROW(check_settings(settings, false), plugin::Failure);
}

TEST(TorchSettings, RejectsUnsupportedGpuSettings) {
  hr_settings settings{};
  settings.arena = settings.memory_pattern = settings.spinning = 1;
  EXPECT_NO_THROW(check_settings(settings, true));
  settings.conv_search = static_cast<std::int32_t>(ConvSearch::heuristic);
  EXPECT_NO_THROW(check_settings(settings, true));
  for (auto hr_settings::*field :
       {&hr_settings::conv_small_workspace, &hr_settings::arena_same_as_requested}) {
    hr_settings changed = settings;
    changed.*field = 1;
    EXPECT_THROW(check_settings(changed, true), plugin::Failure);
  }
  settings.conv_search = static_cast<std::int32_t>(ConvSearch::standard);
  EXPECT_THROW(check_settings(settings, true), plugin::Failure);
}

}  // namespace
}  // namespace headroom::libtorch
