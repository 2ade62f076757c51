#include "types/bench_result.h"

#include <gtest/gtest.h>

namespace headroom {
namespace {

TEST(BenchResult, NamesOfStatusAndPhaseParseBack) {
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(parse_model_status(name_of(static_cast<ModelStatus>(i))), static_cast<ModelStatus>(i));
    EXPECT_EQ(parse_phase(name_of(static_cast<Phase>(i))), static_cast<Phase>(i));
  }
  EXPECT_FALSE(parse_model_status("fine"));
  EXPECT_FALSE(parse_phase(""));
}

}  // namespace
}  // namespace headroom
