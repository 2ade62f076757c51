#include "inference/vos/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "inference/vos/small_floats.h"

namespace headroom::inference::vos {

Graph::Graph(Session session) : session_(std::move(session)), bound_(session_.description().inputs.size()) {}

std::optional<std::size_t> Graph::find_input(std::string_view name) const {
  const auto& inputs = description().inputs;
  const auto found = std::ranges::find(inputs, name, &TensorSpec::name);
  if (found == inputs.end()) return std::nullopt;
  return static_cast<std::size_t>(found - inputs.begin());
}

std::optional<std::int64_t> Graph::fixed_dim(std::size_t index, std::size_t dim) const {
  const TensorSpec& spec = input(index);
  if (dim >= spec.dims.size() || spec.dims[dim] < 0) return std::nullopt;
  return spec.dims[dim];
}

Status Graph::bind(std::size_t index, void* data, ElementType type) {
  Bound& bound = bound_[index];
  const std::size_t bytes = static_cast<std::size_t>(element_count(bound.dims)) * size_of(type);
  auto status = session_.bind_input(index, data, bytes, type, bound.dims);
  bound.data = status ? data : nullptr;
  bound.from = nullptr;
  return status;
}

Result<bool> Graph::shape_input(std::size_t index, std::span<const std::int64_t> dims) {
  Bound& bound = bound_[index];
  if (bound.data != nullptr && bound.data == bound.buffer.data() && std::ranges::equal(bound.dims, dims))
    return false;
  const ElementType type = input(index).type;
  bound.dims.assign(dims.begin(), dims.end());
  bound.buffer.assign(static_cast<std::size_t>(element_count(bound.dims)) * size_of(type), std::byte{0});
  if (auto status = bind(index, bound.buffer.data(), type); !status) return forward_error(status);
  return true;
}

void Graph::write(std::size_t index, std::size_t at, std::span<const float> values) {
  const ElementType type = input(index).type;
  write_numbers(values, type, bound_[index].buffer.data() + at * size_of(type));
}

void Graph::write(std::size_t index, std::size_t at, const void* values, ElementType type,
                  std::size_t count) {
  const ElementType own = input(index).type;
  convert(values, type, bound_[index].buffer.data() + at * size_of(own), own, count);
}

void Graph::fill(std::size_t index, float value) {
  const auto count = static_cast<std::size_t>(element_count(bound_[index].dims));
  for (std::size_t i = 0; i < count; ++i) write(index, i, {&value, 1});
}

Status Graph::forward(std::size_t index, const TensorView& output, std::int64_t copies) {
  scratch_dims_.assign(output.dims, output.dims + output.rank);
  if (!scratch_dims_.empty()) scratch_dims_[0] *= copies;
  const ElementType type = input(index).type;
  Bound& bound = bound_[index];
  if (copies == 1 && output.type == type) {
    if (bound.data == output.data && bound.dims == scratch_dims_) return {};
    bound.dims = scratch_dims_;
    return bind(index, const_cast<void*>(output.data), type);  // sessions only read their inputs
  }
  if (!is_float(output.type) || !is_float(type))
    return failure(fmt::format("cannot give a tensor of {} to the input {}", name_of(output.type),
                               input(index).describe()));
  if (auto shaped = shape_input(index, scratch_dims_); !shaped) return forward_error(shaped);
  const auto count = static_cast<std::size_t>(output.count());
  for (std::size_t copy = 0; copy < static_cast<std::size_t>(copies); ++copy)
    write(index, copy * count, output.data, output.type, count);
  return {};
}

Status Graph::run() {
  if (auto status = session_.run(); !status) return status;
  if (!session_.knows_outputs())
    if (auto learnt = session_.learn_outputs(); !learnt) return learnt;
  has_run_ = true;
  return session_.outputs(outputs_);
}

Status Graph::forward(std::size_t index, Graph& from, std::string_view name, std::size_t position,
                      bool may_link, std::int64_t copies) {
  const std::size_t output = from.find_output(name, position);
  if (may_link && copies == 1 && session_.can_link() && output < from.outputs_.size() &&
      from.outputs_[output].type == input(index).type) {
    Bound& bound = bound_[index];
    if (bound.from == &from && bound.output == output) return {};
    if (auto linked = session_.link_input(index, from.session_, output); !linked) return linked;
    bound.data = nullptr;
    bound.from = &from;
    bound.output = output;
    return {};
  }
  auto view = from.output(name, position);
  if (!view) return forward_error(view);
  return forward(index, *view, copies);
}

std::size_t Graph::find_output(std::string_view name, std::size_t position) const {
  const auto& specs = description().outputs;
  const auto found = std::ranges::find(specs, name, &TensorSpec::name);
  return found != specs.end() ? static_cast<std::size_t>(found - specs.begin()) : position;
}

Result<TensorView> Graph::output_shape(std::string_view name, std::size_t position) const {
  const std::size_t index = find_output(name, position);
  if (index >= outputs_.size() || !is_float(outputs_[index].type))
    return failure(fmt::format("a graph has no output '{}' of floats", name));
  return outputs_[index];
}

Result<TensorView> Graph::output(std::string_view name, std::size_t position) const {
  auto view = output_shape(name, position);
  if (view && view->data == nullptr) return failure(fmt::format("the output '{}' is not on the host", name));
  return view;
}

std::size_t Graph::bytes() const {
  std::size_t total = 0;
  for (const Bound& bound : bound_) total += bound.buffer.capacity();
  return total;
}

}  // namespace headroom::inference::vos
