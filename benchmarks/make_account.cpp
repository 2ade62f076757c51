// Creates the file of a GPU memory account, as `headroom trace` does. For gpu_ledger.py on machines without a
// build of Headroom: make_account FILE BYTES (the limit of each device).
#include <cstdio>
#include <cstdlib>

#include "ledger/account.h"

int main(int count, char** arguments) {
  if (count != 3) return 2;
  headroom::ledger::Limits limits;
  for (auto& limit : limits.bytes) limit = std::strtoull(arguments[2], nullptr, 10);
  if (headroom::ledger::Account::create_shared(arguments[1], limits)) return 0;
  std::perror(arguments[1]);
  return 1;
}
