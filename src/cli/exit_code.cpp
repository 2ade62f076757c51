#include "cli/exit_code.h"

#include "base/log.h"

namespace headroom::cli {

int exit_code_of(const Error& error) {
  log::error("{}", error.sentence());
  switch (error.kind) {
    case ErrorKind::failed:
      return 1;
    case ErrorKind::usage:
    case ErrorKind::input:
      return 2;
    case ErrorKind::internal:
      return 3;
  }
  return 3;
}

int exit_code_of(const Result<int>& result) { return result ? *result : exit_code_of(result.error()); }

}  // namespace headroom::cli
