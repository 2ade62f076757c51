// A recording with given events, and the output of an exporter for it.
#pragma once

#include <functional>
#include <string>

#include "exporters/exporter_list.h"
#include "support/recording_builder.h"
#include "support/test_support.h"

namespace headroom::exporters {

class ExportFixture {
 public:
  using Fill = std::function<void(test::RecordingBuilder&)>;
  explicit ExportFixture(const Fill& fill, test::RecordingOptions options = {});

  // The output of `--to format`; fails the test if there is none.
  std::string write(std::string_view format, std::optional<Metric> metric = {});
  Status try_write(std::string_view format, std::optional<Metric> metric, const std::filesystem::path& file);
  recording::Recording& recording() { return *recording_; }
  std::filesystem::path path(const std::string& name) const { return folder_ / name; }

 private:
  test::TemporaryFolder folder_;
  std::optional<recording::Recording> recording_;
};

// Two nested layers, with every kind of figure:
//   time 20  model       0x1000, 1000 bytes from stack {2, 10}: live at the end
//   time 40  model/conv  0x2000, 4000 bytes from {3, 10}: released at 60; the heap's peak
//   time 55  model       release of a block that was never allocated
//   time 70  outside     0x3000, 500 bytes without a stack: released by the next event, temporary
// The peak is 5000 bytes, 1000 leak, 5500 were allocated, 500 temporary. The call
// before the return address 2 is named "0x1".
void fill_two_layers(test::RecordingBuilder& builder);

// Mapped memory and two GPUs, the second without a name:
//   time 20  model    8192 mapped at 0x100000 from {2}
//   time 30  model    GPU 0: 4000 of device memory at 0xd000 from {3}; GPU 1: 700
//   time 40  outside  GPU 0: 1000 used from a pool, and 500 of pinned memory, which is not GPU memory
//   time 50           GPU 0: 4000 freed; a request of 9000 refused
//   time 60           half of the mapping is unmapped
void fill_devices(test::RecordingBuilder& builder);

// A run with 10 counted allocations, and a node in it with one recorded allocation of 8000 bytes.
void fill_run_with_node(test::RecordingBuilder& builder);

// Twelve random threads, layers and stacks with every kind of event. The result depends only on the seed.
void fill_at_random(test::RecordingBuilder& builder, unsigned seed, int events);

}  // namespace headroom::exporters
