#include "inference/libtorch/module.h"

#include <caffe2/serialize/inline_container.h>
#include <fmt/format.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/csrc/jit/serialization/import_read.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <memory>
#include <unordered_set>

#include "base/json.h"
#include "base/text.h"
#include "inference/plugin/plugin_failure.h"

namespace headroom::libtorch {
namespace {

using torch::jit::Module;
using torch::jit::Node;
using torch::jit::Value;
using Dims = std::vector<std::int64_t>;

constexpr const char* kConfigFile = "config.txt";
// A list of {"name", "type", "dims"}: what forward() takes, in order; -1 is a dynamic dimension.
constexpr const char* kInputsFile = "headroom.inputs.json";
constexpr const char* kVosManifestFile = "headroom.vos.manifest";  // docs/video-segmentation.md

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
  std::string config, inputs, vos_manifest;  // extra files; empty if absent
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
  torch::jit::ExtraFilesMap extra{{kConfigFile, ""}, {kInputsFile, ""}, {kVosManifestFile, ""}};
  Module module =
      torch::jit::import_ir_module(std::make_shared<torch::jit::CompilationUnit>(), path, device, extra);
  module.eval();
  try {
    with_clean_errors([&] { restore_traced_shapes(path, module, device); });
  } catch (const Failure& failure) {  // the shapes are optional: read_signature() has other sources
    std::fprintf(stderr, "LibTorch: cannot read the input shapes of the module's trace: %s\n",
                 failure.message.c_str());
  }
  return {module, extra[kConfigFile], extra[kInputsFile], extra[kVosManifestFile]};
}

// Returns the module that `work` creates. If it fails: returns nothing with `best_effort`, otherwise
// throws.
template <class Work>
std::optional<Module> try_transform(bool best_effort, const char* what, Work&& work) {
  try {
    return with_clean_errors(work);
  } catch (const Failure& failure) {
    if (failure.kind != HR_ERROR_FAILED) throw;
    if (!best_effort) throw failed("LibTorch cannot {} the module: {}", what, failure.message);
    std::fprintf(stderr, "LibTorch: cannot %s the module, so it runs unchanged: %s\n", what,
                 failure.message.c_str());
    return std::nullopt;
  }
}

struct TypePair {
  c10::ScalarType torch;
  ElementType ours;
};
constexpr std::array<TypePair, 10> kTypes{{{c10::ScalarType::Float, ElementType::float32},
                                           {c10::ScalarType::Half, ElementType::float16},
                                           {c10::ScalarType::BFloat16, ElementType::bfloat16},
                                           {c10::ScalarType::Double, ElementType::float64},
                                           {c10::ScalarType::Char, ElementType::int8},
                                           {c10::ScalarType::Byte, ElementType::uint8},
                                           {c10::ScalarType::Short, ElementType::int16},
                                           {c10::ScalarType::Int, ElementType::int32},
                                           {c10::ScalarType::Long, ElementType::int64},
                                           {c10::ScalarType::Bool, ElementType::boolean}}};

TensorSpec spec_of(std::string name, ElementType type, Dims dims, std::vector<std::string> dim_names) {
  dim_names.resize(dims.size());
  return {std::move(name), type, std::move(dims), std::move(dim_names)};
}

TensorSpec picture(const std::string& name, ElementType type, std::int64_t channels) {
  return spec_of(name, type, {-1, channels, -1, -1}, {"batch", "", "height", "width"});
}

// A constant input of a node; None if the input is not a constant.
c10::IValue constant(const Node& node, std::size_t input) {
  if (input >= node.inputs().size()) return {};
  return torch::jit::toIValue(node.inputs()[input]).value_or(c10::IValue());
}

// A constant weight of the graph.
std::optional<at::Tensor> constant_tensor(const Node& node, std::size_t input) {
  const c10::IValue value = constant(node, input);
  if (!value.isTensor() || !value.toTensor().defined()) return std::nullopt;
  return value.toTensor();
}

// The input that a convolution implies. `keeps_channels` is false if the channels changed between the
// module's input and this node.
std::optional<TensorSpec> input_of_convolution(const Node& node, const std::string& name,
                                               bool keeps_channels) {
  const std::string_view kind = node.kind().toQualString();
  if (!starts_with(kind, "aten::conv") && kind != "aten::_convolution") return std::nullopt;
  const auto weight = constant_tensor(node, 1);
  if (!weight || weight->dim() < 3) return std::nullopt;
  const bool general = kind == "aten::_convolution" || kind == "aten::convolution";
  const c10::IValue sixth = constant(node, 6), groups_value = general ? constant(node, 8) : sixth;
  const bool transposed =
      starts_with(kind, "aten::conv_transpose") || (general && sixth.isBool() && sixth.toBool());
  const std::int64_t groups = groups_value.isInt() ? groups_value.toInt() : 1;
  const std::int64_t channels = transposed ? weight->size(0) : weight->size(1) * groups;
  const ElementType type = element_type_of(weight->scalar_type());
  switch (weight->dim()) {
    case 3:
      return spec_of(name, type, {-1, keeps_channels ? channels : 1, -1}, {"batch", "", "length"});
    case 4:
      return picture(name, type, keeps_channels ? channels : 3);
    case 5:
      return spec_of(name, type, {-1, keeps_channels ? channels : 3, -1, -1, -1},
                     {"batch", "", "frames", "height", "width"});
    default:
      return std::nullopt;
  }
}

std::optional<TensorSpec> input_of_operation(const Node& node, const Value& value, const std::string& name,
                                             bool keeps_channels) {
  if (auto spec = input_of_convolution(node, name, keeps_channels)) return spec;
  const std::string_view kind = node.kind().toQualString();
  if (kind == "aten::embedding" && node.inputs().size() > 1 && node.inputs()[1] == &value)
    return spec_of(name, ElementType::int64, {-1, -1}, {"batch", "sequence"});
  if (kind == "aten::linear" && node.inputs()[0] == &value)
    if (const auto weight = constant_tensor(node, 1); weight && weight->dim() == 2)
      return spec_of(name, element_type_of(weight->scalar_type()), {-1, weight->size(1)}, {"batch", ""});
  return std::nullopt;
}

// Operations whose result has the rank of their input. Those in changes_channels() may change its
// channels.
bool keeps_rank(std::string_view kind) {
  constexpr std::array<std::string_view, 20> kKinds{
      "aten::to",     "aten::contiguous", "aten::clone",
      "aten::detach", "aten::div",        "aten::div_",
      "aten::mul",    "aten::mul_",       "aten::sub",
      "aten::sub_",   "aten::add",        "aten::add_",
      "aten::pad",    "aten::relu",       "aten::float",
      "aten::half",   "aten::batch_norm", "aten::constant_pad_nd",
      "aten::neg",    "aten::type_as"};
  return std::find(kKinds.begin(), kKinds.end(), kind) != kKinds.end();
}
bool changes_channels(std::string_view kind) {
  constexpr std::array<std::string_view, 4> kKinds{"aten::slice", "aten::cat", "aten::flip",
                                                   "prim::ListConstruct"};
  return std::find(kKinds.begin(), kKinds.end(), kind) != kKinds.end();
}

// Follows the input through the graph to the first operation that implies its shape.
std::optional<TensorSpec> spec_from_graph(const Value& input, const std::string& name) {
  struct Step {
    const Value* value;
    bool keeps_channels;
  };
  constexpr std::size_t kMostSteps = 256;
  std::vector<Step> steps{{&input, true}};
  std::unordered_set<const Value*> seen{&input};
  for (std::size_t i = 0; i < steps.size() && i < kMostSteps; ++i) {
    const Step step = steps[i];
    for (const torch::jit::Use& use : step.value->uses()) {
      if (auto spec = input_of_operation(*use.user, *step.value, name, step.keeps_channels)) return spec;
      const std::string_view kind = use.user->kind().toQualString();
      const bool changes = changes_channels(kind);
      if (!changes && !keeps_rank(kind)) continue;
      for (const Value* output : use.user->outputs())
        if (seen.insert(output).second) steps.push_back({output, step.keeps_channels && !changes});
    }
  }
  return std::nullopt;
}

// The shape of the module's trace, if the importer restored it.
std::optional<TensorSpec> spec_from_trace(const Value& input, const std::string& name) {
  const auto type = input.type()->cast<c10::TensorType>();
  if (!type) return std::nullopt;
  const auto sizes = type->sizes().concrete_sizes();
  if (!sizes || !type->scalarType()) return std::nullopt;
  return spec_of(name, element_type_of(*type->scalarType()), *sizes, {});
}

std::string text_of(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

// The shape in config.txt: "shape" from YOLOv5, "batch" and "imgsz" from Ultralytics.
std::optional<TensorSpec> spec_from_config(const Json& config, const std::string& name, ElementType type) {
  const auto numbers = [&](const char* key) {
    Dims read;
    for (const Json& number : get_member(config, key))
      if (number.is_number_integer()) read.push_back(number.get<std::int64_t>());
    return read;
  };
  Dims shape = numbers("shape");
  if (shape.empty())
    if (const Dims size = numbers("imgsz"); size.size() == 2)
      shape = {get_integer(config, "batch").value_or(1), 3, size[0], size[1]};
  const auto is_size = [](std::int64_t size) { return size > 0; };
  if (shape.empty() || !std::all_of(shape.begin(), shape.end(), is_size)) return std::nullopt;
  return spec_of(name, type, std::move(shape), {});
}

ElementType type_named(const std::string& name) {
  for (const TypePair& pair : kTypes)
    if (headroom::name_of(pair.ours) == name) return pair.ours;
  return ElementType::unknown;
}

// The inputs that headroom.inputs.json records. `arguments`: tensors that forward() takes.
std::vector<TensorSpec> recorded_inputs(const std::string& text, std::size_t arguments) {
  const auto list = parse_json(text, kInputsFile);
  if (!list || !list->is_array() || list->size() != arguments)
    throw failed("its {} is not a list of the {} tensors that forward() takes", kInputsFile, arguments);
  std::vector<TensorSpec> specs;
  for (const Json& entry : *list) {
    Dims dims;
    for (const Json& dim : get_member(entry, "dims"))
      dims.push_back(dim.is_number_integer() ? dim.get<std::int64_t>() : -1);
    const std::string name = get_text(entry, "name");
    const ElementType type = type_named(get_text(entry, "type"));
    if (name.empty() || type == ElementType::unknown || !get_member(entry, "dims").is_array())
      throw failed("its {} needs 'name', 'type' and 'dims' for each input", kInputsFile);
    specs.push_back(spec_of(name, type, std::move(dims), {}));
  }
  return specs;
}

// Whether the records say that the module computes in 16 bits: by its inputs, or by its manifest if those are
// bytes.
bool records_half(const std::vector<TensorSpec>& inputs, const std::string& vos_manifest) {
  const auto is_half = [](const TensorSpec& input) {
    return input.type == ElementType::float16 || input.type == ElementType::bfloat16;
  };
  if (std::any_of(inputs.begin(), inputs.end(), is_half)) return true;
  const auto manifest = parse_json(vos_manifest, kVosManifestFile);
  return manifest && manifest->is_object() && get_text(*manifest, "precision") == "float16";
}

// The name of forward()'s only tensor argument.
std::string name_of_input(const c10::FunctionSchema& schema) {
  std::string name;
  for (const c10::Argument& argument : schema.arguments()) {
    if (&argument == &schema.arguments().front() || argument.default_value()) continue;  // the module itself
    if (!argument.type()->isSubtypeOf(*c10::TensorType::get()))
      throw failed(
          "its forward() takes '{}' of type {}, but Headroom passes only tensors; wrap "
          "it in a module whose forward() takes one tensor, and save that",
          argument.name(), argument.type()->str());
    if (!name.empty())
      throw failed(
          "its forward() takes several tensors ('{}', '{}'), whose shapes a TorchScript file does not "
          "record; wrap it in a module whose forward() takes one tensor, record the inputs "
          "(docs/libtorch.md), or export the "
          "model to .onnx",
          name, argument.name());
    name = argument.name();
  }
  if (name.empty()) throw failed("its forward() takes no tensor, so Headroom cannot run it");
  return name;
}

// Finds the type and shape of a TorchScript module's input. The file itself records only that there is a
// tensor. Sources, in this order:
//
//   1. The inputs that torch.jit.trace of PyTorch 2 saves (traced inputs).
//   2. A config.txt in the file, as the exporters of YOLOv5 and Ultralytics write it.
//   3. The first operation on the input: a convolution has a number of channels, an embedding takes
//      integers.
//
// A module with several inputs records them in headroom.inputs.json. `inlined` is the same module, frozen:
// its calls are inlined and its weights are constants.
void read_signature(LoadedModule& loaded, const Module& inlined, const Imported& imported) {
  const torch::jit::Method forward = loaded.module.get_method("forward");
  if (!imported.vos_manifest.empty())
    loaded.signature.metadata.emplace_back(kVosManifestFile, imported.vos_manifest);
  if (!imported.inputs.empty()) {
    const std::size_t arguments =
        forward.function().getSchema().arguments().size() - 1;  // without the module
    loaded.signature.inputs = recorded_inputs(imported.inputs, arguments);
    loaded.is_half = records_half(loaded.signature.inputs, imported.vos_manifest);
    return;
  }
  const std::string name = name_of_input(forward.function().getSchema());
  const Value& first = *inlined.get_method("forward").graph()->inputs().at(1);
  const auto by_graph = spec_from_graph(first, name);
  const ElementType type = by_graph ? by_graph->type : ElementType::float32;
  std::optional<TensorSpec> recorded = spec_from_trace(*forward.graph()->inputs().at(1), name);
  if (auto config = parse_json(imported.config, kConfigFile); config && config->is_object()) {
    for (const auto& [key, value] : config->items())
      loaded.signature.metadata.emplace_back(key, text_of(value));
    if (!recorded) recorded = spec_from_config(*config, name, type);
  }
  loaded.is_guess = !recorded;
  loaded.signature.inputs.push_back(recorded ? *recorded : by_graph ? *by_graph : picture(name, type, 3));
}

}  // namespace

ElementType element_type_of(c10::ScalarType type) {
  for (const TypePair& pair : kTypes)
    if (pair.torch == type) return pair.ours;
  return ElementType::unknown;
}

c10::ScalarType scalar_type_of(ElementType type) {
  for (const TypePair& pair : kTypes)
    if (pair.ours == type) return pair.torch;
  throw failed("LibTorch does not support tensors of {}", headroom::name_of(type));
}

LoadedModule load_module(const std::string& path, c10::Device device, GraphOptimization optimization,
                         bool best_effort) {
  require_torchscript(path);
  Imported imported = with_clean_errors([&] { return import(path, device); });
  LoadedModule loaded{imported.module, {}, false};
  if (!loaded.module.find_method("forward"))
    throw failed("the module has no forward(); save a module that has one");
  // A clone that shares the weights until they are folded.
  const bool folds_norms =
      optimization == GraphOptimization::fold || optimization == GraphOptimization::optimize;
  const bool for_signature_only = optimization == GraphOptimization::none;
  const auto frozen = try_transform(best_effort || for_signature_only, "freeze",
                                    [&] { return torch::jit::freeze(loaded.module, {}, folds_norms); });
  with_clean_errors([&] { read_signature(loaded, frozen ? *frozen : loaded.module, imported); });
  if (for_signature_only || !frozen) return loaded;
  loaded.module = imported.module = *frozen;  // frees the saved weights before the next ones are created
  if (optimization == GraphOptimization::optimize)
    if (const auto optimized = try_transform(
            best_effort, "optimize", [&] { return torch::jit::optimize_for_inference(loaded.module); }))
      loaded.module = *optimized;
  return loaded;
}

}  // namespace headroom::libtorch
