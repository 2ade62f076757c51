// The reader of a worker's findings. Accepted findings have complete masks, and are the same after writing
// and reading them again.
#include <fcntl.h>
#include <unistd.h>

#include <sstream>

#include "base/files.h"
#include "base/json.h"
#include "bench/annotated_samples.h"
#include "fuzz.h"

void fuzz(std::string_view input) {
  using namespace headroom;
  std::istringstream lines{std::string(input)};
  while (const auto sample = bench::read_sample(lines)) {
    std::size_t pixels = 0;
    for (const Mask& mask : sample->findings.masks) {
      if (mask.values.size() != static_cast<std::size_t>(mask.width) * static_cast<std::size_t>(mask.height))
        std::abort();
      pixels += mask.values.size();
    }
    if (pixels > static_cast<std::size_t>(bench::kMostMaskPixels)) std::abort();
    const UniqueFd file(::memfd_create("sample", MFD_CLOEXEC));
    if (!file) return;
    bench::write_sample(file.get(), sample->sequence, sample->frame, sample->name, sample->findings);
    std::string text(static_cast<std::size_t>(::lseek(file.get(), 0, SEEK_END)), '\0');
    if (::pread(file.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) return;
    std::istringstream written(text);
    const auto again = bench::read_sample(written);
    if (!again || to_line(bench::to_json(again->findings)) != to_line(bench::to_json(sample->findings)))
      std::abort();
  }
}
