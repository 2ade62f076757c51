#include "preload/limit_environment.h"

#include <dlfcn.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <cstring>

#include "preload/options.h"

namespace headroom::preload {
namespace {

constexpr const char *kPreload = "LD_PRELOAD=", *kOptions = "HEADROOM_TRACE_OPTIONS=",
                     *kFile = "HEADROOM_TRACE_FILE=";

// Values at program start, because the program may overwrite its environment.
bool has_limit = false;
char saved_library[PATH_MAX], saved_options[4096], saved_file[PATH_MAX];

void save(char* text, std::size_t capacity, const char* key, const char* value) {
  if (value == nullptr || std::strlen(key) + std::strlen(value) >= capacity) return;
  std::strcpy(std::strcpy(text, key) + std::strlen(key), value);
}

[[gnu::constructor]] void save_limit() {
  const char* set = std::getenv("HEADROOM_TRACE_OPTIONS");
  Dl_info own{};
  if (set == nullptr || !parse_options(set).device_limits.any() ||
      ::dladdr(reinterpret_cast<void*>(&save_limit), &own) == 0 || own.dli_fname == nullptr)
    return;
  save(saved_library, sizeof saved_library, "", own.dli_fname);
  save(saved_options, sizeof saved_options, kOptions, set);
  save(saved_file, sizeof saved_file, kFile, std::getenv("HEADROOM_TRACE_FILE"));
  has_limit = saved_library[0] != 0 && saved_options[0] != 0;
}

// The variable's value, or null.
const char* value_in(Strings environment, const char* key) {
  const std::size_t length = std::strlen(key);
  for (Strings at = environment; at != nullptr && *at != nullptr; ++at)
    if (std::strncmp(*at, key, length) == 0) return *at + length;
  return nullptr;
}

bool has_our_library(Strings environment) {
  const char* preload = value_in(environment, kPreload);
  // Either of the two libraries: a nested headroom command sets its own.
  return preload != nullptr && std::strstr(preload, "libheadroom_trace") != nullptr;
}
bool has_options(Strings environment) {
  const char* set = value_in(environment, kOptions);
  return set != nullptr && *set != 0;
}

}  // namespace

bool has_device_limit() { return has_limit; }

std::size_t bytes_to_restore_limit(Strings environment) {
  if (!has_limit || (has_our_library(environment) && has_options(environment))) return 0;
  constexpr std::size_t kAdded = 3, kEnd = 1;
  std::size_t count = 0;
  for (Strings at = environment; at != nullptr && *at != nullptr; ++at) ++count;
  const char* preload = value_in(environment, kPreload);
  return (count + kAdded + kEnd) * sizeof(char*) + std::strlen(kPreload) + std::strlen(saved_library) +
         (preload != nullptr ? std::strlen(preload) : 0) + sizeof ":";
}

Strings restore_limit(Strings environment, char* memory) {
  const bool adds_library = !has_our_library(environment), adds_options = !has_options(environment);
  char** const restored = reinterpret_cast<char**>(memory);
  std::size_t count = 0;
  for (Strings at = environment; at != nullptr && *at != nullptr; ++at) {
    const bool is_replaced = (adds_library && std::strncmp(*at, kPreload, std::strlen(kPreload)) == 0) ||
                             (adds_options && std::strncmp(*at, kOptions, std::strlen(kOptions)) == 0);
    if (!is_replaced) restored[count++] = *at;
  }
  if (adds_options) restored[count++] = saved_options;
  if (adds_options && saved_file[0] != 0 && value_in(environment, kFile) == nullptr)
    restored[count++] = saved_file;
  // The new text follows the pointers: the copied ones, the added ones and the final null.
  char* const text = reinterpret_cast<char*>(restored + count + (adds_library ? 2 : 1));
  if (adds_library) {
    const char* other_preload = value_in(environment, kPreload);
    std::strcpy(text, kPreload);
    std::strcat(text, saved_library);
    if (other_preload != nullptr && *other_preload != 0) std::strcat(std::strcat(text, ":"), other_preload);
    restored[count++] = text;
  }
  restored[count] = nullptr;
  return restored;
}

void restore_limit_in_environ() {
  if (!has_limit) return;
  if (!has_our_library(environ)) {
    const char* other_preload = value_in(environ, kPreload);
    char both[2 * PATH_MAX];
    const bool has_more = other_preload != nullptr && *other_preload != 0 &&
                          std::strlen(saved_library) + std::strlen(other_preload) + 2 < sizeof both;
    std::strcpy(both, saved_library);
    if (has_more) std::strcat(std::strcat(both, ":"), other_preload);
    ::setenv("LD_PRELOAD", both, 1);
  }
  if (has_options(environ)) return;
  ::setenv("HEADROOM_TRACE_OPTIONS", saved_options + std::strlen(kOptions), 1);
  if (saved_file[0] != 0 && value_in(environ, kFile) == nullptr)
    ::setenv("HEADROOM_TRACE_FILE", saved_file + std::strlen(kFile), 1);
}

}  // namespace headroom::preload
