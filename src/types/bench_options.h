// All options of `headroom bench`, merged from command line, environment and configuration file. Plain data.
// The defaults match the older tool that the compatibility aliases come from.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/terminal.h"
#include "base/units.h"
#include "types/limit.h"
#include "types/runtime_settings.h"
#include "types/source.h"
#include "types/vos_run.h"

namespace headroom {

// The four model slots of the compatibility aliases --model0 … --model3, in order.
inline constexpr std::array<std::string_view, 4> kModelSlots{"yolo11n_rgb", "yolo11s_rgb", "yolo11n_thermal",
                                                             "yolov8n_thermal"};

struct ModelSpec {
  std::string name;
  std::string path;
  std::string backend;  // empty: chosen by file extension and availability
  std::string task;     // empty: detected from the model
  // Absent: use the values for all models.
  std::optional<double> confidence{}, iou{};
  std::string device{};                        // empty: the device of all models
  Precision precision = Precision::automatic;  // automatic: the precision of all models
  std::int64_t every = 1;                      // with a pool: the model runs on every Nth frame
  bool isolated = false;                       // with a pool: the model runs in a separate process
  std::optional<PromptKind> prompt{};          // with --task vos; absent: the prompt of all models
  std::string settings{};                      // runtime settings, "arena=off,prepack=off" (set_settings)
  friend bool operator==(const ModelSpec&, const ModelSpec&) = default;
};

struct BenchOptions {
  std::vector<ModelSpec> models;
  std::vector<std::string> skipped_slots;  // compatibility slots without a path
  std::optional<SourceSpec> source;
  std::optional<VosOptions> vos{};  // --task vos

  std::string backend;  // forced for all models; empty: chosen by file extension and availability
  std::string task;     // forced for all models; empty: detected
  std::string device = "cpu";
  Precision precision = Precision::automatic;
  ConvSearch conv_search = ConvSearch::exhaustive;  // for models on a GPU
  bool capture_graph = false;                       // for models on a GPU
  int image_size = 640;
  double confidence = 0.25;
  double iou = 0.45;
  std::int64_t max_frames = 300;  // in each sequence
  std::int64_t warmup_frames = 10;
  // Absent: as many as fit into 16 MiB (a full HD frame takes 6 MiB), at most 600.
  std::optional<std::int64_t> max_frames_in_memory;
  std::int64_t limit_videos = 0;   // 0: no limit
  std::int64_t limit_objects = 0;  // 0: no limit
  int threads = 0;                 // 0: the runtime chooses

  std::optional<Bytes> memory_limit;
  std::string gpu_memory_limit;          // as typed: "4GiB", "0=4GiB,1=8GiB"; empty: none
  std::string limit_mechanism = "auto";  // auto, cgroup, rlimit, watchdog, none
  bool strict = false;                   // exit code 1 if the limit is exceeded
  Bytes workspace = mebibytes(256);      // bound of the setup phase's scratch memory
  Nanoseconds timeout{120'000'000'000};  // maximum time without a message from a worker

  bool tune = false;
  bool parallel = false;
  bool pipeline = false;
  std::optional<Bytes> pool;  // budget of --pool: all models run in one process whose memory stays within it
  std::optional<std::int64_t> pool_threads;  // threads that request models concurrently; absent: one
  bool layers = false;
  std::string in_step;  // name under which two runs alternate frame by frame; empty: none
  bool aslr = false;    // true: keep the kernel's address-space randomization
  int repeat = 1;       // number of runs, one after the other, each with its own folder
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
