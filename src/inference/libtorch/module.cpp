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

// LibTorch's messages carry a stack of C++ frames, unless asked otherwise.
template <class Work>
auto explained(Work&& work) {
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

// LibTorch 2 saves the inputs that a module was traced with, without their data, and can restore their shapes
// itself. But on a GPU it would copy data that is not there ("CUDA error: invalid argument", 2.11), so they
// are read on the CPU.
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
    explained([&] { restore_traced_shapes(path, module, device); });
  } catch (const Failure& failure) {  // they are a help, and there are others
    std::fprintf(stderr, "LibTorch: the shapes that the module was traced with cannot be read: %s\n",
                 failure.message.c_str());
  }
  return {module, extra[kConfigFile]};
}

// The module with `work` done; nothing where that cannot be, and all that can be is wanted.
template <class Work>
std::optional<Module> worked(bool all_that_works, const char* what, Work&& work) {
  try {
    return explained(work);
  } catch (const Failure& failure) {
    if (failure.kind != HR_ERROR_FAILED) throw;
    if (!all_that_works)
      throw Failure{HR_ERROR_FAILED, fmt::format("LibTorch cannot {} it: {}", what, failure.message)};
    std::fprintf(stderr, "LibTorch: the module runs as it is, as LibTorch cannot %s it: %s\n", what,
                 failure.message.c_str());
    return std::nullopt;
  }
}

}  // namespace

LoadedModule load_module(const std::string& path, c10::Device device, GraphWork work, bool all_that_works) {
  require_torchscript(path);
  Imported imported = explained([&] { return import(path, device); });
  Module& module = imported.module;
  if (!module.find_method("forward"))
    throw Failure{HR_ERROR_FAILED, "the module has no forward(); save one that has"};
  // A clone that shares the weights, until they are folded.
  const bool folds = work == GraphWork::fold || work == GraphWork::optimize;
  const bool for_signature_only = work == GraphWork::none;
  const auto frozen = worked(all_that_works || for_signature_only, "freeze",
                             [&] { return torch::jit::freeze(module, {}, folds); });
  Signature signature =
      explained([&] { return read_signature(module, frozen ? *frozen : module, imported.config); });
  if (for_signature_only || !frozen) return {module, std::move(signature)};
  module = *frozen;  // the weights as they were saved are let go before the next are made
  if (work == GraphWork::optimize)
    if (const auto optimized =
            worked(all_that_works, "optimize", [&] { return torch::jit::optimize_for_inference(module); }))
      module = *optimized;
  return {module, std::move(signature)};
}

}  // namespace headroom::libtorch
