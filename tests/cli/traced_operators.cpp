// The plain operators new and delete, over malloc, of which the standard library's other forms are made: a
// program's own, or those of a library that it is linked with. HEADROOM_OWN_NEW is the bytes that they put
// before each block: given to another operator delete it ends the program.
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
