// Runs a fuzz target without libFuzzer: every file of the corpus folder, and then random mutations of them
// from a fixed seed. So every ordinary test run exercises every reader.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

constexpr int kMutationsPerFile = 300;

std::vector<std::uint8_t> mutate(std::vector<std::uint8_t> bytes, std::mt19937& random) {
  const auto below = [&](std::size_t n) { return n == 0 ? 0 : random() % n; };
  for (std::size_t edits = 1 + below(8); edits > 0; --edits) {
    const std::size_t at = below(bytes.size());
    const auto here = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    switch (below(5)) {
      case 0:
        if (!bytes.empty()) bytes[at] = static_cast<std::uint8_t>(random());
        break;
      case 1:
        bytes.insert(here, static_cast<std::uint8_t>(random()));
        break;
      case 2:
        bytes.resize(at);
        break;
      case 3:
        if (!bytes.empty()) bytes[at] ^= static_cast<std::uint8_t>(1U << below(8));
        break;
      default: {
        const std::vector<std::uint8_t> copy(here, bytes.end());
        bytes.insert(here, copy.begin(), copy.end());
        if (bytes.size() > 1'000'000) bytes.resize(1'000'000);
      }
    }
  }
  return bytes;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 2) {
    std::fprintf(stderr, "usage: %s CORPUS_FOLDER\n", arguments[0]);
    return 2;
  }
  std::mt19937 random(20261121);
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(arguments[1])) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    const std::vector<std::uint8_t> bytes{std::istreambuf_iterator<char>(file), {}};
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
    for (int i = 0; i < kMutationsPerFile; ++i) {
      const auto mutated = mutate(bytes, random);
      LLVMFuzzerTestOneInput(mutated.data(), mutated.size());
    }
    ++files;
  }
  std::printf("%d corpus files, %d inputs\n", files, files * (kMutationsPerFile + 1));
  return files > 0 ? 0 : 1;
}
