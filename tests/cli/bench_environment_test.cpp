// The environment of the measured processes: fixed addresses, and no telemetry of the runtime.

#include <sys/personality.h>

#include "cli/bench_fixture.h"

namespace headroom::test {
namespace {

namespace fs = std::filesystem;
using BenchEnvironment = BenchTest;

constexpr const char* kFaceModel = "models/face_detection_front_128x128_barracuda.onnx";

Json measured(Bench& bench, const std::vector<std::string>& more, const CommandOptions& options) {
  const auto face = dependency_file(kFaceModel);
  EXPECT_THAT(bench.run(joined({{"--model", "face=" + face->string(), "--task", "none"}, more}), options),
              Ends(0));
  return model_of(bench.report(), "face");
}

// A container may forbid fixed addresses; then the report says so.
bool may_fix_addresses() {
  const auto before = static_cast<unsigned long>(::personality(0xffffffff));
  const bool may = ::personality(before | ADDR_NO_RANDOMIZE) >= 0;
  ::personality(before);
  return may;
}

bool are_random_here() {
  return (::personality(0xffffffff) & ADDR_NO_RANDOMIZE) == 0 &&
         !read_text("/proc/sys/kernel/randomize_va_space").starts_with("0");
}

TEST_F(BenchEnvironment, FixesAddressesAndTurnsTelemetryOffUnlessTheUserSetsThem) {
  if (!dependency_file(kFaceModel)) GTEST_SKIP() << absent_message("the face model");
  const fs::path home = bench_.path() / "home";
  fs::create_directories(home);
  CommandOptions options;
  options.environment = {{"HOME", home.string()}};
  Json face = measured(bench_, {}, options);
  EXPECT_EQ(face["memory"]["fixed_addresses"], may_fix_addresses() || !are_random_here());
  EXPECT_EQ(face["runtime_telemetry"], false);
  EXPECT_FALSE(fs::exists(home / ".cache/Microsoft"));
  options.environment.emplace_back("ORT_DISABLE_TELEMETRY", "0");
  face = measured(bench_, {"--aslr"}, options);
  EXPECT_EQ(face["memory"]["fixed_addresses"], !are_random_here());
  EXPECT_EQ(face["runtime_telemetry"], true);
}

}  // namespace
}  // namespace headroom::test
