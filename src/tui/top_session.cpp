#include "tui/top_session.h"

#include <utility>

namespace headroom::tui {

namespace {

constexpr std::size_t kKernelEvents = 3;

watch::AlertSettings settings_of(const SessionOptions& options) {
  watch::AlertSettings settings = options.alerts.value_or(watch::AlertSettings{});
  if (!options.runs_actions) settings.actions.clear();
  if (options.ignores_hold_times)
    for (AlertRule& rule : settings.rules) rule.hold = {};
  return settings;
}

}  // namespace

TopSession::TopSession(SessionOptions options) : options_(std::move(options)) { restart(); }

void TopSession::take(SystemSample& sample) {
  since_before_.reset();
  if (has_sample_ && sample.time > sample_.time) since_before_ = sample.time - sample_.time;
  std::swap(sample_, sample);
  has_sample_ = true;
  history_.add(sample_);
  for (const KernelEvent& event : sample_.kernel_events) {
    kernel_events_.push_front(event);
    if (kernel_events_.size() > kKernelEvents) kernel_events_.pop_back();
  }
  alerts_->add(sample_);
}

TopPicture TopSession::picture() const {
  if (held_) return held_->picture;
  TopPicture picture;
  picture.sample = &sample_;
  picture.history = &history_;
  picture.since_before = since_before_;
  picture.alerts_on = options_.alerts.has_value();
  picture.alerts = alerts_->active();
  picture.seconds_left = alerts_->risk()[monitoring::RiskFigure::memory_seconds_left].value;
  picture.kernel_events.assign(kernel_events_.begin(), kernel_events_.end());
  return picture;
}

void TopSession::hold_picture(bool held) {
  if (held == (held_ != nullptr)) return;
  if (!held) {
    held_.reset();
    return;
  }
  auto now = std::make_unique<HeldPicture>(HeldPicture{sample_, history_, picture()});
  now->picture.sample = &now->sample;
  now->picture.history = &now->history;
  held_ = std::move(now);
}

void TopSession::restart() {
  held_.reset();
  alerts_.emplace(settings_of(options_), options_.interval, false);
  history_.clear();
  kernel_events_.clear();
  has_sample_ = false;
}

}  // namespace headroom::tui
