// The open files of the whole machine: /proc/sys/fs/file-nr, "allocated free most".
#include "base/text.h"
#include "sources/metric_source.h"

namespace headroom::sources {

SourcePointer make_open_files_source(const fs::path& root) {
  return make_file_source(root / "proc/sys/fs/file-nr", "open files",
                          [](std::string_view text, SystemSample& sample) {
                            sample.open_files = parse_number<std::int64_t>(take_word(text));
                            return sample.open_files.has_value();
                          });
}

}  // namespace headroom::sources
