// The screen of `headroom top` as a pure function: the data and the user's choices → character cells.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tui/canvas.h"
#include "types/alert.h"
#include "types/sample.h"

namespace headroom::tui {

enum class Curve { memory, gpu, gpu_memory, cpu, stalls, swap };
inline constexpr int kCurves = 6;

// The value of a curve in percent; absent if the sample has no such figure.
//   memory      used part of MemTotal
//   gpu         GPU load
//   gpu_memory  used memory of the fullest discrete GPU
//   cpu         CPU load
//   stalls      time in which a task waited for memory (PSI "some", average of 10 s)
//   swap        used part of swap
std::optional<double> percent_of(Curve curve, const SystemSample& sample);

// The last kMost samples: 24 bytes each, 98 KiB in total.
class TopHistory {
 public:
  static constexpr std::size_t kMost = 4096;

  void add(const SystemSample& sample);
  void clear() { *this = {}; }
  bool has(Curve curve) const;
  // Returns `columns` values, the newest last. Each is the maximum of `samples_per_column` samples. A sample
  // always stays in the same column, so peaks do not flicker while the chart moves.
  std::vector<std::optional<double>> columns(Curve curve, int columns, int samples_per_column) const;

 private:
  struct Point {
    float percent[kCurves];  // negative: absent
  };
  std::deque<Point> points_;
  std::size_t added_ = 0;
};

struct TopPicture {
  const SystemSample* sample = nullptr;
  const TopHistory* history = nullptr;
  std::optional<Nanoseconds> since_before;  // the time since the previous sample, for rates
  std::vector<AlertEvent> alerts;           // active
  bool alerts_on = true;
  std::optional<double> seconds_left;      // until memory is exhausted at the current growth
  std::vector<KernelEvent> kernel_events;  // the last few
  std::optional<std::size_t> processes;    // number of processes of the machine
  std::string source;                      // host name or log file
  std::string clock;                       // "14:02:31"
  std::string pace;                        // "every 1 s", "replay ×4  12 of 600"
};

enum class ProcessColumn { memory, gpu, cpu, swap, oom_score, pid, name };
inline constexpr int kProcessColumns = 7;
std::string_view name_of(ProcessColumn column);
std::optional<ProcessColumn> process_column_by_name(std::string_view name);

struct TopChoice {
  ProcessColumn sort = ProcessColumn::memory;
  bool reversed = false;
  std::string filter;  // part of a name, a number or a user
  bool show_memory = true, show_machine = true, show_charts = true, show_processes = true;
  int samples_per_column = 1;  // charts
  bool ascii = false;          // for terminals without block characters
  bool interactive = true;     // has keys and a selected process

  std::optional<std::int64_t> selected;  // pid
  bool typing_filter = false, help = false, paused = false;
  std::optional<ProcessSample> to_signal;  // the user is choosing a signal for it
  std::string message;                     // result of the last key
  bool is_replay = false;
};

// The rows of the table: filtered and sorted.
std::vector<const ProcessSample*> rows_of(const SystemSample& sample, const TopChoice& choice);

// The number of processes that fit below the other panels.
int process_rows(const TopPicture& picture, const TopChoice& choice, int width, int height);

// draw_top_once() is for one-shot output: as high as needed for `processes` rows.
Canvas draw_top(const TopPicture& picture, const TopChoice& choice, int width, int height);
Canvas draw_top_once(const TopPicture& picture, const TopChoice& choice, int width, int processes);

}  // namespace headroom::tui
