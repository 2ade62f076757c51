// A PostgreSQL server for tests.
#pragma once

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/subprocess.h"
#include "support/test_support.h"

namespace headroom::test {

// Runs a command. Returns true if it succeeds.
inline bool succeeds(const std::vector<std::string>& command) {
  SpawnOptions options;
  options.command = command;
  auto child = Subprocess::spawn(options);
  return child && child->wait().success();
}

// A PostgreSQL cluster in a temporary folder, independent of other servers. It takes a second to start, so
// all tests share it, and each test uses its own database.
class PostgresServer {
 public:
  // Returns an empty string if the server runs, else the reason why not.
  std::string start() {
    if (!std::filesystem::exists(std::filesystem::path(kServerPrograms) / "initdb"))
      return "PostgreSQL (Debian package postgresql) is not installed";
    if (::geteuid() == 0) {  // PostgreSQL refuses to run as root
      const passwd* user = ::getpwnam("postgres");
      if (user == nullptr) return "no user postgres to run the server as";
      prefix_ = {"setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups"};
      if (::chown(folder_.path().c_str(), user->pw_uid, user->pw_gid) != 0) return "chown is not allowed";
    }
    const std::string data = folder_.path() / "data", log = folder_.path() / "log";
    if (!run({"initdb", "--auth=trust", "--username=team", "--no-sync", "-D", data})) return "initdb failed";
    started_ =
        run({"pg_ctl", "-D", data, "-l", log, "-w", "-o",
             fmt::format("-k {} -c listen_addresses='' -c fsync=off", folder_.path().string()), "start"});
    return started_ ? "" : "the server did not start: " + read_text(log);
  }
  ~PostgresServer() {
    if (started_) run({"pg_ctl", "-D", folder_.path() / "data", "-m", "immediate", "stop"});
  }
  // The URL of a new database; empty on failure.
  std::string new_database() {
    const std::string name = fmt::format("history_{}", ++databases_);
    return succeeds({"psql", "-q", url_of("postgres"), "-c", "CREATE DATABASE " + name}) ? url_of(name) : "";
  }

 private:
  static constexpr const char* kServerPrograms = "/usr/lib/postgresql/15/bin";

  std::string url_of(const std::string& database) const {
    return fmt::format("postgresql:///{}?host={}&user=team", database, folder_.path().string());
  }
  bool run(std::vector<std::string> words) const {
    words.front() = std::filesystem::path(kServerPrograms) / words.front();
    std::vector<std::string> command = prefix_;
    command.insert(command.end(), words.begin(), words.end());
    std::string line = "exec";
    for (const std::string& word : command) line += " '" + std::string(word).append("'");
    // The options contain quotes.
    if (const std::size_t at = line.find("listen_addresses=''"); at != std::string::npos)
      line.replace(at, 19, "listen_addresses=");
    return succeeds({"/bin/sh", "-c", line + " >/dev/null 2>&1"});
  }

  TemporaryFolder folder_;
  std::vector<std::string> prefix_;
  bool started_ = false;
  int databases_ = 0;
};

}  // namespace headroom::test
