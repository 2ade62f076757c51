#include "types/tensor.h"

#include <gtest/gtest.h>

namespace headroom {
namespace {

TEST(TensorSpec, DescribesStaticAndNamedDimensions) {
  TensorSpec spec{"images", ElementType::float32, {1, 3, -1, 640, -1}, {"", "", "height", "", ""}};
  EXPECT_EQ(spec.describe(), "float32[1,3,height,640,?]");
  EXPECT_FALSE(spec.is_static());
}

TEST(TensorSpec, ScalarIsStatic) {
  TensorSpec spec{"sr", ElementType::int64, {}, {}};
  EXPECT_TRUE(spec.is_static());
  EXPECT_EQ(spec.describe(), "int64[]");
  EXPECT_EQ(element_count(spec.dims), 1);
}

TEST(ElementCount, IsZeroForDynamicAndForOverflow) {
  EXPECT_EQ(element_count({1, -1, 3}), 0);
  EXPECT_EQ(element_count({1LL << 40, 1LL << 40}), 0);
  EXPECT_EQ(element_count({2, 3, 4}), 24);
}

TEST(ElementType, EveryTypeHasANameAndASize) {
  for (int i = 1; i <= 13; ++i) {
    const auto type = static_cast<ElementType>(i);
    EXPECT_NE(name_of(type), "unknown") << i;
    EXPECT_GT(size_of(type), 0U) << i;
  }
  EXPECT_EQ(size_of(ElementType::string), 0U);
}

}  // namespace
}  // namespace headroom
