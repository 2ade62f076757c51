#include "tui/top_feed.h"

#include "sources/host_info.h"

namespace headroom::tui {

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
