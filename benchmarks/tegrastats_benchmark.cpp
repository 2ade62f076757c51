// How fast lines of tegrastats are parsed, in bytes per second: the lines of the tests' corpus, one after
// another.
#include <benchmark/benchmark.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/files.h"
#include "sources/tegrastats_reader.h"

namespace {

using namespace headroom;

void read_lines(benchmark::State& state) {
  std::vector<std::string> lines;
  for (const auto& entry : std::filesystem::directory_iterator(HEADROOM_TEGRASTATS_CORPUS))
    if (auto text = read_file(entry.path())) lines.push_back(*text);
  if (lines.empty()) return state.SkipWithError("corpus not found");
  std::int64_t bytes = 0;
  SystemSample sample;
  std::size_t next = 0;
  for (auto _ : state) {
    const std::string& line = lines[next];
    next = next + 1 == lines.size() ? 0 : next + 1;
    benchmark::DoNotOptimize(sources::read_tegrastats_line(line, sample));
    bytes += static_cast<std::int64_t>(line.size());
  }
  state.SetBytesProcessed(bytes);
}
BENCHMARK(read_lines);

}  // namespace

BENCHMARK_MAIN();
