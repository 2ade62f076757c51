// What `headroom top` knows of the samples that it was given: the last, the curves, the alerts.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "analysis/alerts.h"
#include "analysis/memory_risk.h"
#include "tui/top_view.h"
#include "watch/alert_actions.h"
#include "watch/alert_rules_file.h"

namespace headroom::tui {

struct SessionOptions {
  Nanoseconds interval{1'000'000'000};
  std::optional<watch::AlertSettings> alerts;
  bool acts = false;     // does what the rules ask for, besides showing them
  bool at_once = false;  // rules need not hold for a while: there is one sample
};

class TopSession {
 public:
  explicit TopSession(SessionOptions options);

  // `sample` is swapped with the one before, so that its lists are used again.
  void take(SystemSample& sample);
  const SystemSample& sample() const { return held_ ? held_->sample : sample_; }
  bool has_sample() const { return has_sample_; }
  // Without the words of the title.
  TopPicture picture() const;
  // Until it is let go, `sample` and `picture` are those of now. Samples are taken, alerts begin and end, and
  // actions run all the same: what the kernel counts since the sample before is told but once.
  void hold_picture(bool held);
  // As if no sample had been taken.
  void restart();
  // Gives actions that still run five seconds.
  void finish();

 private:
  struct HeldPicture {
    SystemSample sample;
    TopHistory history;
    TopPicture picture;
  };

  SessionOptions options_;
  analysis::MemoryRisk risk_;
  std::optional<analysis::Alerts> alerts_;
  std::optional<watch::AlertActions> actions_;
  TopHistory history_;
  SystemSample sample_;
  bool has_sample_ = false;
  std::optional<Nanoseconds> since_before_;
  std::deque<KernelEvent> kernel_events_;
  std::unique_ptr<const HeldPicture> held_;
};

}  // namespace headroom::tui
