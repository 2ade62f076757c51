// The items of a list with the largest figures.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace headroom::report {

// Indices of the items whose figure is above zero, the largest first, equal ones in the order of the list; at
// most `most`.
template <class Item, class Figure>
std::vector<std::size_t> ranked(const std::vector<Item>& items, Figure figure, std::size_t most) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < items.size(); ++i)
    if (figure(items[i]) > 0) order.push_back(i);
  const std::size_t count = std::min(order.size(), most);
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
                    [&](std::size_t a, std::size_t b) {
                      const auto left = figure(items[a]), right = figure(items[b]);
                      return left != right ? left > right : a < b;
                    });
  order.resize(count);
  return order;
}

}  // namespace headroom::report
