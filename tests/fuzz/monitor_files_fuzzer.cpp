// Readers of kernel messages, NvMap's client list and the status of model pools, with any bytes.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "sources/kernel_log.h"
#include "sources/nvmap_clients.h"
#include "types/pool_sample.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto event = headroom::sources::kernel_event_of(text))
    if (event->text.size() > size || event->process.size() > size) std::abort();
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
  return 0;
}
