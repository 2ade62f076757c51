#include "bench/worker/device_watch.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdint>
#include <utility>

#include "base/json.h"
#include "base/units.h"

namespace headroom::bench {
namespace {

std::int64_t signed_of(std::uint64_t bytes) { return static_cast<std::int64_t>(bytes); }
std::string bytes_text(std::uint64_t bytes) { return format_bytes(Bytes{signed_of(bytes)}); }

}  // namespace

DeviceWatch::DeviceWatch(std::vector<unsigned> ordinals)
    : ordinals_(std::move(ordinals)), refused_(ordinals_.size()) {
  figures_ =
      reinterpret_cast<ledger::DeviceFiguresFunction>(::dlsym(RTLD_DEFAULT, ledger::kDeviceFiguresSymbol));
  reset_peak_ = reinterpret_cast<ledger::ResetDevicePeakFunction>(
      ::dlsym(RTLD_DEFAULT, ledger::kResetDevicePeakSymbol));
  driver_ = sources::OwnGpuMemory::open();
}

Json DeviceWatch::read_and_reset() {
  Json event = Json::object();
  if (figures_ != nullptr && reset_peak_ != nullptr)
    for (std::size_t i = 0; i < ordinals_.size(); ++i) {
      const unsigned ordinal = ordinals_[i];
      ledger::DeviceFigures figures;
      if (!figures_(ordinal, &figures, sizeof figures)) continue;
      reset_peak_(ordinal);
      refused_[i] = figures.refused_count;
      Json entry;
      entry["ordinal"] = ordinal;
      entry["charged_bytes"] = signed_of(figures.charged);
      entry["peak_bytes"] = signed_of(figures.peak);
      entry["pinned_bytes"] = signed_of(figures.pinned_host);
      entry["refused"] = signed_of(figures.refused_count);
      entry["refused_bytes"] = signed_of(figures.refused_bytes);
      event["ledger"].push_back(std::move(entry));
    }
  if (driver_ != nullptr)
    for (const auto& share : driver_->read()) {
      Json entry;
      entry["uuid"] = share.uuid;
      entry["used_bytes"] = share.used.count;
      event["driver"].push_back(std::move(entry));
    }
  return event;
}

std::string DeviceWatch::describe_new_refusals() const {
  std::string text;
  for (std::size_t i = 0; i < ordinals_.size(); ++i) {
    const unsigned ordinal = ordinals_[i];
    ledger::DeviceFigures figures;
    if (figures_ == nullptr || !figures_(ordinal, &figures, sizeof figures) ||
        figures.refused_count <= refused_[i])
      continue;
    text += fmt::format("{}cuda:{} refused {} at its limit of {} ({} in use{})", text.empty() ? "" : "; ",
                        ordinal, bytes_text(figures.last_refused_bytes), bytes_text(figures.limit),
                        bytes_text(figures.last_refused_charged),
                        figures.last_refused_own < figures.last_refused_charged
                            ? fmt::format(", {} by other processes",
                                          bytes_text(figures.last_refused_charged - figures.last_refused_own))
                            : "");
  }
  return text;
}

}  // namespace headroom::bench
