// Messages that ONNX Runtime 1.11 to 1.30 write.
#include "inference/onnxruntime/failure.h"

#include "support/test_support.h"

namespace headroom::onnxruntime {
namespace {

TEST(CleanMessage, KeepsOnlyTheSentence) {
  const std::string source = "/onnxruntime_src/onnxruntime/core/";
  const std::vector<std::pair<std::string, std::string>> rows{
      {"Load model from /tmp/my model.onnx failed:Protobuf parsing failed.", "Protobuf parsing failed"},
      {"Load model from m.onnx failed:" + source +
           "graph/model.cc:181 onnxruntime::Model::Model(onnx::ModelProto&&, const onnxruntime::PathString&, "
           "const IOnnxRuntimeOpSchemaRegistryList*, const onnxruntime::logging::Logger&, const "
           "onnxruntime::ModelOptions&) Unsupported model IR version: 14, max supported IR version: 10\\n",
       "Unsupported model IR version: 14, max supported IR version: 10\\n"},
      {"Non-zero status code returned while running Concat node. Name:'c' Status Message: " + source +
           "providers/cpu/tensor/concat.cc:159 onnxruntime::common::Status "
           "onnxruntime::ConcatBase::PrepareForComputeImpl(onnxruntime::OpKernelContext*, const "
           "std::vector<const Tensor*>&, Prepare&) const [with T = int] Non concat axis dimensions must "
           "match: Axis 1 has mismatched dimensions of 3 and 4",
       "Non-zero status code returned while running Concat node. Name:'c' Status Message: Non concat axis "
       "dimensions must match: Axis 1 has mismatched dimensions of 3 and 4"},
      // Paths and parentheses of sentences stay.
      {"cannot map /data/weights.bin (size 12)", "cannot map /data/weights.bin (size 12)"},
      {"/src/a.cc:12 the value (3) is wrong", "the value (3) is wrong"},
      {"/src/a.cc:12 N::f(int", "N::f(int"},
      {"", ""},
      {" first\n\n  second.\n", "first second"}};
  for (const auto& [message, sentence] : rows) EXPECT_EQ(clean_message(message), sentence);
}

TEST(Classify, RecognisesRefusedAllocations) {
  const auto kind = [](const char* message) { return classify(message).kind; };
  EXPECT_EQ(kind("Exception during initialization: std::bad_alloc"), HR_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(kind("Available memory of 100 is smaller than requested bytes of 200"), HR_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(kind("CUDA failure 2: out of memory ; GPU=0"), HR_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(kind("Protobuf parsing failed."), HR_ERROR_FAILED);
  const plugin::Failure refused = classify(
      "/onnxruntime_src/onnxruntime/core/framework/bfc_arena.cc:376 void* "
      "onnxruntime::BFCArena::AllocateRawInternal(size_t, bool, onnxruntime::Stream*, bool, "
      "onnxruntime::WaitNotificationFn) Failed to allocate memory for requested buffer of size 13107200");
  EXPECT_EQ(refused.kind, HR_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(refused.message, "Failed to allocate memory for requested buffer of size 13107200");
}

TEST(FixForOpening, NamesWhatTheSystemLacks) {
  const std::string lacking =
      "ONNX models need glibc 2.28 (JetPack 5, Debian 10 or later), libstdc++6 and libgcc-s1";
  for (const std::string reason :
       {"/lib/aarch64-linux-gnu/libc.so.6: version `GLIBC_2.28' not found (required by "
        "/usr/lib/headroom/libonnxruntime.so.1); libonnxruntime.so: cannot open shared object file: No such "
        "file or directory",
        "/usr/lib/aarch64-linux-gnu/libstdc++.so.6: version `GLIBCXX_3.4.26' not found (required by "
        "/usr/lib/headroom/libonnxruntime.so.1)",
        "libstdc++.so.6: cannot open shared object file: No such file or directory",
        "libgcc_s.so.1: cannot open shared object file: No such file or directory"})
    EXPECT_THAT(fix_for_opening(reason, "install it"), testing::StartsWith(lacking)) << reason;
  EXPECT_EQ(fix_for_opening("libonnxruntime.so: cannot open shared object file: No such file or directory",
                            "install it"),
            "install it");
}

}  // namespace
}  // namespace headroom::onnxruntime
