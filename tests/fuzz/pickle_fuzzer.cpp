// The pickle reader with any bytes, plain or gzip: it reads them or reports an error. Memory and file give
// the same result, memory use is proportional to the size, and every value can be visited.
#include <unistd.h>

#include "fuzz.h"
#include "snapshot/pickle_reader.h"

namespace {

using namespace headroom::snapshot;

// Lists may contain themselves, or the same list a thousand times, so bound the number of visited values.
constexpr int kDeepest = 20;
constexpr std::size_t kMostLooked = 100'000;

std::size_t look_at(const PickleData& data, PickleValue value, int depth, std::size_t& looked) {
  if (depth > kDeepest || ++looked > kMostLooked) return 0;
  std::size_t sum = data.text(value).value_or("").size() +
                    static_cast<std::size_t>(data.integer(value).value_or(0)) + (data.real(value) ? 1 : 0) +
                    (data.boolean(value).value_or(false) ? 1 : 0);
  data.for_each_item(value, [&](PickleValue item) { sum += look_at(data, item, depth + 1, looked); });
  data.for_each_pair(value, [&](PickleValue key, PickleValue item) {
    sum += look_at(data, key, depth + 1, looked) + look_at(data, item, depth + 1, looked);
  });
  if (const auto row = data.row(value))
    if (row->values.size() != data.keys_of(row->shape).size()) std::abort();
  return sum;
}

}  // namespace

void fuzz(std::string_view text) {
  const InputFile file(text);
  auto input = PickleInput::open(file.path);
  if (!input) std::abort();
  PickleData file_data, memory_data;
  const auto from_file = read_pickle(*input, file_data);
  if (!from_file && from_file.error().why.empty()) std::abort();
  if (!input->is_gzip()) {
    PickleInput memory = PickleInput::of(text);
    const auto from_memory = read_pickle(memory, memory_data);
    if (from_file.has_value() != from_memory.has_value()) std::abort();
    if (!from_file && from_file.error().why != from_memory.error().why) std::abort();
  }
  if (from_file) {
    std::size_t looked = 0;
    (void)look_at(file_data, file_data.root(), 0, looked);
    // Some first pages, and 25 bytes per byte of input.
    constexpr std::size_t kFirstPages = 4 << 20, kMostPerByte = 160;
    if (!input->is_gzip() && file_data.storage_bytes() > kFirstPages + kMostPerByte * text.size())
      std::abort();
  }
}
