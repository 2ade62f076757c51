// The plain operators new and delete, built on malloc; the standard library's other forms call them. They
// belong to a program or to a library that it is linked with. They put HEADROOM_OWN_NEW bytes before each
// block, so another operator delete would crash the program.
#include <cstddef>
#include <cstdlib>
#include <new>

void* operator new(std::size_t size) {
  if (void* pointer = std::malloc(size + HEADROOM_OWN_NEW))
    return static_cast<char*>(pointer) + HEADROOM_OWN_NEW;
  throw std::bad_alloc();
}
void operator delete(void* pointer) noexcept {
  if (pointer != nullptr) std::free(static_cast<char*>(pointer) - HEADROOM_OWN_NEW);
}
void operator delete(void* pointer, std::size_t) noexcept { operator delete(pointer); }
