// The readers of text logs with any bytes; the first byte selects the reader. Each line is returned once, and
// the size of a sample is bounded.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/text.h"
#include "sources/text_samples.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto& names = headroom::sources::text_reader_names();
  const auto reader = headroom::sources::make_text_reader(names[data[0] % names.size()]);
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  std::size_t samples = 0;
  const auto on_sample = [&samples, size](headroom::SystemSample& sample) {
    ++samples;
    if (sample.gpus.size() > size || sample.unknown_tokens.size() > size) std::abort();
    for (const auto& bytes : {sample.ram_total, sample.ram_free, sample.cma_free, sample.huge_pages_total})
      if (bytes && bytes->count < 0) std::abort();
  };
  for (const std::string_view line : headroom::split(text, '\n')) reader->read_line(line, on_sample);
  reader->finish(on_sample);
  if (samples > size) std::abort();
  return 0;
}
