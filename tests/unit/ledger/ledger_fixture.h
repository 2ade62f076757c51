// A ledger with a private account, and the calls that most of its tests make.
#pragma once

#include "ledger/ledger.h"
#include "support/test_support.h"

namespace headroom::ledger {

class LedgerFixture : public testing::Test {
 protected:
  using Kind = DeviceMemoryKind;
  void limit(std::uint64_t bytes, std::uint64_t second_device = kNoLimit) {
    Limits limits;
    limits.bytes[0] = bytes;
    limits.bytes[1] = second_device;
    ASSERT_TRUE(ledger_.account().open_private(limits));
  }
  bool release(std::uint64_t address) {
    Entry entry;
    if (!ledger_.begin_release(EntryType::pointer, address, entry)) return false;
    ledger_.finish_release(entry);
    return true;
  }
  // A stream-ordered free in that context.
  bool release_stream_ordered(std::uint64_t address, std::uint64_t context) {
    Entry entry;
    if (!ledger_.begin_release(EntryType::pointer, address, entry)) return false;
    ledger_.finish_release(entry, true, context);
    return true;
  }
  Entry begin_release(std::uint64_t address) {
    Entry entry;
    EXPECT_TRUE(ledger_.begin_release(EntryType::pointer, address, entry));
    return entry;
  }
  void wait(std::uint64_t context) { ledger_.finish_wait(context, ledger_.begin_wait(context)); }
  // Returns the number of entries that it dropped.
  int drop_from_context(std::uint64_t context) {
    Ledger::Pass pass;
    Entry dropped;
    int count = 0;
    while (ledger_.drop_from_context(context, pass, dropped)) ++count;
    return count;
  }
  std::uint64_t charged() { return ledger_.account().charged(0); }
  Ledger ledger_;
};

}  // namespace headroom::ledger
