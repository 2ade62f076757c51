#include "pool/pool_events.h"

namespace headroom::pool {

std::string_view name_of(Refusal refusal) {
  switch (refusal) {
    case Refusal::none:
      return "none";
    case Refusal::unknown_model:
      return "unknown_model";
    case Refusal::too_large:
      return "too_large";
    case Refusal::no_room:
      return "no_room";
    case Refusal::deadline:
      return "deadline";
    case Refusal::load_failed:
      return "load_failed";
    case Refusal::load_hangs:
      return "load_hangs";
    case Refusal::shut_down:
      return "shut_down";
  }
  return "unknown";
}

std::string_view name_of(EventKind kind) {
  switch (kind) {
    case EventKind::loaded:
      return "loaded";
    case EventKind::load_failed:
      return "load_failed";
    case EventKind::load_hangs:
      return "load_hangs";
    case EventKind::unload_hangs:
      return "unload_hangs";
    case EventKind::unloaded:
      return "unloaded";
    case EventKind::refused:
      return "refused";
  }
  return "unknown";
}

std::string_view name_of(UnloadCause cause) {
  switch (cause) {
    case UnloadCause::evicted:
      return "evicted";
    case UnloadCause::idle:
      return "idle";
    case UnloadCause::discarded:
      return "discarded";
    case UnloadCause::asked:
      return "asked";
    case UnloadCause::end:
      return "end";
  }
  return "unknown";
}

}  // namespace headroom::pool
