#include "inference/libtorch/module.h"

#include <caffe2/serialize/inline_container.h>
#include <fmt/format.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/csrc/jit/serialization/import_read.h>

#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <utility>

#include "inference/libtorch/archive_kind.h"
#include "inference/libtorch/failure.h"

namespace headroom::libtorch {
namespace {

using torch::jit::Module;

constexpr const char* kConfigFile = "config.txt";

// Runs `work` and converts its exceptions to Failures, without LibTorch's C++ stack traces.
template <class Work>
auto with_clean_errors(Work&& work) {
  try {
    return work();
  } catch (const c10::Error& error) {
    throw classify(error.what_without_backtrace());
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    throw classify(error.what());
  }
}

struct Imported {
  Module module;
  std::string config;
};

// LibTorch 2 saves the inputs of the trace without their data, and can restore their shapes itself. On a
// GPU, its own function would copy data that does not exist ("CUDA error: invalid argument", 2.11), so
// this reads them on the CPU.
void restore_traced_shapes(const std::string& path, const Module& module, c10::Device device) {
  caffe2::serialize::PyTorchStreamReader reader(path);
  if (!reader.hasRecord("traced_inputs.pkl") || !module.find_method("forward")) return;
  const auto traced = torch::jit::readArchiveAndTensors("traced_inputs", "", "", {}, {},
                                                        c10::Device(c10::DeviceType::CPU), reader)
                          .toGenericDict();
  const auto found = traced.find("forward");
  if (found == traced.end()) return;
  const auto inputs = found->value().toListRef();
  const auto arguments =
      torch::jit::toGraphFunction(module.get_method("forward").function()).graph()->inputs();
  if (arguments.size() < inputs.size()) return;
  const std::size_t before = arguments.size() - inputs.size();  // the module itself
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].isTensor()) continue;
    const at::Tensor tensor = inputs[i].toTensor();
    arguments[before + i]->setType(
        c10::TensorType::createContiguous(tensor.scalar_type(), device, tensor.sizes()));
  }
}

Imported import(const std::string& path, c10::Device device) {
  torch::jit::ExtraFilesMap extra{{kConfigFile, ""}};
  Module module =
      torch::jit::import_ir_module(std::make_shared<torch::jit::CompilationUnit>(), path, device, extra);
  module.eval();
  try {
    with_clean_errors([&] { restore_traced_shapes(path, module, device); });
  } catch (const Failure& failure) {  // the shapes are optional: read_signature() has other sources
    std::fprintf(stderr, "LibTorch: cannot read the input shapes of the module's trace: %s\n",
                 failure.message.c_str());
  }
  return {module, extra[kConfigFile]};
}

// Returns the module that `work` creates. If it fails: returns nothing with `best_effort`, otherwise
// throws.
template <class Work>
std::optional<Module> try_transform(bool best_effort, const char* what, Work&& work) {
  try {
    return with_clean_errors(work);
  } catch (const Failure& failure) {
    if (failure.kind != HR_ERROR_FAILED) throw;
    if (!best_effort)
      throw Failure{HR_ERROR_FAILED, fmt::format("LibTorch cannot {} the module: {}", what, failure.message)};
    std::fprintf(stderr, "LibTorch: cannot %s the module, so it runs unchanged: %s\n", what,
                 failure.message.c_str());
    return std::nullopt;
  }
}

}  // namespace

LoadedModule load_module(const std::string& path, c10::Device device, GraphOptimization optimization,
                         bool best_effort) {
  require_torchscript(path);
  Imported imported = with_clean_errors([&] { return import(path, device); });
  Module& module = imported.module;
  if (!module.find_method("forward"))
    throw Failure{HR_ERROR_FAILED, "the module has no forward(); save a module that has one"};
  // A clone that shares the weights until they are folded.
  const bool folds_norms =
      optimization == GraphOptimization::fold || optimization == GraphOptimization::optimize;
  const bool for_signature_only = optimization == GraphOptimization::none;
  const auto frozen = try_transform(best_effort || for_signature_only, "freeze",
                                    [&] { return torch::jit::freeze(module, {}, folds_norms); });
  Signature signature =
      with_clean_errors([&] { return read_signature(module, frozen ? *frozen : module, imported.config); });
  if (for_signature_only || !frozen) return {module, std::move(signature)};
  module = *frozen;  // frees the saved weights before the next ones are created
  if (optimization == GraphOptimization::optimize)
    if (const auto optimized = try_transform(best_effort, "optimize",
                                             [&] { return torch::jit::optimize_for_inference(module); }))
      module = *optimized;
  return {module, std::move(signature)};
}

}  // namespace headroom::libtorch
