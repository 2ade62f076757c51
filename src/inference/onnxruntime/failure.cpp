#include "inference/onnxruntime/failure.h"

namespace headroom::onnxruntime {

std::string clean_message(std::string_view message) {
  constexpr std::string_view kFailed = " failed:";  // "Load model from PATH failed:"
  const std::size_t at = message.starts_with("Load model from ") ? message.find(kFailed) : message.npos;
  if (at != message.npos) message.remove_prefix(at + kFailed.size());
  return plugin::without_source_places(message);
}

std::string_view fix_for_opening(std::string_view reasons, std::string_view otherwise) {
  for (const std::string_view part : {"GLIBC_", "GLIBCXX_", "CXXABI_", "libstdc++.so", "libgcc_s.so"})
    if (plugin::mentions(reasons, part))
      return "ONNX models need glibc 2.28 (JetPack 5, Debian 10 or later), libstdc++6 and libgcc-s1; all "
             "other verbs work";
  return otherwise;
}

Failure classify(std::string_view message) {
  return plugin::classify(
      message, clean_message(message),
      {{{"Protobuf parsing failed"}, "the file is damaged or not an ONNX model: "},
       {{"ModelProto does not have a graph"}, "the file is damaged or not an ONNX model: "},
       {{"is not a registered function/op"}, "it uses an operator that this runtime does not support: "}});
}

}  // namespace headroom::onnxruntime
