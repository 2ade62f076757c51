// Tests the code for engines that does not need TensorRT: records, precisions, shapes, metadata in an
// engine's file.
// Tests the account of TensorRT's device memory.
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "base/files.h"
#include "base/json.h"
#include "inference/tensorrt/engine_builder.h"
#include "inference/tensorrt/engine_file.h"
#include "inference/tensorrt/memory_account.h"
#include "inference/tensorrt/messages.h"
#include "support/test_support.h"
#include "unit/inference/results.h"

namespace headroom::tensorrt {
namespace {
namespace fs = std::filesystem;

using test::error_of;
using test::TemporaryFolder;
using test::value_of;
using test::write_text;
using testing::ElementsAre;
using testing::HasSubstr;

const EngineMachine kHere{"NVIDIA H200", "9.0", "GPU-1", "580.1", "13.0", "10.16.1"};

// A newly built engine with its record, in a temporary folder.
class Engine : public testing::Test {
 protected:
  void SetUp() override {
    write_text(model_, "a model");
    write_text(engine_, "an engine");
    record_.headroom_version = "1.2.3";
    record_.created_at = "2026-11-22T02:00:00Z";
    record_.machine = kHere;
    record_.settings = {"fp16", 320, mebibytes(512)};
    record_.model_path = model_.string();
    record_.inputs = {"images float32[1,3,320,320]"};
    record_.model = *state_of(model_);
    record_.engine = *state_of(engine_);
  }
  std::optional<std::string> stale() const { return value_of(why_stale(record_, engine_)); }
  TemporaryFolder folder_;
  fs::path model_ = folder_ / "m.onnx", engine_ = folder_ / "m.engine";
  EngineRecord record_;
};

TEST_F(Engine, RecordRoundTrips) {
  EXPECT_FALSE(value_of(read_record(engine_))) << "a missing record is no error";
  ASSERT_TRUE(write_record(engine_, record_));
  EXPECT_TRUE(fs::exists(folder_ / "m.engine.json"));
  const EngineRecord read = value_of(read_record(engine_)).value();
  EXPECT_EQ(to_text(to_json(read)), to_text(to_json(record_)));
  EXPECT_EQ(read.settings, record_.settings);
  EXPECT_EQ(read.machine.driver_version, "580.1");
}

TEST_F(Engine, UnreadableRecordErrorNamesTheFile) {
  for (const char* text :
       {"", "{}", "[1]", R"({"schema_version": 2})", R"({"schema_version": 1})", "no JSON"}) {
    write_text(record_path(engine_), text);
    const Error error = error_of(read_record(engine_));
    EXPECT_EQ(error.kind, ErrorKind::input);
    EXPECT_THAT(error.sentence(), HasSubstr("m.engine.json")) << text;
  }
}

TEST_F(Engine, IncompatibleOnlyByVersionGpuOrCapability) {
  EXPECT_EQ(why_incompatible(record_, kHere), std::nullopt);
  EngineMachine other = kHere;
  other.uuid = "GPU-2";
  other.driver_version = "590.2";
  other.cuda_version = "13.1";
  EXPECT_EQ(why_incompatible(record_, other), std::nullopt) << "another GPU of the same name, another driver";
  const auto why = [&](std::string EngineMachine::*field, const char* value) {
    EngineMachine machine = kHere;
    machine.*field = value;
    return why_incompatible(record_, machine);
  };
  EXPECT_EQ(why(&EngineMachine::tensorrt_version, "10.16.2"),
            "it was built by TensorRT 10.16.1, but this machine has 10.16.2");
  EXPECT_EQ(why(&EngineMachine::gpu, "Orin"), "it was built for NVIDIA H200, but this machine has Orin");
  EXPECT_EQ(why(&EngineMachine::compute_capability, "8.7"),
            "it was built for compute capability 9.0, but this machine has 8.7");
}

TEST_F(Engine, StaleWhenModelOrEngineChanged) {
  EXPECT_EQ(stale(), std::nullopt);
  write_text(model_, "another");
  EXPECT_EQ(stale(), model_.string() + " has changed since the engine was built");
  write_text(model_, "a model");  // same content, other modification time
  EXPECT_EQ(stale(), std::nullopt);
  fs::remove(model_);
  EXPECT_EQ(stale(), std::nullopt) << "the engine does not need the model";
  write_text(engine_, "AN engine");
  fs::last_write_time(engine_, fs::last_write_time(engine_) + std::chrono::seconds(2));
  EXPECT_EQ(stale(), "it does not match its record, m.engine.json");
  fs::remove(engine_);
  EXPECT_FALSE(why_stale(record_, engine_));
}

TEST(EnginePath, LiesNextToTheModel) {
  EXPECT_EQ(engine_path("/a/yolo11n.onnx"), "/a/yolo11n.engine");
  EXPECT_EQ(record_path("/a/yolo11n.engine"), "/a/yolo11n.engine.json");
}

TEST(Precision, DependsOnTensorRtVersion) {
  for (const int major : {10, 11, 12}) EXPECT_EQ(why_not(Precision::fp32, major, false), std::nullopt);
  for (const Precision half : {Precision::fp16, Precision::bf16}) {
    EXPECT_EQ(why_not(half, 10, false), std::nullopt);
    EXPECT_TRUE(needs_flag(half, 10));
    EXPECT_FALSE(needs_flag(half, 11));
  }
  EXPECT_THAT(why_not(Precision::fp16, 11, false).value_or(""), HasSubstr("no longer has the flag FP16"));
  EXPECT_THAT(why_not(Precision::bf16, 11, true).value_or(""), HasSubstr("build it without --bf16"));
  for (const int major : {10, 11}) {
    EXPECT_EQ(why_not(Precision::int8, major, true), std::nullopt);
    EXPECT_THAT(why_not(Precision::int8, major, false).value_or(""), HasSubstr("has no calibrator"));
  }
  EXPECT_TRUE(needs_flag(Precision::int8, 10));
  for (const Precision precision : {Precision::fp32, Precision::fp16, Precision::bf16, Precision::int8})
    EXPECT_EQ(parse_precision(name_of(precision)), precision);
  EXPECT_EQ(parse_precision("fp8"), std::nullopt);
}

TEST(TensorRtVersion, DecodesBothNumberFormats) {
  EXPECT_EQ(version_text(101601), "10.16.1");
  EXPECT_EQ(version_text(110106), "11.1.6");
  EXPECT_EQ(version_text(8601), "8.6.1");
  EXPECT_EQ(major_of(101601), 10);
  EXPECT_EQ(major_of(8601), 8);
}

TEST(ResolveShape, SetsBatchToOneAndPictureSidesToImageSize) {
  using Dims = std::vector<std::int64_t>;
  const auto resolved = [](const Dims& dims, int size) { return value_of(resolve_shape("x", dims, size)); };
  EXPECT_EQ(resolved({-1, 3, -1, -1}, 640), (Dims{1, 3, 640, 640}));
  EXPECT_EQ(resolved({-1, -1, -1, 3}, 320), (Dims{1, 320, 320, 3}));
  EXPECT_EQ(resolved({2, 3, 8, 9}, 640), (Dims{2, 3, 8, 9}));
  EXPECT_EQ(resolved({-1, 10}, 640), (Dims{1, 10}));
  EXPECT_EQ(resolved({}, 640), Dims{});
  for (const Dims& open : {Dims{1, -1}, Dims{-1, -1, -1, -1}, Dims{1, 3, 8, 8, -1}})
    EXPECT_THAT(error_of(resolve_shape("ids", open, 640)).sentence(),
                testing::AllOf(HasSubstr("input ids has a dynamic shape"),
                               HasSubstr("export the model with fixed shapes")));
}

std::string with_length(const std::string& text) {
  std::string file(4, '\0');
  const auto length = static_cast<std::uint32_t>(text.size());
  std::memcpy(file.data(), &length, 4);
  return file + text;
}

TEST(EngineFile, ReadsUltralyticsMetadata) {
  const std::string file =
      with_length(R"({"task": "detect", "imgsz": [640, 640], "names": {"0": "person"}})") + "ftrt…";
  const EngineParts parts = parts_of(file);
  EXPECT_EQ(parts.engine.size(), std::strlen("ftrt…"));
  EXPECT_EQ(parts.engine.data(), file.data() + file.size() - parts.engine.size());
  using Pair = std::pair<std::string, std::string>;
  EXPECT_THAT(parts.metadata, ElementsAre(Pair("task", "detect"), Pair("imgsz", "[640,640]"),
                                          Pair("names", R"({"0":"person"})")));
}

TEST(EngineFile, TreatsAnyOtherFileAsEngine) {
  for (const std::string& file :
       {std::string(), std::string("f"), std::string("ftrt and much more behind it"),
        with_length("{\"task\": }") + "x", with_length("{\"a\": 1}"), with_length("[1]") + "x",
        std::string("\xff\xff\xff\xff{}", 6), std::string("\x02\x00\x00\x00{", 5)}) {
    const EngineParts parts = parts_of(file);
    EXPECT_EQ(parts.engine.size(), file.size());
    EXPECT_TRUE(parts.metadata.empty());
  }
}

TEST(EngineFile, MapsFileOrExplainsFailure) {
  TemporaryFolder folder;
  write_text(folder / "e", "text");
  write_text(folder / "empty", "");
  const MappedFile file = value_of(MappedFile::open(folder / "e"));
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()), "text");
  EXPECT_FALSE(MappedFile::open(folder / "empty"));
  EXPECT_THAT(error_of(MappedFile::open(folder / "none")).sentence(), HasSubstr("No such file"));
}

TEST(EngineBuilder, RejectsPluginWithoutBuilder) {
  const auto error = [](const std::string& plugin) {
    return error_of(build_engine_with(plugin, {}, [](const std::string&) {}));
  };
  const Error foreign = error(test::built_path("tests/fake_cuda/libcuda.so.1"));
  EXPECT_EQ(foreign.kind, ErrorKind::input);
  EXPECT_THAT(foreign.sentence(), HasSubstr("it does not export headroom_build_engine()"));
  error("/nowhere/libheadroom_backend_tensorrt.so");
}

// Messages of TensorRT 8.4, 10.0 and 10.15, as users reported them.
TEST(Message, HasTheCauseFirstOnOneLine) {
  EXPECT_EQ(
      cause_of("6: [libLoader.h::DynamicLibrary::50] Error Code 6: Internal Error (Unable to load library: "
               "libnvinfer_builder_resource.so.8.4.1)"),
      "Unable to load library: libnvinfer_builder_resource.so.8.4.1 (error code 6)");
  EXPECT_EQ(cause_of("IBuilder::buildSerializedNetwork: Error Code 10: Internal Error (Could not find any "
                     "implementation for node {ForeignNode[a.weight...(b)]}.\nIn computeCosts at "
                     "/_src/optimizer/common/optimizer.cpp:4119)"),
            "Could not find any implementation for node {ForeignNode[a.weight...(b)]} (error code 10)");
  EXPECT_EQ(cause_of("IRuntime::deserializeCudaEngine: the magic tag does not match"),
            "IRuntime::deserializeCudaEngine: the magic tag does not match");
  EXPECT_EQ(cause_of("Input a is broken. In Impl at common/loader.cpp:12 In at x"),
            "Input a is broken. In at x");
  for (const char* odd : {"Error Code", "Error Code 7", "Error Code 7: (", "Error Code 7: ()", " In ",
                          " In x at ", " In x at y:", ")Error Code 1("})
    EXPECT_NE(cause_of(odd).find_first_not_of(' '), std::string::npos) << odd;
}

TEST(Message, NamesTheMissingLibraryAndItsFolder) {
  const test::TemporaryFolder folder;
  const std::string name = "libnvinfer_builder_resource_sm90.so.10.15.1",
                    words = "Unable to load library: " + name;
  const std::string closed = ": " + name + ": cannot open shared object file: No such file or directory";
  for (const std::string& reason : {std::string(), closed})
    EXPECT_EQ(cure_of(words + reason + " (error code 6)", folder.path()),
              "install the TensorRT package for this GPU: " + name + " is not in " + folder.path().string());
  EXPECT_THAT(
      cure_of("Unable to load library: libcudnn.so.8", folder.path()),
      testing::StartsWith("install the TensorRT package with this library: libcudnn.so.8 is not in /"));
  test::write_text(folder / name, "");
  for (const std::string& reason : {std::string(), closed})
    EXPECT_THAT(cure_of(words + reason + " (error code 6)", folder.path()),
                testing::StartsWith("add " + folder.path().string() + " to LD_LIBRARY_PATH"));
  EXPECT_EQ(
      cure_of(words + ": " + name + ": cannot enable executable stack: Invalid argument", folder.path()), "");
  EXPECT_EQ(cure_of("Could not find any implementation for node Conv_1", folder.path()), "");
}

constexpr std::uint64_t kMiB = 1 << 20;

// A memory source with a limit.
class Bounded final : public MemorySource {
 public:
  explicit Bounded(std::uint64_t bound) : bound_(bound) {}
  std::uint64_t allocate(std::uint64_t bytes) override {
    ++asked;
    if (bytes > bound_ - held) return 0;
    held += bytes;
    sizes_.push_back(bytes);
    return sizes_.size() * kMiB;  // an address
  }
  bool free(std::uint64_t address) override {
    held -= sizes_[address / kMiB - 1];
    return true;
  }
  std::uint64_t limit() override { return knows_limit ? bound_ : 0; }
  std::uint64_t live_of_all_processes() override { return held; }
  std::uint64_t held = 0, asked = 0;
  bool knows_limit = true;

 private:
  std::uint64_t bound_;
  std::vector<std::uint64_t> sizes_;
};

TEST(MemoryAccount, CountsLiveBytesAndPeak) {
  Bounded source(100 * kMiB);
  {
    MemoryAccount account(source);
    EXPECT_EQ(account.allocate(0), 0U);
    EXPECT_EQ(source.asked, 0U) << "it requests nothing for zero bytes";
    const auto a = account.allocate(10 * kMiB), b = account.allocate(20 * kMiB);
    EXPECT_NE(a, 0U);
    EXPECT_TRUE(account.free(a));
    EXPECT_FALSE(account.free(a)) << "freed twice";
    EXPECT_FALSE(account.free(12345));
    account.allocate(5 * kMiB);
    EXPECT_EQ(account.figures().live, 25 * kMiB);
    EXPECT_EQ(account.figures().peak, 30 * kMiB);
    EXPECT_EQ(account.figures().allocations, 3U);
    EXPECT_EQ(account.figures().refused, 0U);
    EXPECT_EQ(account.refusal_text(), "");
    account.free(b);
    EXPECT_EQ(source.held, 5 * kMiB);
  }
  EXPECT_EQ(source.held, 0U) << "its end frees the remaining block";
}

TEST(MemoryAccount, DescribesRefusalAndLiveBytes) {
  Bounded source(64 * kMiB);
  MemoryAccount account(source);
  account.allocate(60 * kMiB);
  EXPECT_EQ(account.allocate(5 * kMiB), 0U);
  EXPECT_NE(account.allocate(4 * kMiB), 0U) << "a request that fits exactly is not refused";
  EXPECT_EQ(account.figures().refused, 1U);
  EXPECT_EQ(account.refusal_text(),
            "it requested 5.0 MiB of device memory while it held 60.0 MiB, and all processes under the limit "
            "of 64.0 MiB held 60.0 MiB");
  source.knows_limit = false;
  EXPECT_EQ(account.allocate(kMiB), 0U);
  EXPECT_EQ(account.refusal_text(), "it requested 1.0 MiB of device memory while it held 64.0 MiB");
}

TEST(MemoryAccount, NeverExceedsLimitWithManyThreads) {
  Bounded source(32 * kMiB);
  MemoryAccount account(source);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i)
        if (const auto address = account.allocate(10 * kMiB)) account.free(address);
    });
  for (std::thread& thread : threads) thread.join();
  const MemoryFigures figures = account.figures();
  EXPECT_EQ(figures.live, 0U);
  EXPECT_LE(figures.peak, 32 * kMiB);
  EXPECT_EQ(figures.allocations + figures.refused, 2000U);
}

}  // namespace
}  // namespace headroom::tensorrt
