// A model with several inputs and outputs, found by name. Binds memory only when its address or shape
// changes, so that runs with the same shapes allocate nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <new>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "inference/backend.h"
#include "types/tensor.h"

namespace headroom::inference::vos {

// Allocates large buffers in pages of their own. A GPU's plug-in pins the memory of inputs, and a page can be
// pinned only once; otherwise it copies the input once more in each run. The largest pages of Linux on a GPU
// machine have 64 KiB.
template <class T>
struct OwnPages {
  using value_type = T;
  static constexpr std::size_t kPage = 64 * 1024;
  OwnPages() = default;
  template <class Other>
  OwnPages(const OwnPages<Other>&) {
  }  // NOLINT(google-explicit-constructor): as the standard library wants it
  T* allocate(std::size_t count) {
    const std::size_t bytes = count * sizeof(T);
    if (bytes < kPage) return static_cast<T*>(::operator new(bytes));
    return static_cast<T*>(::operator new ((bytes + kPage - 1) / kPage * kPage, std::align_val_t{kPage}));
  }
  void deallocate(T* memory, std::size_t count) {
    if (count * sizeof(T) < kPage) return ::operator delete(memory);
    ::operator delete (memory, std::align_val_t{kPage});
  }
  friend bool operator==(const OwnPages&, const OwnPages&) { return true; }
};

class Graph {
 public:
  using Dims = std::vector<std::int64_t>;
  explicit Graph(Session session);

  const ModelDescription& description() const { return session_.description(); }
  std::optional<std::size_t> find_input(std::string_view name) const;
  const TensorSpec& input(std::size_t index) const { return description().inputs[index]; }
  // Size of an input's dimension, if the graph fixes it.
  std::optional<std::int64_t> fixed_dim(std::size_t input, std::size_t dim) const;

  // Gives the input a buffer of this shape and binds it. The content is kept while the shape stays the same;
  // otherwise it is zeros. Returns true if the shape is new.
  Result<bool> shape_input(std::size_t index, std::span<const std::int64_t> dims);
  Result<bool> shape_input(std::size_t index, std::initializer_list<std::int64_t> dims) {
    return shape_input(index, std::span(dims.begin(), dims.size()));
  }
  // Writes numbers into the buffer from element `at` on, in the input's type.
  void write(std::size_t index, std::size_t at, std::span<const float> values);
  // The same for `count` floats of `type`.
  void write(std::size_t index, std::size_t at, const void* values, ElementType type, std::size_t count);
  void fill(std::size_t index, float value);
  // Elements of the input's bound shape.
  std::int64_t elements(std::size_t index) const { return element_count(bound_[index].dims); }
  // The buffer itself, for inputs that are filled in their own type.
  std::byte* buffer(std::size_t index) { return bound_[index].buffer.data(); }
  // Binds values on the host: directly, or a copy if the types differ. `copies` above 1 repeats them along
  // the first dimension, which is 1.
  Status forward(std::size_t index, const TensorView& output, std::int64_t copies = 1);
  // Binds the output of a graph that has run and outlives this one. With `may_link` and a backend that can,
  // it stays on the device: from.output() then has no data.
  Status forward(std::size_t index, Graph& from, std::string_view name, std::size_t position, bool may_link,
                 std::int64_t copies = 1);

  Status run();
  bool has_run() const { return has_run_; }
  // After a run: the output of this name; of graphs without names (TorchScript) the one at `position`.
  Result<TensorView> output(std::string_view name, std::size_t position) const;
  // The same for its shape alone, also of an output that stays on the device.
  Result<TensorView> output_shape(std::string_view name, std::size_t position) const;

  Status trim() { return session_.trim(); }
  std::size_t bytes() const;

 private:
  struct Bound {
    std::vector<std::byte, OwnPages<std::byte>> buffer;
    const void* data = nullptr;
    Dims dims;
    const Graph* from = nullptr;  // the graph to whose output it is linked
    std::size_t output = 0;
  };
  Status bind(std::size_t index, void* data, ElementType type);
  std::size_t find_output(std::string_view name, std::size_t position) const;

  Session session_;
  std::vector<Bound> bound_;
  std::vector<TensorView> outputs_;
  Dims scratch_dims_;
  bool has_run_ = false;
};

}  // namespace headroom::inference::vos
