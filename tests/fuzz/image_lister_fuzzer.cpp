// The image lister on folders that are made from the input. Each line is an entry: "name" is a file, "name/"
// a folder, "a/b.jpg" a file in a folder. The first line is also parsed as a source. Listing twice gives the
// same result: sorted, images only, within the limits, with the same fingerprint.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/text.h"
#include "fuzz.h"
#include "media/source_scan.h"

namespace {
namespace fs = std::filesystem;
using namespace headroom;

constexpr std::size_t kMostEntries = 24, kMostDepth = 5;

void make_entry(const std::string& root, std::string_view line) {
  std::string path = root;
  const auto parts = split(line.substr(0, 200), '/');
  for (std::size_t i = 0; i < parts.size() && i < kMostDepth; ++i) {
    const std::string_view part = parts[i];
    if (part.empty() || part == "." || part == ".." || part.find('\0') != std::string_view::npos) return;
    path += '/';
    path += part;
    if (i + 1 < parts.size())
      ::mkdir(path.c_str(), 0700);
    else
      ::close(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  }
}

void check(bool holds) {
  if (!holds) std::abort();
}

void check_listing(const std::string& root) {
  const auto all = media::list_image_folder(root, {});
  const media::ScanLimits limits{2, 1, 3};
  const auto some = media::list_image_folder(root, limits);
  check(all.has_value() == some.has_value());
  if (!all) return;
  check(!all->empty() && some->size() == std::min<std::size_t>(2, all->size()));
  for (std::size_t i = 0; i < some->size(); ++i) {
    const auto& images = (*all)[i].images;
    check(!images.empty() && std::is_sorted(images.begin(), images.end(), natural_less));
    check(std::all_of(images.begin(), images.end(), media::is_image_name));
    check(std::equal((*some)[i].images.begin(), (*some)[i].images.end(), images.begin()));
    check((*some)[i].images.size() <= 3 && (*some)[i].objects.size() <= 1);
  }
  const SourceSpec spec{SourceKind::image_dir, root, 0};
  check(*media::source_fingerprint(spec) == *media::source_fingerprint(spec));
}

}  // namespace

void fuzz(std::string_view text) {
  const auto lines = split(text, '\n');
  const auto spec = media::parse_source(lines.front());
  if (!spec && spec.error().what.empty()) std::abort();
  std::string root = (fs::temp_directory_path() / "headroom-fuzz-XXXXXX").string();
  if (::mkdtemp(root.data()) == nullptr) return;
  for (std::size_t i = 0; i < lines.size() && i < kMostEntries; ++i) make_entry(root, lines[i]);
  check_listing(root);
  std::error_code ignored;
  fs::remove_all(root, ignored);
}
