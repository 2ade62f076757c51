// `headroom bench --device cuda:N` with the fake driver of tests/support: a device whose memory is only
// numbers.
#include <gtest/gtest.h>

#include "cli/command.h"
#include "cli/diff_matchers.h"

namespace headroom::test {
namespace {

using testing::Contains;
using testing::HasSubstr;
[[maybe_unused]] constexpr std::int64_t kMiB = 1 << 20;

class BenchDevice : public testing::Test {
 protected:
  CommandResult run(Words words, bool with_driver = true) {
    CommandOptions options;
    if (with_driver) options.environment = driver_;
    words.insert(words.begin(),
                 {"--task", "none", "--max-frames", "5", "--warmup", "2", "--backend", "misbehaving"});
    return bench_.run(words, options);
  }
  std::string model(const std::string& name, const std::string& commands) {
    return name + "=" + bench_.model(name, commands);
  }
  Json gpu_of(const std::string& name) const {
    const Json list = get_member(model_of(bench_.report(), name), "gpu_memory");
    return list.is_array() && !list.empty() ? list[0] : Json();
  }
  void give_in_granules() { driver_.emplace_back("FAKE_CUDA_GRANULE", "2097152"); }

  Bench bench_;
  std::vector<std::pair<std::string, std::string>> driver_{
      {"LD_LIBRARY_PATH", test::built_path("tests/fake_cuda")}};
};

#ifndef HEADROOM_SANITIZED  // a sanitizer's runtime must be loaded before any preloaded library

TEST_F(BenchDevice, ReportsLedgerMemoryByPhaseAndDeviceLatency) {
  const CommandResult result =
      run({"--device", "cuda:1", "--model", model("m", "load device 64\nrun device 1")});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json gpu = gpu_of("m");
  EXPECT_EQ(get_text(gpu, "device"), "cuda:1");
  EXPECT_EQ(get_text(gpu, "name"), "Fake GPU 1");
  EXPECT_EQ(get_integer(gpu, "runtime_bytes"), 0);
  EXPECT_EQ(get_integer(gpu, "loaded_bytes"), 64 * kMiB);
  EXPECT_EQ(get_integer(gpu, "load_peak_bytes"), 64 * kMiB);
  EXPECT_EQ(get_integer(gpu, "run_peak_bytes"), 71 * kMiB) << "two to warm up, five measured";
  EXPECT_EQ(get_integer(gpu, "running_bytes"), 71 * kMiB);
  EXPECT_EQ(get_integer(gpu, "residual_bytes"), 0);
  EXPECT_EQ(get_integer(gpu, "limit_bytes"), std::nullopt);
  const Json m = model_of(bench_.report(), "m");
  EXPECT_EQ(get_integer(get_member(m, "device_latency_ns"), "p50"), 1'500'000);
  EXPECT_EQ(get_integer(get_member(m, "nodes"), "on_device"), 3);
  EXPECT_EQ(get_integer(get_member(m, "nodes"), "on_cpu"), 1);
  EXPECT_THAT(get_member(m, "warnings").dump(),
              HasSubstr("1 of 4 nodes run on the CPU, not on cuda:1: Shape"));
  EXPECT_THAT(result.out, HasSubstr("cuda:1"));
  EXPECT_THAT(read_text(bench_.run_folder() / "report.md"), HasSubstr("**Memory of cuda:1** (Fake GPU 1)"));
}

// The conductor has no model, so its recording would show nothing.
TEST_F(BenchDevice, ATraceFollowsTheWorker) {
  const std::pair<std::string, std::string> cases[] = {{"cpu", "load allocate 64"},
                                                       {"cuda:0", "load device 64"}};
  for (const auto& [device, commands] : cases) {
    CommandOptions options;
    options.environment = driver_;
    options.environment.emplace_back("HEADROOM_BACKEND_PATH", test::built_path("test-plugins"));
    options.folder = bench_.path();
    const std::string file = (bench_.path() / device).string() + ".hrec";
    const CommandResult result = run_headroom(
        {"trace", "--out", file, "--", test::built_path("bin/headroom"), "bench", "--backend", "misbehaving",
         "--task", "none", "--max-frames", "2", "--device", device, "--model", model("m", commands)},
        options);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.err, HasSubstr(" (worker of headroom bench with the largest peak)"));
    EXPECT_THAT(result.err, HasSubstr("headroom bench --layers records each model in a separate process"));
    const bool shows_gpu = result.err.find("GPU 0        Fake GPU 0: peak 64.0 MiB") != std::string::npos;
    EXPECT_EQ(shows_gpu, device != "cpu") << result.err;
  }
}

TEST_F(BenchDevice, ReportsGpuMemoryOfAPipeline) {
  ASSERT_THAT(run({"--device", "cuda:0", "--pipeline", "--model", model("one", "load device 16"), "--model",
                   model("two", "load device 32")}),
              Ends(0));
  const Json report = bench_.report();
  const Json& gpus = get_member(get_member(report, "pipeline"), "gpu_memory");
  ASSERT_EQ(gpus.size(), 1U);
  EXPECT_EQ(get_integer(gpus[0], "run_peak_bytes"), 48 * kMiB);
}

// A plan for a GPU uses figures from a GPU, and rejects figures measured on the CPU.
TEST_F(BenchDevice, PlansAGpuFromTheModelThatRanOnIt) {
  ASSERT_THAT(run({"--model", model("on", "load device 64\nrun device 1") + ",device=cuda", "--model",
                   model("off", "")}),
              Ends(0));
  EXPECT_EQ(get_text(gpu_of("on"), "device"), "cuda:0");
  const Json off_gpu = model_of(bench_.report(), "off");
  for (const char* key : {"gpu_memory", "device_latency_ns", "nodes"})
    EXPECT_FALSE(off_gpu.contains(key)) << key;
  const auto plan_for = [&](const std::string& name) {
    const auto budget = bench_.path() / (name + ".toml");
    write_text(budget, "[[component]]\nname = \"a\"\nmodel = \"" + name + "\"\n");
    return run_headroom({"plan", budget.string(), "--device", "rtx-3060", "--headless", "--footprints",
                         bench_.run_folder().string(), "--json"});
  };
  const CommandResult on = plan_for("on");
  EXPECT_THAT(on, Ends(0));
  const Json gpu = gpu_of("on");
  const std::int64_t of_driver =
      get_integer(get_member(gpu, "process"), "running_bytes").value_or(71 * kMiB) - 71 * kMiB;  // by NVML
  EXPECT_EQ(get_integer(json_of(on), "peak_bytes"), 71 * kMiB + std::max<std::int64_t>(0, of_driver));
  EXPECT_THAT(plan_for("off"), IsRefused(HasSubstr("no GPU measurement of off")));
}

// On an integrated GPU, the --gpu-mem-limit-gb alias also limits host memory. This test has no device tree,
// so the driver reports that the GPU is integrated.
TEST_F(BenchDevice, AliasLimitsHostMemoryOnAnIntegratedGpu) {
  for (const bool is_integrated : {false, true}) {
    if (is_integrated) driver_.emplace_back("FAKE_CUDA_INTEGRATED", "1");
    const CommandResult result =
        run({"--device", "cuda:0", "--gpu-mem-limit-gb", "1", "--model", model("m", "load device 64")});
    const Json report = bench_.report();
    EXPECT_EQ(get_integer(get_member(report, "gpu_limit"), "bytes"), 1024 * kMiB) << result.err;
    EXPECT_EQ(get_integer(get_member(report, "limit"), "bytes"),
              is_integrated ? std::optional(1024 * kMiB) : std::nullopt);
  }
}

TEST_F(BenchDevice, ReportsOomOnlyForTheModelOverTheLimit) {
  give_in_granules();
  const CommandResult result =
      run({"--device", "cuda:0", "--gpu-mem-limit", "100MiB", "--model", model("small", "load device 90"),
           "--model", model("large", "load device 128"), "--model",
           model("grows", "load device 90\nrun device 3"), "--model", model("after", "load device 100")});
  EXPECT_EQ(result.exit_code, 1) << result.err;
  const Json report = bench_.report();
  const Json& limit = get_member(report, "gpu_limit");
  EXPECT_EQ(get_text(limit, "type"), "hard") << limit;
  EXPECT_EQ(get_text(limit, "mechanism"), "device_ledger");
  EXPECT_EQ(get_integer(limit, "bytes"), 100 * kMiB);
  EXPECT_EQ(get_member(limit, "routes").size(), 13U);
  for (const Json& route : get_member(limit, "routes"))
    EXPECT_EQ(get_text(route, "outcome"), "refused") << route;
  for (const char* name : {"small", "after"}) {
    EXPECT_EQ(get_text(model_of(report, name), "status"), "ok") << name;
    EXPECT_EQ(get_bool(gpu_of(name), "within_limit"), true) << name;
  }
  EXPECT_THAT(result.out, HasSubstr("GPU memory stayed inside the hard limit of 100.0 MiB"));
  const Json large = model_of(report, "large");
  EXPECT_EQ(get_text(large, "status"), "oom");
  EXPECT_EQ(get_text(large, "died_in"), "runtime_loaded");
  EXPECT_THAT(get_text(large, "error"),
              HasSubstr("cuda:0 refused 128.0 MiB at its limit of 100.0 MiB (0 B in use"));
  EXPECT_EQ(get_integer(gpu_of("large"), "refused"), 1);
  const Json grows = model_of(report, "grows");
  EXPECT_EQ(get_text(grows, "status"), "oom");
  EXPECT_EQ(get_bool(gpu_of("grows"), "within_limit"), false);
}

// A route that ends with an error other than out of memory proves nothing, either.
TEST_F(BenchDevice, DoesNotTryARouteThatTheDriverLacks) {
  give_in_granules();
  driver_.emplace_back("FAKE_CUDA_INTEGRATED", "1");  // an integrated device is charged by the byte
  for (const std::string code : {"801", "1"}) {
    driver_.emplace_back("FAKE_CUDA_MANAGED", code);
    run({"--device", "cuda:0", "--gpu-mem-limit", "100MiB", "--model", model("small", "load device 90")});
    driver_.pop_back();
    const Json report = bench_.report();
    const Json& limit = get_member(report, "gpu_limit");
    EXPECT_EQ(get_text(limit, "type"), "hard") << limit;
    for (const Json& route : get_member(limit, "routes")) {
      const std::string name = get_text(route, "name");
      const bool is_there = name != "managed" && name != "granules";
      EXPECT_EQ(get_text(route, "outcome"), is_there ? "refused" : "not_tried") << code << ' ' << route;
      if (name == "managed" && code == "1") {
        EXPECT_THAT(get_text(route, "detail"), HasSubstr("the driver answered "));
      }
    }
  }
}

TEST_F(BenchDevice, ProbesTheLimitOfEachDevice) {
  give_in_granules();
  EXPECT_THAT(run({"--gpu-mem-limit", "0=100MiB,1=50MiB", "--model",
                   model("first", "load device 90") + ",device=cuda:0", "--model",
                   model("second", "load device 60") + ",device=cuda:1"}),
              Ends(1));
  const Json report = bench_.report();
  const Json& limit = get_member(report, "gpu_limit");
  EXPECT_EQ(get_text(limit, "type"), "hard") << limit;
  EXPECT_EQ(get_member(limit, "routes").size(), 26U);
  EXPECT_EQ(get_text(get_member(limit, "routes").at(0), "name"), "cuda:0 device");
  EXPECT_EQ(get_text(get_member(limit, "routes").at(13), "name"), "cuda:1 device");
  for (const Json& route : get_member(limit, "routes"))
    EXPECT_EQ(get_text(route, "outcome"), "refused") << route;
  EXPECT_EQ(get_text(limit, "note"), "cuda:1 has 50.0 MiB");
  EXPECT_EQ(get_text(model_of(report, "first"), "status"), "ok");
  EXPECT_EQ(get_text(model_of(report, "second"), "status"), "oom");
}

TEST_F(BenchDevice, SharesOneLimitBetweenParallelModels) {
  EXPECT_THAT(run({"--device", "cuda:0", "--gpu-mem-limit", "100MiB", "--parallel", "--model",
                   model("one", "load device 60\nrun sleep 20"), "--model",
                   model("two", "load device 60\nrun sleep 20")}),
              Ends(1));
  const Json report = bench_.report();
  for (const char* name : {"one", "two"}) EXPECT_EQ(get_text(model_of(report, name), "status"), "ok") << name;
  const Json& parallel = get_member(report, "parallel");
  int came_through = 0;
  for (const Json& model : get_member(parallel, "together"))
    came_through += get_text(model, "status") == "ok" ? 1 : 0;
  EXPECT_EQ(came_through, 1);
  const Json& gpus = get_member(parallel, "gpu_memory");
  ASSERT_EQ(gpus.size(), 1U);
  EXPECT_EQ(get_integer(gpus[0], "joint_peak_bytes"), 60 * kMiB);
  EXPECT_EQ(get_integer(gpus[0], "sum_of_peaks_bytes"), 120 * kMiB);
  EXPECT_EQ(get_integer(gpus[0], "limit_bytes"), 100 * kMiB);
}

TEST_F(BenchDevice, NeedsThePreloadLibraryForFiguresAndLimits) {
  driver_.emplace_back("HEADROOM_TRACER", "/nonexistent/library.so");
  Words words{"--device", "cuda:0", "--parallel", "--model", model("m", "load device 8")};
  ASSERT_THAT(run(words), Ends(0));
  const Json report = bench_.report();
  EXPECT_FALSE(gpu_of("m").contains("run_peak_bytes"));
  EXPECT_EQ(get_text(gpu_of("m"), "device"), "cuda:0");
  EXPECT_THAT(model_of(report, "m").dump(), HasSubstr("memory on cuda:0 is unknown"));
  EXPECT_FALSE(get_member(get_member(report, "parallel"), "gpu_memory")[0].contains("joint_peak_bytes"));
  words.insert(words.end(), {"--gpu-mem-limit", "1GiB"});
  EXPECT_THAT(run(words),
              IsRefused(HasSubstr("cannot use the preload library /nonexistent/libheadroom_trace_gpu.so")));
}

TEST_F(BenchDevice, NamesAMissingDeviceOrDriver) {
  for (const bool with_driver : {true, false}) {
    EXPECT_THAT(run({"--device", "cuda:5", "--model", model("m", "")}, with_driver), Ends(1));
    EXPECT_THAT(
        get_text(model_of(bench_.report(), "m"), "error"),
        HasSubstr(with_driver ? "there is no such device" : "CUDA driver not found (libcuda.so.1); install"));
  }
}

// The packed ONNX Runtime can load a CUDA provider, but none is installed next to it.
TEST_F(BenchDevice, NamesThePlaceOfAMissingOnnxRuntimeProvider) {
  const auto mnist = shared_data("models/mnist.onnx");
  if (!mnist) GTEST_SKIP() << absent_message("the shared models");
  EXPECT_THAT(run({"--device", "cuda:0", "--model", "m=" + mnist->string() + ",backend=onnxruntime"}),
              Ends(1));
  EXPECT_THAT(get_text(model_of(bench_.report(), "m"), "error"),
              testing::AnyOf(HasSubstr("libonnxruntime_providers_cuda.so is missing next to"),
                             HasSubstr("was built without the CUDA provider")));
}

#endif

TEST_F(BenchDevice, RejectsWrongUseBeforeAnythingRuns) {
  const std::string m = model("m", "");
  const auto error_of = [&](const Words& words) {
    const CommandResult result = run(joined({words, {"--model", m}}));
    EXPECT_THAT(result, Ends(2));
    return result.err;
  };
  EXPECT_THAT(error_of({"--device", "gpu"}), HasSubstr("unknown device 'gpu'"));
  EXPECT_THAT(error_of({"--device", "cuda:64"}), HasSubstr("cuda:N with N from 0 to 63"));
  EXPECT_THAT(error_of({"--gpu-mem-limit", "1GiB"}), HasSubstr("no model runs on a GPU"));
  EXPECT_THAT(error_of({"--device", "cuda", "--gpu-mem-limit", "much"}), HasSubstr("invalid GPU limit much"));
  EXPECT_THAT(error_of({"--device", "cuda", "--gpu-mem-limit", "1GiB", "--gpu-mem-limit-gb", "1"}),
              HasSubstr("cannot be combined"));
  EXPECT_THAT(error_of({"--capture-graph"}), HasSubstr("has no effect"));
}

}  // namespace
}  // namespace headroom::test
