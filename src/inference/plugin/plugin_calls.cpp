#include "inference/plugin/plugin_calls.h"

#include <exception>
#include <new>
#include <string_view>

#include "inference/plugin/text_field.h"

namespace headroom::plugin {
namespace {

int report(hr_error& error, hr_error_kind kind, std::string_view message) {
  error.kind = kind;
  copy_text(error.message, message);
  return 1;
}

}  // namespace

int report_exception(hr_error* error) noexcept {
  try {
    throw;
  } catch (const Failure& failure) {
    return report(*error, failure.kind, failure.message);
  } catch (const std::bad_alloc&) {
    return report(*error, HR_ERROR_OUT_OF_MEMORY, "an allocation was refused");
  } catch (const std::exception& exception) {
    return report(*error, HR_ERROR_FAILED, exception.what());
  } catch (...) {
    return report(*error, HR_ERROR_FAILED, "an exception of unknown type");
  }
}

}  // namespace headroom::plugin
