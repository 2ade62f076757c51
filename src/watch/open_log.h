// Opens a log of headroom watch's own, packed or not, for those who read it again.
#pragma once

#include <filesystem>
#include <string>

#include "base/files.h"
#include "base/result.h"

namespace headroom::watch {

struct OpenedLog {
  UniqueFd file;            // at its begin; of a packed log a file without a name that holds it unpacked
  bool is_damaged = false;  // more follows what could be unpacked
  bool is_cut = false;      // of a packed log: its end is missing
};

// Where a file is no such log.
inline constexpr const char* kFixOwnLog = "give a log of headroom watch --output FILE.jsonl";

// What a packed log may hold: a sample of 1.2 KB a second for 41 days. A small file of zeros unpacks to
// thousands of times its size, and where it does so may be memory (a tmpfs).
inline constexpr Bytes kMostUnpacked = gibibytes(4);

// FILE.jsonl, or FILE.jsonl.gz: gzip members behind each other. What a killed watch did not write to the end
// is left out, and what comes before damage is kept to the byte. The file may be one that cannot be sought;
// then it is not unpacked. Errors: it cannot be opened (for which `fix` is told), or there is no room to
// unpack it.
Result<OpenedLog> open_log(const std::filesystem::path& path, const std::string& fix,
                           Bytes most_unpacked = kMostUnpacked);

}  // namespace headroom::watch
