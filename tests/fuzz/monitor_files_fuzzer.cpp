// Readers of kernel messages, NvMap's client list and the status of model pools, with any bytes.
#include "fuzz.h"
#include "sources/metric_source.h"
#include "types/sample.h"

void fuzz(std::string_view text) {
  if (const auto event = headroom::sources::kernel_event_of(text))
    if (event->text.size() > text.size() || event->process.size() > text.size()) std::abort();
  std::vector<headroom::ProcessSample> processes;
  const auto total = headroom::sources::read_nvmap_clients(text, processes);
  if (total && total->count < 0) std::abort();
  for (const headroom::ProcessSample& process : processes)
    if (process.pid <= 0 || !process.gpu || process.gpu->count < 0 || process.name.empty()) std::abort();
  if (const auto status = headroom::parse_pool_status(text)) {
    const headroom::PoolSample& pool = status->pool;
    if (!headroom::is_pool_name(pool.name) || pool.pid <= 0 || pool.used.count < 0) std::abort();
    const auto again = headroom::parse_pool_status(headroom::pool_status_text(pool, status->start_ticks, 1));
    if (!again || again->pool != pool) std::abort();
  }
}
