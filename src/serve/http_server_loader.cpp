#include <dlfcn.h>
#include <fmt/format.h>

#include "base/files.h"
#include "serve/http_server.h"

namespace headroom::serve {
namespace fs = std::filesystem;
namespace {

constexpr const char* kPluginFile = "libheadroom_serve_httplib.so";
constexpr const char* kFix =
    "install libcpp-httplib-dev (Debian and Ubuntu) and build the target headroom_serve_httplib";

}  // namespace

Result<std::unique_ptr<HttpServer>> load_http_server() {
  for (const fs::path& folder : plugin_folders()) {
    const fs::path file = folder / kPluginFile;
    std::error_code ignored;
    if (!fs::exists(file, ignored)) continue;
    // Never close the library: OpenSSL registers exit handlers.
    void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      const char* reason = ::dlerror();
      return internal_error(fmt::format("cannot load {}", file.string()),
                            reason != nullptr ? reason : "unknown", kFix);
    }
    const auto create = reinterpret_cast<HttpServerFunction>(::dlsym(library, kHttpServerSymbol));
    if (create == nullptr)
      return internal_error(fmt::format("cannot use {}", file.string()),
                            fmt::format("it has no function {}", kHttpServerSymbol),
                            "rebuild it together with this headroom");
    return std::unique_ptr<HttpServer>(create());
  }
  return internal_error("cannot serve", fmt::format("{} is not in the program's folder", kPluginFile), kFix);
}

}  // namespace headroom::serve
