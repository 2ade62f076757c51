#include "report/run/limit_words.h"

#include <fmt/format.h>

#include <algorithm>

#include "report/words.h"

namespace headroom::report {
namespace {

std::string size_of_probe(const Limit& limit) {
  if (limit.bytes <= kLargestProbe) return "with this limit";
  return fmt::format("with a limit of {} instead of {}, by the same mechanism", format_bytes(kLargestProbe),
                     format_bytes(limit.bytes));
}

}  // namespace

bool counts_by_group(const Limit& limit) {
  return limit.mechanism == LimitMechanism::cgroup_v1 || limit.mechanism == LimitMechanism::cgroup_v2;
}

bool counts_by_reservation(const Limit& limit) { return limit.mechanism == LimitMechanism::rlimit_data; }

std::string share_of(Bytes peak, const Limit& limit) {
  if (limit.bytes <= Bytes{}) return std::string(kAbsent);
  return words_for_share(static_cast<double>(peak.count) / static_cast<double>(limit.bytes.count));
}

std::string peak_against(const ModelResult& model, const std::optional<Limit>& limit) {
  const auto resident = peak_of(model);
  const auto counted = limit_peak(model.memory, limit);
  if (!counted) return resident ? format_bytes(*resident) + " resident" : std::string();
  const bool by_reservation = counts_by_reservation(*limit);
  if (!counts_by_group(*limit) && !by_reservation)
    return fmt::format("{} resident, {} of the limit", format_bytes(*counted), share_of(*counted, *limit));
  std::string text = fmt::format("{} {}, {} of it", format_bytes(*counted),
                                 by_reservation ? "reserved against the limit" : "charged to the limit",
                                 share_of(*counted, *limit));
  if (resident) text += fmt::format(" (resident {})", format_bytes(*resident));
  return text;
}

bool was_stopped_at_limit(const ModelResult& model, const Limit& limit) {
  return model.status == ModelStatus::oom && exceeded_limit(model) && counts_by_group(limit);
}

bool resident_is_above(const ModelResult& model, const std::optional<Limit>& limit) {
  if (!limit || (!counts_by_group(*limit) && !counts_by_reservation(*limit))) return false;
  const auto resident = peak_of(model);
  const auto counted = limit_peak(model.memory, limit);
  return resident && counted && *resident > limit->bytes && *counted <= limit->bytes;
}

std::string meaning_of(const Limit& limit) {
  switch (limit.type) {
    case LimitType::hard:
      return fmt::format(
          "before this run, the probe tried every route by which a process can allocate memory; each was "
          "refused or killed ({})",
          size_of_probe(limit));
    case LimitType::soft:
      if (has_unproved_cuda(limit))
        return "CUDA memory can exceed the limit; the probe's table shows which host routes were stopped";
      if (limit.mechanism == LimitMechanism::watchdog)
        return "a watchdog monitors memory; a model that exceeds the limit continues and is marked";
      return fmt::format(
          "before this run, a route exceeded the limit or could not be tried ({}); a model that exceeds the "
          "limit continues and is marked",
          size_of_probe(limit));
    case LimitType::unavailable:
      return "nothing on this machine enforces the limit; memory was only measured";
  }
  return {};
}

bool refuses_memory(const Limit& limit) {
  return limit.mechanism != LimitMechanism::none && limit.mechanism != LimitMechanism::watchdog;
}

bool is_above_memory(const Limit& limit, const HostInfo& host) {
  return host.ram_total > Bytes{} && limit.bytes > host.ram_total;
}

std::string notes_on(const Limit& limit, const HostInfo& host) {
  constexpr std::string_view kMoreThanMemory = "more than this machine's memory";
  if (!is_above_memory(limit, host) || limit.note.find(kMoreThanMemory) != std::string::npos)
    return limit.note;
  return fmt::format("the limit of {} is {} of {}{}{}", format_bytes(limit.bytes), kMoreThanMemory,
                     format_bytes(host.ram_total), limit.note.empty() ? "" : "; ", limit.note);
}

}  // namespace headroom::report
