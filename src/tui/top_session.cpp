#include "tui/top_session.h"

#include <utility>

#include "sources/host_info.h"

namespace headroom::tui {

namespace {

constexpr std::size_t kKernelEvents = 3;

std::optional<monitoring::Alerts> alerts_from(const SessionOptions& options) {
  if (!options.alerts) return std::nullopt;
  std::vector<AlertRule> rules = options.alerts->rules;
  if (options.ignores_hold_times)
    for (AlertRule& rule : rules) rule.hold = {};
  return monitoring::Alerts(std::move(rules));
}

}  // namespace

TopSession::TopSession(SessionOptions options)
    : options_(std::move(options)), risk_(options_.interval), alerts_(alerts_from(options_)) {
  if (options_.alerts && options_.runs_actions) actions_.emplace(options_.alerts->actions);
}

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
  risk_.add(sample_);
  if (!alerts_) return;
  const auto events = alerts_->update(sample_.time, risk_);
  if (!actions_) return;
  for (const AlertEvent& event : events) actions_->act_on(event);
  actions_->poll();
}

TopPicture TopSession::picture() const {
  if (held_) return held_->picture;
  TopPicture picture;
  picture.sample = &sample_;
  picture.history = &history_;
  picture.since_before = since_before_;
  picture.alerts_on = alerts_.has_value();
  if (alerts_) picture.alerts = alerts_->active();
  picture.seconds_left = risk_[monitoring::RiskFigure::memory_seconds_left].value;
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
  risk_ = monitoring::MemoryRisk(options_.interval);
  alerts_ = alerts_from(options_);
  history_.clear();
  kernel_events_.clear();
  has_sample_ = false;
}

void TopSession::finish() {
  if (actions_) actions_->finish({5'000'000'000});
}

TopFeed::TopFeed(const std::filesystem::path& root) : system_(root), table_(root) {
  if (root == "/") gpus_.emplace(bench::GpuSamplerOptions::of_monitor());
  const HostInfo host = sources::read_host_info(root);
  name_ = host.hostname;
  if (!host.board.empty()) name_ += (name_.empty() ? "" : "  ") + host.board;
}

void TopFeed::wait_for_gpus() {
  HostInfo host;
  if (gpus_) gpus_->add_to(host);
}

void TopFeed::sample_into(SystemSample& sample, const sources::ProcessChoice& choice) {
  system_.sample_into(sample);
  if (gpus_) gpus_->add_to(sample);
  table_.read(sample, choice);
}

}  // namespace headroom::tui
