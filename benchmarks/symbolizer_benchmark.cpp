// Measures how long symbol look-ups take: symbolizer_benchmark ADDRESSES FILE…
// Looks up ADDRESSES distinct addresses, evenly spread over the executable segments of the files, like a
// recording of a program that loaded all of them. Runs twice: all at once (prepare), and one by one in random
// order (frames_of), as a view does that looks up only what it shows.
#include <fcntl.h>
#include <fmt/format.h>
#include <gelf.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "base/text.h"
#include "base/units.h"
#include "symbols/debug_files.h"
#include "symbols/symbolizer.h"

namespace {

using namespace headroom;

constexpr std::uint64_t kModuleSpacing = std::uint64_t{4} << 30;

struct Code {
  std::uint64_t start = 0, size = 0;
};

std::vector<Code> executable_segments(const std::string& path) {
  std::vector<Code> segments;
  elf_version(EV_CURRENT);
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  Elf* elf = elf_begin(fd.get(), ELF_C_READ_MMAP, nullptr);
  std::size_t count = 0;
  if (elf_getphdrnum(elf, &count) != 0) count = 0;
  for (std::size_t i = 0; i < count; ++i) {
    GElf_Phdr header;
    if (gelf_getphdr(elf, static_cast<int>(i), &header) == nullptr) continue;
    if (header.p_type == PT_LOAD && (header.p_flags & PF_X) != 0)
      segments.push_back({header.p_vaddr, header.p_memsz});
  }
  elf_end(elf);
  return segments;
}

struct Input {
  std::vector<recording::Module> modules;
  std::vector<std::uint64_t> addresses;
};

Input make_input(const std::vector<std::string>& files, std::size_t addresses_in_all) {
  Input input;
  for (const std::string& file : files) {
    const auto elf = symbols::ElfFile::open(file);
    const auto segments = executable_segments(file);
    if (!elf || segments.empty()) continue;
    recording::Module module;
    module.path = file;
    module.build_id = elf->build_id();
    module.load_bias = module.start = kModuleSpacing * (input.modules.size() + 1);
    module.end = module.start + kModuleSpacing;
    input.modules.push_back(module);
  }
  const std::size_t each = addresses_in_all / std::max<std::size_t>(input.modules.size(), 1);
  for (const recording::Module& module : input.modules) {
    const auto segments = executable_segments(module.path);
    std::uint64_t total = 0;
    for (const Code& code : segments) total += code.size;
    for (std::size_t i = 0; i < each; ++i) {
      std::uint64_t at = i * total / each;
      for (const Code& code : segments) {
        if (at < code.size) {
          input.addresses.push_back(module.load_bias + code.start + at);
          break;
        }
        at -= code.size;
      }
    }
  }
  return input;
}

void report(const char* method, const Input& input, symbols::Symbolizer& symbolizer, Nanoseconds taken) {
  std::size_t named = 0, with_lines = 0, frames = 0;
  for (const std::uint64_t address : input.addresses) {
    const auto& found = symbolizer.frames_of(address, true);
    frames += found.size();
    named += found.back().named ? 1 : 0;
    with_lines += found.front().line > 0 ? 1 : 0;
  }
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const double count = static_cast<double>(std::max<std::size_t>(input.addresses.size(), 1));
  fmt::print(
      "{:<8} {:>4} modules {:>7} addresses {:>8.3f} s {:>8.2f} us each, {:.2f} frames each, {:.1f} % named, "
      "{:.1f} % with lines, peak {}\n",
      method, input.modules.size(), input.addresses.size(), taken.seconds(), taken.seconds() * 1e6 / count,
      static_cast<double>(frames) / count, 100 * static_cast<double>(named) / count,
      100 * static_cast<double>(with_lines) / count, format_bytes({usage.ru_maxrss * 1024}));
}

}  // namespace

int main(int count, char** arguments) {
  const auto wanted = count > 2 ? parse_number<std::size_t>(arguments[1]) : std::nullopt;
  if (!wanted) {
    fmt::print(stderr, "usage: {} ADDRESSES FILE…\n", arguments[0]);
    return 2;
  }
  Input input = make_input({arguments + 2, arguments + count}, *wanted);
  {
    symbols::Symbolizer symbolizer(input.modules);
    const Nanoseconds start = monotonic_now();
    symbolizer.prepare(input.addresses, true);
    report("prepare", input, symbolizer, monotonic_now() - start);
  }
  std::shuffle(input.addresses.begin(), input.addresses.end(), std::mt19937_64(1));
  symbols::Symbolizer symbolizer(input.modules);
  const Nanoseconds start = monotonic_now();
  for (const std::uint64_t address : input.addresses) symbolizer.frames_of(address, true);
  report("random", input, symbolizer, monotonic_now() - start);
  for (const std::string& problem : symbolizer.problems()) fmt::print(stderr, "{}\n", problem);
  return 0;
}
