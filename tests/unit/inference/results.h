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

// The error; a success ends the test.
template <class T>
Error error_of(const Result<T>& result) {
  if (result) throw std::runtime_error("it succeeded, but an error was expected");
  return result.error();
}

}  // namespace headroom::test
