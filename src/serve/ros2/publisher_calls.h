// Common code of the publisher plug-ins: the table of publisher_plugin.h over a class of the plug-in.
// Plug-ins compile this file as C++17.
#pragma once

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <string_view>

#include "serve/ros2/publisher_plugin.h"

namespace headroom::ros2 {

// What a publisher throws.
struct PublisherFailure {
  std::string why, fix;
};

template <std::size_t size>
void copy_error_text(char (&to)[size], std::string_view from) {
  const std::size_t length = std::min(from.size(), size - 1);
  std::memcpy(to, from.data(), length);
  to[length] = '\0';
}

// Runs `work`. Converts any exception to an error, with `fix` as the advice where the exception has none.
template <class Work>
int guarded_publisher(hr_publisher_error* error, const char* fix, Work&& work) noexcept {
  try {
    work();
    return 0;
  } catch (const PublisherFailure& failure) {
    copy_error_text(error->why, failure.why);
    copy_error_text(error->fix, failure.fix);
  } catch (const std::exception& exception) {
    copy_error_text(error->why, exception.what());
    copy_error_text(error->fix, fix);
  } catch (...) {
    copy_error_text(error->why, "an exception of unknown type");
    copy_error_text(error->fix, fix);
  }
  return 1;
}

// `Publisher` is made from hr_publisher_options and has publish(). Its kStartFix is the advice if it does not
// start.
template <class Publisher>
hr_publisher_plugin publisher_table(const char* name, const char* version) {
  hr_publisher_plugin table{};
  table.abi_version = HEADROOM_PUBLISHER_ABI;
  table.struct_size = sizeof table;
  table.name = name;
  table.version = version;
  table.start = [](const hr_publisher_options* options, hr_publisher** publisher, hr_publisher_error* error) {
    return guarded_publisher(error, Publisher::kStartFix, [&] {
      *publisher = reinterpret_cast<hr_publisher*>(std::make_unique<Publisher>(*options).release());
    });
  };
  table.publish = [](hr_publisher* publisher, const hr_diagnostic_array* array, hr_publisher_error* error) {
    return guarded_publisher(error, "", [&] { reinterpret_cast<Publisher*>(publisher)->publish(*array); });
  };
  table.close = [](hr_publisher* publisher) { delete reinterpret_cast<Publisher*>(publisher); };
  return table;
}

}  // namespace headroom::ros2
