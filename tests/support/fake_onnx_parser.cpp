// The fake libnvonnxparser that belongs to fake_tensorrt.cpp: its "ONNX models" are lines of text.
#include <NvOnnxParser.h>

#include <fstream>
#include <sstream>
#include <string>

extern "C" const char* fake_tensorrt_read(void* network, const char* text);
extern "C" void fake_tensorrt_parser_ends(void* network);

namespace {

struct Error final : nvonnxparser::IParserError {
  std::string text;
  nvonnxparser::ErrorCode code() const override { return nvonnxparser::ErrorCode::kUNSUPPORTED_NODE; }
  char const* desc() const override { return text.c_str(); }
  char const* file() const override { return "ModelImporter.cpp"; }
  int line() const override { return 1; }
  char const* func() const override { return "parse"; }
  int node() const override { return 7; }
  char const* nodeName() const override { return "Node_7"; }
  char const* nodeOperator() const override { return "Odd"; }
  char const* const* localFunctionStack() const override { return nullptr; }
  int32_t localFunctionStackSize() const override { return 0; }
};

}  // namespace

#include "fake_onnx_parser_stub.h"

namespace {

class Parser final : public nvonnxparser::StubIParser {
 public:
  explicit Parser(void* network) : network_(network) {}
  ~Parser() noexcept override { fake_tensorrt_parser_ends(network_); }
  bool parseFromFile(char const* file, int) noexcept override {
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    error_.text = fake_tensorrt_read(network_, text.str().c_str());
    return error_.text.empty();
  }
  int getNbErrors() const noexcept override { return error_.text.empty() ? 0 : 1; }
  nvonnxparser::IParserError const* getError(int) const noexcept override { return &error_; }

 private:
  void* network_;
  Error error_;
};

}  // namespace

extern "C" __attribute__((visibility("default"))) void* createNvOnnxParser_INTERNAL(void* network, void*,
                                                                                    int) noexcept {
  return static_cast<nvonnxparser::IParser*>(new Parser(network));
}
