// For large tables that are looked up anywhere: with pages of 4 KiB nearly every lookup in one of 80 MB waits
// for where its page is as well, which in a virtual machine is up to 24 reads.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <memory>
#include <vector>

namespace headroom::attribution {

// So many elements of their initial value, in pages of 2 MiB where the kernel gives them. That takes no more
// memory, as every page is written at once.
template <class Element>
std::vector<Element> in_huge_pages(std::size_t count) {
  constexpr std::size_t kHugePage = 2 << 20;
  std::vector<Element> elements;
  elements.reserve(count);
  void* begin = elements.data();
  std::size_t bytes = count * sizeof(Element);
  // A wish: where it is not granted, nothing changes.
  if (std::align(kHugePage, kHugePage, begin, bytes) != nullptr)
    ::madvise(begin, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
  elements.resize(count);
  return elements;
}

}  // namespace headroom::attribution
