#include "pool/event_lines.h"

#include <gtest/gtest.h>

namespace headroom::pool {
namespace {

TEST(EventLines, FormatEachEventAsJson) {
  Event event;
  event.kind = EventKind::unloaded;
  event.time = {7};
  event.model = "a, b";
  event.took = {5};
  event.cause = UnloadCause::discarded;
  event.promised = {100};
  event.changed = {90};
  event.used = {10};
  event.budget = {1000};
  EXPECT_EQ(
      event_line(event),
      R"({"event":"unloaded","time_ns":7,"model":"a, b","took_ns":5,"promised_bytes":100,"returned_bytes":90,)"
      R"("cause":"discarded","used_bytes":10,"budget_bytes":1000})");
  event = {};
  event.kind = EventKind::refused;
  event.model = "\"\n";
  event.refusal = Refusal::no_room;
  event.message = "no";
  EXPECT_EQ(event_line(event),
            R"({"event":"refused","time_ns":0,"model":"\"\n","took_ns":0,"refusal":"no_room","message":"no",)"
            R"("used_bytes":0,"budget_bytes":0})");
}

TEST(EventLines, EveryNameIsDifferent) {
  for (int a = 0; a <= static_cast<int>(Refusal::shut_down); ++a)
    for (int b = 0; b < a; ++b) EXPECT_NE(name_of(static_cast<Refusal>(a)), name_of(static_cast<Refusal>(b)));
  for (int a = 0; a <= static_cast<int>(EventKind::refused); ++a)
    for (int b = 0; b < a; ++b)
      EXPECT_NE(name_of(static_cast<EventKind>(a)), name_of(static_cast<EventKind>(b)));
  for (int a = 0; a <= static_cast<int>(UnloadCause::end); ++a)
    for (int b = 0; b < a; ++b)
      EXPECT_NE(name_of(static_cast<UnloadCause>(a)), name_of(static_cast<UnloadCause>(b)));
}

}  // namespace
}  // namespace headroom::pool
