#include "samples.h"

#include <array>
#include <cmath>

#include "base/json.h"
#include "page_text.h"
#include "report/run/report_json.h"
#include "support/test_support.h"
#include "unit/report/sample_results.h"

namespace headroom::test {

BenchResult sample_run() {
  BenchResult run = rich_run();
  run.options.emplace();
  run.options->memory_limit = run.limit->bytes;
  run.options->max_frames = 1000;
  run.models.erase(run.models.begin() + 2);
  ModelResult &tuned = run.models[0], &large = run.models[1];
  tuned.memory.cgroup_peak = mebibytes(54);
  tuned.confidence = 0.6, tuned.iou = 0.45;
  tuned.annotated_images = {"samples/yolox_nano_416/000.png", "samples/yolox_nano_416/001.png",
                            "samples/lost.png"};
  large.inference = latency(130'000, 300);
  large.annotated_images.clear();
  run.models[2].name = kHostileName;
  ModelResult skipped;
  skipped.name = "yolov8n_thermal", skipped.error = "no path was given for this slot";
  run.models.push_back(skipped);
  run.pool = pool_run().pool;
  return run;
}

void write_sample_images(const std::filesystem::path& run_folder) {
  // One grey pixel.
  constexpr std::array<unsigned char, 67> kPng{
      0x89, 'P',  'N',  'G',  '\r', '\n', 0x1a, '\n', 0,    0,    0,    0x0d, 'I',  'H',  'D',  'R',  0,
      0,    0,    1,    0,    0,    0,    1,    8,    0,    0,    0,    0,    0x3a, 0x7e, 0x9b, 0x55, 0,
      0,    0,    0x0a, 'I',  'D',  'A',  'T',  0x78, 0xda, 0x63, 0x68, 0,    0,    0,    0x82, 0,    0x81,
      0xda, 0x45, 0x08, 0x3b, 0,    0,    0,    0,    'I',  'E',  'N',  'D',  0xae, 0x42, 0x60, 0x82};
  const std::string bytes(kPng.begin(), kPng.end());
  std::filesystem::create_directories(run_folder / "samples/yolox_nano_416");
  write_text(run_folder / "samples/yolox_nano_416/000.png", bytes);
  write_text(run_folder / "samples/yolox_nano_416/001.png", bytes);
}

std::string sample_metrics(int seconds) {
  std::string lines;
  for (int i = 0; i < seconds * 2; ++i) {
    report::MetricsLine line;
    line.since_start = Nanoseconds{std::int64_t{500'000'000} * i};
    line.phase = "inference";
    line.model = i < seconds ? "yolox_nano_416" : "yolox_nano_1280";
    line.system.cpu_percent = 80 + 10 * std::sin(i / 5.0);
    line.system.ram_total = gibibytes(8);
    line.system.ram_used = mebibytes(1200 + i % 7 * 3);
    line.system.swap_used = Bytes{0};
    line.system.temperatures_celsius = {{"cpu-thermal", 50 + i / 20.0}, {"gpu-thermal", 47 + i / 30.0}};
    line.system.power_watts = {{"VDD_IN", 7 + std::cos(i / 9.0)}};
    report::NamedProcessMemory worker;
    worker.model = line.model, worker.pid = 4711, worker.phase = "warm";
    worker.memory.rss = mebibytes(48 + i % 5), worker.memory.rss_peak = mebibytes(53);
    line.processes.push_back(worker);
    lines += to_line(report::to_json(line)) + "\n";
  }
  return lines;
}

}  // namespace headroom::test
