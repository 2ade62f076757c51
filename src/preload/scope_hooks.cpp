// The types that NVTX 3 passes to a tool, declared anew from its public headers (nvtxTypes.h, nvToolsExt.h),
// so that the build does not need NVTX.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <cwchar>

#include "preload/memory.h"
#include "preload/process.h"
#include "preload/real_functions.h"
#include "preload/scopes.h"
#include "preload/threads.h"
#include "recording/format.h"

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

// NVTX ranges become scopes. NVTX loads the library that NVTX_INJECTION64_PATH names (this one) and calls
// InitializeInjectionNvtx2 once for each copy of NVTX in the process. From then on, NVTX calls these
// functions for its ranges.
//
// Ranges of all domains form one path, because they all describe what the thread does. A pop undoes the last
// push of its domain. A range that was started (not pushed) may end in any order. A range that another thread
// ends stays open in its own thread.

// A name that the program registered once and uses often. It lives as long as the process.
struct RegisteredString {
  std::size_t length;
  char text[1];
};

namespace {

using recording::ScopeSource;

std::size_t to_utf8(const wchar_t* wide, char* text, std::size_t capacity) {
  std::size_t length = 0;
  for (; *wide != 0 && length + 4 <= capacity; ++wide) {
    const auto c = static_cast<std::uint32_t>(*wide);
    if (c < 0x80) {
      text[length++] = static_cast<char>(c);
    } else if (c < 0x800) {
      text[length++] = static_cast<char>(0xc0 | c >> 6);
      text[length++] = static_cast<char>(0x80 | (c & 0x3f));
    } else if (c < 0x10000) {
      text[length++] = static_cast<char>(0xe0 | c >> 12);
      text[length++] = static_cast<char>(0x80 | (c >> 6 & 0x3f));
      text[length++] = static_cast<char>(0x80 | (c & 0x3f));
    } else {
      text[length++] = static_cast<char>(0xf0 | (c >> 18 & 7));
      text[length++] = static_cast<char>(0x80 | (c >> 12 & 0x3f));
      text[length++] = static_cast<char>(0x80 | (c >> 6 & 0x3f));
      text[length++] = static_cast<char>(0x80 | (c & 0x3f));
    }
  }
  return length;
}

// The forms in which NVTX passes range names. Each calls `use(text, length)`.
template <class Use>
auto with_name(const char* name, const Use& use) {
  return name == nullptr ? use("", 0) : use(name, std::strlen(name));
}
template <class Use>
auto with_name(const wchar_t* name, const Use& use) {
  char text[kMaxScopeName];
  return name == nullptr ? use("", 0) : use(text, to_utf8(name, text, sizeof text));
}
template <class Use>
auto with_name(const EventAttributes* event, const Use& use) {
  if (event != nullptr) {
    if (event->message_type == kAscii) return with_name(event->message.ascii, use);
    if (event->message_type == kWide) return with_name(event->message.wide, use);
    if (event->message_type == kRegistered && event->message.registered != nullptr)
      return use(event->message.registered->text, event->message.registered->length);
  }
  return use("", 0);
}

// --- domains

constexpr Domain kDefaultDomain = kModuleDomain + 1, kFirstMade = kDefaultDomain + 1, kLastMade = 255;
// A handle is an address in this array; null means "no tool" to NVTX.
const char domain_handles[kLastMade + 1] = {};

// Programs have only a few domains. Domains beyond the last handle share it.
const void* create_domain(const void*) {
  static std::atomic<unsigned> made{0};
  unsigned number = made.load();
  while (kFirstMade + number < kLastMade && !made.compare_exchange_weak(number, number + 1)) {
  }
  return &domain_handles[kFirstMade + number];
}
Domain domain_of(const void* handle) {
  const auto at = reinterpret_cast<std::uintptr_t>(handle) - reinterpret_cast<std::uintptr_t>(domain_handles);
  return at >= kFirstMade && at <= kLastMade ? static_cast<Domain>(at) : kDefaultDomain;
}

// --- nested ranges

template <class Name>
int push(Name name, Domain domain) {
  return with_name(name, [&](const char* text, std::size_t length) {
    return push_scope(ScopeSource::nvtx, text, length, domain);
  });
}
template <class Name>
int range_push(Name name) {
  return push(name, kDefaultDomain);
}
int range_pop() { return pop_scope(kDefaultDomain) - 1; }
int domain_range_push(const void* domain, const EventAttributes* event) {
  return push(event, domain_of(domain));
}
int domain_range_pop(const void* domain) { return pop_scope(domain_of(domain)) - 1; }

// --- ranges that may overlap

std::uint32_t new_range() {
  static std::atomic<std::uint32_t> last{0};
  std::uint32_t range = 0;
  while (range == 0) range = last.fetch_add(1) + 1;  // 0 means none
  return range;
}
template <class Name>
RangeId range_start(Name name) {
  const std::uint32_t range = new_range();
  with_name(name, [&](const char* text, std::size_t length) {
    start_range(ScopeSource::nvtx, text, length, range);
  });
  return range;
}
RangeId domain_range_start(const void*, const EventAttributes* event) { return range_start(event); }
void range_end(RangeId range) { end_range(static_cast<std::uint32_t>(range)); }
void domain_range_end(const void*, RangeId range) { range_end(range); }

// --- handles

// Names are stored in pages that are filled one after the other.
const RegisteredString* keep_string(const char* text, std::size_t length) {
  constexpr std::size_t kPageBytes = 1 << 20;
  static Lock lock;
  static char* page = nullptr;
  static std::size_t used = kPageBytes;
  if (length > kMaxScopeName) length = kMaxScopeName;
  ThreadLocal& thread = thread_local_state;
  const Guard guard(thread);
  const Locked locked(lock);
  const std::size_t bytes = (sizeof(RegisteredString) + length + 15) / 16 * 16;
  if (used + bytes > kPageBytes) {
    page = reserve_array<char>(kPageBytes);
    if (page == nullptr) return nullptr;
    used = 0;
  }
  auto* string = reinterpret_cast<RegisteredString*>(page + used);
  used += bytes;
  string->length = length;
  std::memcpy(string->text, text, length);
  return string;
}
const RegisteredString* register_narrow(const void*, const char* text) {
  return text == nullptr ? nullptr : keep_string(text, std::strlen(text));
}
const RegisteredString* register_wide(const void*, const wchar_t* wide) {
  char text[kMaxScopeName];
  return wide == nullptr ? nullptr : keep_string(text, to_utf8(wide, text, sizeof text));
}

struct Slot {
  unsigned index;
  Function function;
};
template <class Any>
Function any(Any* function) {
  return reinterpret_cast<Function>(function);
}

bool fill_callbacks(const Callbacks& callbacks, Module module, const Slot* slots, std::size_t count) {
  FunctionTable table = nullptr;
  unsigned size = 0;
  if (callbacks.get_module_function_table(module, &table, &size) == 0 || table == nullptr) return false;
  for (std::size_t i = 0; i < count; ++i)
    if (slots[i].index < size && table[slots[i].index] != nullptr) *table[slots[i].index] = slots[i].function;
  return true;
}

}  // namespace

int attach(GetExportTable get_export_table) {
  const auto* callbacks = static_cast<const Callbacks*>(get_export_table(kCallbacksTable));
  if (callbacks == nullptr || callbacks->struct_size < sizeof(Callbacks)) return 0;
  const Slot core[] = {
      {kRangeStartEx, any(range_start<const EventAttributes*>)},
      {kRangeStartA, any(range_start<const char*>)},
      {kRangeStartW, any(range_start<const wchar_t*>)},
      {kRangeEnd, any(range_end)},
      {kRangePushEx, any(range_push<const EventAttributes*>)},
      {kRangePushA, any(range_push<const char*>)},
      {kRangePushW, any(range_push<const wchar_t*>)},
      {kRangePop, any(range_pop)},
  };
  const Slot domains[] = {
      {kDomainRangeStartEx, any(domain_range_start)}, {kDomainRangeEnd, any(domain_range_end)},
      {kDomainRangePushEx, any(domain_range_push)},   {kDomainRangePop, any(domain_range_pop)},
      {kDomainRegisterStringA, any(register_narrow)}, {kDomainRegisterStringW, any(register_wide)},
      {kDomainCreateA, any(create_domain)},           {kDomainCreateW, any(create_domain)},
  };
  const bool has_core = fill_callbacks(*callbacks, kCore, core, sizeof core / sizeof core[0]);
  const bool has_domains =
      fill_callbacks(*callbacks, kCoreDomains, domains, sizeof domains / sizeof domains[0]);
  return has_core || has_domains ? 1 : 0;
}

}  // namespace headroom::preload::nvtx

// Returning 0 tells NVTX that there is no tool; its ranges become no-ops.
HEADROOM_HOOK int InitializeInjectionNvtx2(headroom::preload::nvtx::GetExportTable get_export_table) {
  using namespace headroom::preload;
  ThreadLocal& thread = thread_local_state;
  if (!is_recording(thread) || !process.options.layers) return 0;
  return nvtx::attach(get_export_table);
}

// The functions behind include/headroom/scope.h, also exported under their plain names for callers that look
// them up at run time (Python's ctypes, dlsym).

using namespace headroom::preload;

HEADROOM_HOOK void headroom_trace_scope_push(const char* name) {
  if (name == nullptr) name = "";
  push_scope(headroom::recording::ScopeSource::program, name, std::strlen(name), kProgramDomain);
}

HEADROOM_HOOK void headroom_trace_scope_pop(void) { pop_scope(kProgramDomain); }

HEADROOM_HOOK void headroom_scope_push(const char* name) { headroom_trace_scope_push(name); }

HEADROOM_HOOK void headroom_scope_pop(void) { headroom_trace_scope_pop(); }
