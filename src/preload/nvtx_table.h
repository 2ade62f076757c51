// The types that NVTX 3 passes to a tool, declared anew from its public headers (nvtxTypes.h, nvToolsExt.h),
// so that the build does not need NVTX.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headroom::preload::nvtx {

using GetExportTable = const void* (*)(std::uint32_t);
constexpr std::uint32_t kCallbacksTable = 1;

// Slots in a module's function table; the tool stores its own functions in them.
using Function = void (*)();
using FunctionTable = Function**;
struct Callbacks {
  std::size_t struct_size;
  int (*get_module_function_table)(int module, FunctionTable* table, unsigned* size);
};

enum Module : int { kCore = 1, kCoreDomains = 5 };
enum CoreSlot : unsigned {
  kRangeStartEx = 4,
  kRangeStartA = 5,
  kRangeStartW = 6,
  kRangeEnd = 7,
  kRangePushEx = 8,
  kRangePushA = 9,
  kRangePushW = 10,
  kRangePop = 11,
};
enum DomainSlot : unsigned {
  kDomainRangeStartEx = 2,
  kDomainRangeEnd = 3,
  kDomainRangePushEx = 4,
  kDomainRangePop = 5,
  kDomainRegisterStringA = 10,
  kDomainRegisterStringW = 11,
  kDomainCreateA = 12,
  kDomainCreateW = 13,
};

enum MessageType : std::int32_t { kNoMessage = 0, kAscii = 1, kWide = 2, kRegistered = 3 };

struct EventAttributes {
  std::uint16_t version, size;
  std::uint32_t category;
  std::int32_t color_type;
  std::uint32_t color;
  std::int32_t payload_type, reserved;
  std::uint64_t payload;
  std::int32_t message_type;
  union {
    const char* ascii;
    const wchar_t* wide;
    const struct RegisteredString* registered;
  } message;
};
static_assert(sizeof(EventAttributes) == 48 && offsetof(EventAttributes, message) == 40);

using RangeId = std::uint64_t;

}  // namespace headroom::preload::nvtx
