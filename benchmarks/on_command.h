// Runs a model on command, so that two programs can alternate without stopping one in the middle of a run
// with its work still on the GPU. Each line of standard input is a number: that many runs. The answer is one
// line of JSON with the times. `hooks` before the number uses the hooks of a preloaded tracer; `past`
// bypasses them (allocator_binding.h). The answer then includes the number of changed GOT entries.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <vector>

#include "allocator_binding.h"

// `timed_run` makes one run and returns its nanoseconds. Returns at the end of the input.
template <class TimedRun>
int run_on_command(const TimedRun& timed_run) {
  std::printf("{\"ready\":true}\n");
  std::fflush(stdout);
  char line[32];
  std::vector<std::int64_t> times;
  std::optional<AllocatorBinding> binding;
  while (std::fgets(line, sizeof line, stdin) != nullptr) {
    const char* number = line;
    for (const char* word : {"hooks ", "past "}) {
      if (std::strncmp(line, word, std::strlen(word)) != 0) continue;
      number = line + std::strlen(word);
      if (!binding) binding.emplace();
      word[0] == 'h' ? binding->to_hooks() : binding->past_hooks();
    }
    times.clear();
    for (int left = std::max(1, std::atoi(number)); left > 0; --left) times.push_back(timed_run());
    std::sort(times.begin(), times.end());
    std::printf("{\"n\":%zu,\"p50_ns\":%lld,\"min_ns\":%lld,\"places\":%zu}\n", times.size(),
                static_cast<long long>(times[times.size() / 2]), static_cast<long long>(times.front()),
                binding ? binding->places() : 0);
    std::fflush(stdout);
  }
  return 0;
}
