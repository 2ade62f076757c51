// The child that the probe starts in the tests: probe_child --route R --target BYTES.
#include "base/text.h"
#include "limits/memory_limit.h"

int main(int count, char** arguments) {
  if (count != 5) return 2;
  const auto target = headroom::parse_number<std::int64_t>(arguments[4]);
  return headroom::limits::run_limit_probe(arguments[2], headroom::Bytes{target.value_or(0)});
}
