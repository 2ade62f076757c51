// Failures are values with context: what failed, why, and how to fix it. cli/main prints them, as one
// sentence. Code below the command line never prints errors and never exits.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace headroom {

// What an error means for the exit status (docs/exit-codes.md).
enum class ErrorKind {
  usage,     // wrong command line or configuration: exit 2
  input,     // a file or device is unreadable or has the wrong content: exit 2
  failed,    // the work failed (a model, a limit, a gate): exit 1
  internal,  // a fault of Headroom or of the operating system: exit 3
};

struct Error {
  ErrorKind kind = ErrorKind::internal;
  std::string what;  // "cannot open /data/model.onnx"
  std::string why;   // "no such file"; may be empty
  std::string fix;   // "check the path given to --model"; may be empty

  // "what: why; fix" — one line, no trailing period. A part with over 6,000 bytes is cut to 600.
  std::string sentence() const;
};

template <class T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

inline tl::unexpected<Error> usage_error(std::string what, std::string why = {}, std::string fix = {}) {
  return tl::unexpected<Error>(Error{ErrorKind::usage, std::move(what), std::move(why), std::move(fix)});
}
inline tl::unexpected<Error> input_error(std::string what, std::string why = {}, std::string fix = {}) {
  return tl::unexpected<Error>(Error{ErrorKind::input, std::move(what), std::move(why), std::move(fix)});
}
inline tl::unexpected<Error> failure(std::string what, std::string why = {}, std::string fix = {}) {
  return tl::unexpected<Error>(Error{ErrorKind::failed, std::move(what), std::move(why), std::move(fix)});
}
inline tl::unexpected<Error> internal_error(std::string what, std::string why = {}, std::string fix = {}) {
  return tl::unexpected<Error>(Error{ErrorKind::internal, std::move(what), std::move(why), std::move(fix)});
}
// Passes the error of one Result on as the error of another.
template <class T>
tl::unexpected<Error> forward_error(Result<T>& result) {
  return tl::unexpected<Error>(std::move(result.error()));
}

// The message of an errno value; thread-safe.
std::string errno_text(int error_number);

}  // namespace headroom
