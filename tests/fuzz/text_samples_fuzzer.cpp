// The readers of text logs with any bytes; the first byte selects the reader. Each line is returned once, and
// the size of a sample is bounded.
#include "base/text.h"
#include "fuzz.h"
#include "sources/text_samples.h"

void fuzz(std::string_view input) {
  if (input.empty()) return;
  const auto& names = headroom::sources::text_reader_names();
  const auto reader =
      headroom::sources::make_text_reader(names[static_cast<unsigned char>(input[0]) % names.size()]);
  const std::string_view text = input.substr(1);
  std::size_t samples = 0;
  const auto on_sample = [&](headroom::SystemSample& sample) {
    ++samples;
    if (sample.gpus.size() > input.size() || sample.unknown_tokens.size() > input.size()) std::abort();
    for (const auto& bytes : {sample.ram_total, sample.ram_free, sample.cma_free, sample.huge_pages_total})
      if (bytes && bytes->count < 0) std::abort();
  };
  for (const std::string_view line : headroom::split(text, '\n')) reader->read_line(line, on_sample);
  reader->finish(on_sample);
  if (samples > input.size()) std::abort();
}
