// Its new_handler frees four blocks of 88807 bytes and throws an exception other than bad_alloc. Then it
// allocates a block of 88808 bytes.
#include <cstddef>
#include <new>
#include <stdexcept>

namespace {

void* hoard[4];
void* volatile kept;

void give_back_and_throw() {
  for (void*& block : hoard) {
    ::operator delete(block);
    block = nullptr;
  }
  throw std::runtime_error("too much");
}

}  // namespace

int main() {
  for (void*& block : hoard) block = ::operator new(88807);
  std::set_new_handler(give_back_and_throw);
  volatile std::size_t too_much = std::size_t{1} << 60;
  int caught = 0;
  try {
    kept = ::operator new(too_much);
  } catch (const std::runtime_error&) {
    ++caught;
  }
  kept = ::operator new(88808);
  return caught == 1 ? 0 : 1;
}
