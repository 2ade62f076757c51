#include "inference/libtorch/module.h"

#include <fmt/format.h>
#include <torch/csrc/jit/serialization/import.h>

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

Imported import(const std::string& path, c10::Device device) {
  torch::jit::ExtraFilesMap extra{{kConfigFile, ""}};
  // LibTorch 2 restores the shapes that a module was traced with, if it is asked to.
  const auto read = [&](const auto& unit) {
    if constexpr (requires { torch::jit::import_ir_module(unit, path, device, extra, false, true); })
      return torch::jit::import_ir_module(unit, path, device, extra, false, true);
    else
      return torch::jit::import_ir_module(unit, path, device, extra);
  };
  Module module = read(std::make_shared<torch::jit::CompilationUnit>());
  module.eval();
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
