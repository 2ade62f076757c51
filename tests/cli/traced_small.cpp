// Many small allocations and a few large ones; prints its own counts:
//
//     traced_small [ROUNDS]
//
// "small-allocations small-bytes small-releases large-allocations large-bytes large-releases"
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {
void* volatile kept;
}

int main(int argc, char** argv) {
  const std::uint64_t rounds = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 200'000;
  std::vector<void*> slots(1024, nullptr);
  std::uint64_t figures[6] = {};
  std::uint64_t random = 1;
  std::vector<bool> is_large(slots.size(), false);
  const auto release = [&](std::size_t i) {
    if (slots[i] == nullptr) return;
    std::free(slots[i]);
    ++figures[is_large[i] ? 5 : 2];
  };
  for (std::uint64_t i = 0; i < rounds; ++i) {
    random = random * 6364136223846793005 + 1442695040888963407;
    const std::size_t slot = random >> 54;
    release(slot);
    const bool large = (random >> 40) % 100 == 0;
    const std::size_t size = large ? 4096 + (random >> 20) % 100'000 : 1 + (random >> 20) % 500;
    kept = slots[slot] = std::malloc(size);
    is_large[slot] = large;
    ++figures[large ? 3 : 0];
    figures[large ? 4 : 1] += size;
  }
  for (std::size_t i = 0; i < slots.size(); i += 2) {
    release(i);
    slots[i] = nullptr;
  }
  for (const std::uint64_t figure : figures) std::printf("%llu ", static_cast<unsigned long long>(figure));
  std::printf("\n");
}
