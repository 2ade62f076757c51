// Everything that a person can ask of `headroom bench`, after command line, environment and configuration
// file have been merged. Plain data; defaults are the reference's.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/terminal.h"
#include "base/units.h"
#include "model/limit.h"
#include "model/runtime_settings.h"
#include "model/source.h"

namespace headroom {

// The reference's four slots, in order: --model0 … --model3.
inline constexpr std::array<std::string_view, 4> kModelSlots{"yolo11n_rgb", "yolo11s_rgb", "yolo11n_thermal",
                                                             "yolov8n_thermal"};

struct ModelSpec {
  std::string name;
  std::string path;
  std::string backend;  // empty: by extension and availability
  std::string task;     // empty: recognised
  // Absent: those of all models.
  std::optional<double> confidence{}, iou{};
  std::string device{};                        // empty: that of all
  Precision precision = Precision::automatic;  // automatic: that of all
  std::int64_t every = 1;                      // with a pool: of every Nth frame
  bool isolated = false;                       // with a pool: in a process of its own
  std::string settings{};                      // of its runtime, "arena=off,prepack=off" (set_by_words)
  friend bool operator==(const ModelSpec&, const ModelSpec&) = default;
};

struct BenchOptions {
  std::vector<ModelSpec> models;
  std::vector<std::string> skipped_slots;  // slots of the reference without a path
  std::optional<SourceSpec> source;

  std::string backend;  // forced for all models; empty: by extension and availability
  std::string task;     // forced for all models; empty: recognised
  std::string device = "cpu";
  Precision precision = Precision::automatic;
  ConvSearch conv_search = ConvSearch::exhaustive;  // of models on a GPU
  bool capture_graph = false;                       // likewise
  int image_size = 640;
  double confidence = 0.25;
  double iou = 0.45;
  std::int64_t max_frames = 300;  // per sequence
  std::int64_t warmup_frames = 10;
  // Absent: as many as fit into 16 MiB (a full HD frame is 6 MiB), at most 600 as in the reference.
  std::optional<std::int64_t> max_frames_in_memory;
  std::int64_t limit_videos = 0;   // 0: no limit
  std::int64_t limit_objects = 0;  // 0: no limit
  int threads = 0;                 // 0: the runtime's own choice

  std::optional<Bytes> memory_limit;
  std::string gpu_memory_limit;          // as it was given: "4GiB", "0=4GiB,1=8GiB"; empty: none
  std::string limit_mechanism = "auto";  // auto, cgroup, rlimit, watchdog, none
  bool strict = false;                   // a violation of the limit is exit 1
  Bytes workspace = mebibytes(256);      // bound of the setup phase's own scratch memory
  Nanoseconds timeout{120'000'000'000};  // without a sign of life from a worker

  bool tune = false;
  bool parallel = false;
  bool pipeline = false;
  std::optional<Bytes> pool;  // also all models in one process, whose memory a pool keeps inside this
  std::optional<std::int64_t> pool_threads;  // that ask the pool for models at the same time; absent: one
  bool layers = false;
  std::string in_step;  // by this name another run takes turns with this one, frame by frame; empty: none
  bool aslr = false;    // processes at random addresses, as the kernel has it
  int repeat = 1;       // runs, one after the other, each with a folder of its own
  bool skip_setup = false;
  bool skip_inference = false;

  std::string prepared_dir = "./preprocessed_data";
  std::string output_dir = "outputs";
  Nanoseconds metrics_interval{500'000'000};
  int sample_images = 3;  // annotated images per model; 0: none
  bool verbose = false;
  bool quiet = false;
  bool json = false;  // print report.json on stdout
  ColorMode color = ColorMode::automatic;
  friend bool operator==(const BenchOptions&, const BenchOptions&) = default;
};

}  // namespace headroom
