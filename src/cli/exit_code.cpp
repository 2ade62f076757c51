#include "cli/exit_code.h"

#include "base/log.h"
#include "base/terminal.h"

namespace headroom::cli {
namespace {
constexpr int kFailed = 1, kWrongUse = 2, kInternalFault = 3;
}

int exit_code_of(const Error& error) {
  log::error("{}", error.sentence());
  switch (error.kind) {
    case ErrorKind::failed:
      return kFailed;
    case ErrorKind::usage:
    case ErrorKind::input:
      return kWrongUse;
    case ErrorKind::internal:
      return kInternalFault;
  }
  return kInternalFault;
}

int exit_code_of(const Result<int>& result) {
  const int code = result ? *result : exit_code_of(result.error());
  // The error itself is printed once, when all is done: in main().
  return code <= kWrongUse && !output_status() ? kInternalFault : code;
}

}  // namespace headroom::cli
