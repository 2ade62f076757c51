// Results in tests.
#pragma once

#include <gtest/gtest.h>

#include <stdexcept>
#include <utility>

#include "base/result.h"

namespace headroom::test {

// The value; an error ends the test with its sentence.
template <class T>
T value_of(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().sentence());
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

}  // namespace headroom::test
