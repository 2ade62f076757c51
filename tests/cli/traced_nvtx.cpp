// NVTX ranges of all kinds, with one allocation of a distinct size in each. Built only where NVTX's headers
// are installed.
#include <nvtx3/nvToolsExt.h>

#include <cstdlib>

namespace {

void* volatile kept;
void allocate(std::size_t size) {
  kept = std::malloc(size);
  std::free(kept);
}

nvtxEventAttributes_t event(const char* name) {
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name;
  return attributes;
}

}  // namespace

int main() {
  allocate(55501);
  nvtxRangePushA("narrow");
  allocate(55502);
  nvtxRangePushW(L"wide \u00e9");
  allocate(55503);
  nvtxRangePop();
  const auto by_event = event("event");
  nvtxRangePushEx(&by_event);
  allocate(55504);
  nvtxRangePop();
  nvtxRangePop();
  const nvtxDomainHandle_t domain = nvtxDomainCreateA("domain");
  auto registered = event("");
  registered.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  registered.message.registered = nvtxDomainRegisterStringA(domain, "registered");
  nvtxDomainRangePushEx(domain, &registered);
  allocate(55505);
  nvtxDomainRangePop(domain);
  // Ranges that end in the order in which they began.
  const nvtxRangeId_t first = nvtxRangeStartA("first");
  const nvtxRangeId_t second = nvtxRangeStartA("second");
  allocate(55506);
  nvtxRangeEnd(first);
  allocate(55507);
  nvtxRangeEnd(second);
  allocate(55508);
  // Pushes in several domains, popped in interleaved order.
  const nvtxDomainHandle_t other = nvtxDomainCreateA("other");
  const auto of_domain = event("of domain"), of_other = event("of other");
  int level = nvtxDomainRangePushEx(domain, &of_domain);
  level += nvtxRangePushA("of default");
  level += nvtxDomainRangePushEx(other, &of_other);
  // each is the first of its domain; a negative level means that no tool is attached
  if (level > 0) return 1;
  allocate(55509);
  nvtxDomainRangePop(domain);
  allocate(55510);
  nvtxRangePop();
  allocate(55511);
  nvtxRangePop();
  nvtxDomainRangePop(domain);  // both domains are empty
  allocate(55512);
  const nvtxRangeId_t started = nvtxRangeStartA("started");
  nvtxDomainRangePop(other);  // a started range cannot be popped
  allocate(55513);
  nvtxRangeEnd(started);
  allocate(55514);
}
