// The state of `headroom top`: the last sample, the chart history and the alerts.
#pragma once

#include <deque>
#include <memory>
#include <optional>

#include "tui/top_view.h"
#include "types/sample.h"
#include "watch/alert_rules_file.h"
#include "watch/alert_watch.h"

namespace headroom::tui {

struct SessionOptions {
  Nanoseconds interval{1'000'000'000};
  std::optional<watch::AlertSettings> alerts;
  bool runs_actions = false;        // also run the actions of the alert rules
  bool ignores_hold_times = false;  // ignore the rules' hold times, because there is only one sample
};

class TopSession {
 public:
  explicit TopSession(SessionOptions options);

  // Swaps `sample` with the previous one, so that its lists are reused.
  void take(SystemSample& sample);
  const SystemSample& sample() const { return held_ ? held_->sample : sample_; }
  bool has_sample() const { return has_sample_; }
  // Without the texts of the title row.
  TopPicture picture() const;
  // With `held`, sample() and picture() keep returning the state of this moment. Sampling, alerts and actions
  // continue, because a sample's counts (since the previous sample) would otherwise be lost.
  void hold_picture(bool held);
  void restart();
  // Waits up to five seconds for running actions.
  void finish() { alerts_->finish(); }

 private:
  struct HeldPicture {
    SystemSample sample;
    TopHistory history;
    TopPicture picture;
  };

  SessionOptions options_;
  std::optional<watch::AlertWatch> alerts_;  // always set; a restart replaces it
  TopHistory history_;
  SystemSample sample_;
  bool has_sample_ = false;
  std::optional<Nanoseconds> since_before_;
  std::deque<KernelEvent> kernel_events_;
  std::unique_ptr<const HeldPicture> held_;
};

}  // namespace headroom::tui
