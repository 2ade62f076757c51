// Calls operator new in all forms, with distinct sizes (88801 …), and one allocation that fails.
//
//     traced_new [possible]
//
// With "possible" it skips the failing allocation: mimalloc, built as C, ends the program on it. Linked with
// traced_operators.cpp, the program has its own operators.
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <stdexcept>

namespace {

void* volatile kept;
struct alignas(128) Wide {
  char bytes[128];
};

}  // namespace

int main(int argc, char**) {
  kept = ::operator new(88801);
  ::operator delete(kept);
  kept = ::operator new(88802, std::nothrow);
  ::operator delete(kept, std::nothrow);
  kept = ::operator new[](88803);
  ::operator delete[](kept);
  kept = ::operator new[](88804, std::nothrow);
  ::operator delete[](kept);
  kept = ::operator new (88832, std::align_val_t{64});
  ::operator delete (kept, std::align_val_t{64});
  kept = ::operator new[](88896, std::align_val_t{64});
  ::operator delete[](kept, 88896, std::align_val_t{64});
  auto* wide = new Wide[700];  // 89600
  kept = wide;
  delete[] wide;

  // An exception passes through the hook, and later allocations are still recorded.
  volatile std::size_t too_much = std::size_t{1} << 60;
  int caught = argc > 1 ? 3 : 0;
  while (caught < 3) {
    try {
      kept = ::operator new(too_much);
    } catch (const std::bad_alloc&) {
      ++caught;
    }
  }
  kept = ::operator new(88805);
  ::operator delete (kept, std::size_t{88805});
  return caught == 3 ? 0 : 1;
}
