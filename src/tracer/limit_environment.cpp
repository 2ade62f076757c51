#include "tracer/limit_environment.h"

#include <dlfcn.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <cstring>

#include "tracer/options.h"

namespace headroom::tracer {
namespace {

constexpr const char *kPreload = "LD_PRELOAD=", *kOptions = "HEADROOM_TRACE_OPTIONS=",
                     *kFile = "HEADROOM_TRACE_FILE=";

// As they were when the program started. The program may write over its environment.
bool has_limit = false;
char kept_library[PATH_MAX], kept_options[4096], kept_file[PATH_MAX];

void remember(char* text, std::size_t room, const char* key, const char* value) {
  if (value == nullptr || std::strlen(key) + std::strlen(value) >= room) return;
  std::strcpy(std::strcpy(text, key) + std::strlen(key), value);
}

[[gnu::constructor]] void remember_limit() {
  const char* set = std::getenv("HEADROOM_TRACE_OPTIONS");
  Dl_info own{};
  if (set == nullptr || !parse_options(set).device_limits.any() ||
      ::dladdr(reinterpret_cast<void*>(&remember_limit), &own) == 0 || own.dli_fname == nullptr)
    return;
  remember(kept_library, sizeof kept_library, "", own.dli_fname);
  remember(kept_options, sizeof kept_options, kOptions, set);
  remember(kept_file, sizeof kept_file, kFile, std::getenv("HEADROOM_TRACE_FILE"));
  has_limit = kept_library[0] != 0 && kept_options[0] != 0;
}

// The value, or null.
const char* value_in(Strings environment, const char* key) {
  const std::size_t length = std::strlen(key);
  for (Strings at = environment; at != nullptr && *at != nullptr; ++at)
    if (std::strncmp(*at, key, length) == 0) return *at + length;
  return nullptr;
}

bool has_our_library(Strings environment) {
  const char* preload = value_in(environment, kPreload);
  // Either of the two: a headroom command inside gives its own.
  return preload != nullptr && std::strstr(preload, "libheadroom_trace") != nullptr;
}
bool has_options(Strings environment) {
  const char* set = value_in(environment, kOptions);
  return set != nullptr && *set != 0;
}

}  // namespace

bool keeps_device_limit() { return has_limit; }

std::size_t bytes_to_keep_limit(Strings environment) {
  if (!has_limit || (has_our_library(environment) && has_options(environment))) return 0;
  constexpr std::size_t kAdded = 3, kEnd = 1;
  std::size_t count = 0;
  for (Strings at = environment; at != nullptr && *at != nullptr; ++at) ++count;
  const char* preload = value_in(environment, kPreload);
  return (count + kAdded + kEnd) * sizeof(char*) + std::strlen(kPreload) + std::strlen(kept_library) +
         (preload != nullptr ? std::strlen(preload) : 0) + sizeof ":";
}

Strings keep_limit(Strings environment, char* memory) {
  const bool adds_library = !has_our_library(environment), adds_options = !has_options(environment);
  char** const kept = reinterpret_cast<char**>(memory);
  std::size_t count = 0;
  for (Strings at = environment; at != nullptr && *at != nullptr; ++at) {
    const bool is_replaced = (adds_library && std::strncmp(*at, kPreload, std::strlen(kPreload)) == 0) ||
                             (adds_options && std::strncmp(*at, kOptions, std::strlen(kOptions)) == 0);
    if (!is_replaced) kept[count++] = *at;
  }
  if (adds_options) kept[count++] = kept_options;
  if (adds_options && kept_file[0] != 0 && value_in(environment, kFile) == nullptr) kept[count++] = kept_file;
  // The text lies behind the pointers: those that were left out, added and the end.
  char* const text = reinterpret_cast<char*>(kept + count + (adds_library ? 2 : 1));
  if (adds_library) {
    const char* theirs = value_in(environment, kPreload);
    std::strcpy(text, kPreload);
    std::strcat(text, kept_library);
    if (theirs != nullptr && *theirs != 0) std::strcat(std::strcat(text, ":"), theirs);
    kept[count++] = text;
  }
  kept[count] = nullptr;
  return kept;
}

void put_limit_back() {
  if (!has_limit) return;
  if (!has_our_library(environ)) {
    const char* theirs = value_in(environ, kPreload);
    char both[2 * PATH_MAX];
    const bool has_more = theirs != nullptr && *theirs != 0 &&
                          std::strlen(kept_library) + std::strlen(theirs) + 2 < sizeof both;
    std::strcpy(both, kept_library);
    if (has_more) std::strcat(std::strcat(both, ":"), theirs);
    ::setenv("LD_PRELOAD", both, 1);
  }
  if (has_options(environ)) return;
  ::setenv("HEADROOM_TRACE_OPTIONS", kept_options + std::strlen(kOptions), 1);
  if (kept_file[0] != 0 && value_in(environ, kFile) == nullptr)
    ::setenv("HEADROOM_TRACE_FILE", kept_file + std::strlen(kFile), 1);
}

}  // namespace headroom::tracer
