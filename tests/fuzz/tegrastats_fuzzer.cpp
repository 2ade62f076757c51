// read_tegrastats_line with any bytes: every figure is finite and valid, and every byte other than white
// space belongs to a field or to an unknown token.
#include <cmath>

#include "base/text.h"
#include "fuzz.h"
#include "sources/tegrastats_reader.h"

namespace {

void check(const std::vector<headroom::Reading>& readings, std::string_view line) {
  for (const headroom::Reading& reading : readings)
    require(std::isfinite(reading.value) && reading.name.size() <= line.size() + 16);
}

}  // namespace

void fuzz(std::string_view text) {
  headroom::SystemSample sample;
  for (const std::string_view line : headroom::split(text, '\n')) {
    const bool understood = headroom::sources::read_tegrastats_line(line, sample);
    const std::size_t words = headroom::split_words(line).size();
    require(sample.unknown_tokens.size() <= words);
    if (!understood && sample.clock_text.empty()) require(sample.unknown_tokens.size() == words);
    for (const std::string& token : sample.unknown_tokens) require(line.find(token) != line.npos);
    for (const auto& bytes : {sample.ram_total, sample.ram_used, sample.swap_total, sample.swap_used,
                              sample.swap_cached, sample.largest_free_block})
      require(!bytes || bytes->count >= 0);
    check(sample.temperatures_celsius, line);
    check(sample.power_watts, line);
    check(sample.clocks_hz, line);
    require(sample.cores.size() <= line.size());
    // Parse the same line into a reused sample: nothing of the previous line may remain.
    headroom::SystemSample fresh;
    headroom::sources::read_tegrastats_line(line, fresh);
    require(fresh == sample);
  }
}
