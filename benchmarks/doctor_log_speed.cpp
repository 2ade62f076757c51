// Measures how fast headroom doctor reads logs: writes a log of a given size, reads it on one thread, and
// prints seconds, rate and the process's peak memory. One line in a hundred contains a word that rules search
// for. One line in ten thousand (or in LINES_A_MESSAGE) is a message that a rule recognizes.
//
//     doctor_log_speed [MEBIBYTES] [FOLDER] [LINES_A_MESSAGE]
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>

#include "base/files.h"
#include "base/text.h"
#include "base/units.h"
#include "doctor/log/log_findings.h"

namespace {

using namespace headroom;

constexpr std::array kOrdinary{
    "2026-11-22T10:14:03.120Z INFO  [pipeline] frame {} decoded in 3.2 ms, queue 2/8, dropped 0",
    "Nov 22 10:14:03 orin kernel: [ {}.188213] usb 1-2.1: new high-speed USB device number 7 using "
    "tegra-xusb",
    "192.168.1.17 - - [22/Nov/2026:10:14:03 +0000] \"GET /api/v1/state?n={} HTTP/1.1\" 200 5120 \"-\" "
    "\"curl/7.88\"",
    "[{}/412] Building CXX object src/CMakeFiles/app.dir/detector/yolo_decoder.cpp.o",
    "[INFO] [1732270443.{}] [camera_node]: published image 1920x1080 bgr8, 30.0 Hz",
    "epoch 3 step {} loss 0.4312 lr 1.0e-04 grad_norm 1.22 tokens/s 18231",
    "{} packets transmitted, 5 received, 0% packet loss, time 4006ms, rtt min/avg/max 0.3/0.4/0.6 ms"};
constexpr const char* kCandidate =
    "2026-11-22T10:14:03.120Z INFO memory: resident {} MiB, Cannot allocate more than asked";
constexpr const char* kMessage =
    "RuntimeError: CUDA out of memory. Tried to allocate 2.00 MiB (GPU 0; 3.79 GiB total capacity; 654.97 "
    "MiB already "
    "allocated; 6.00 MiB free; 666.00 MiB reserved in total by PyTorch) [{}]";

bool write_log(const std::filesystem::path& path, std::int64_t size, std::int64_t lines_a_message) {
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!fd) return false;
  std::mt19937 random(1);
  std::string text;
  for (std::int64_t written = 0, line = 0; written < size;) {
    text.clear();
    while (text.size() < (1 << 20)) {
      ++line;
      const char* form = line % lines_a_message == 0 ? kMessage
                         : line % 100 == 0           ? kCandidate
                                                     : kOrdinary[random() % kOrdinary.size()];
      text += fmt::format(fmt::runtime(form), random() % 1'000'000);
      text += '\n';
    }
    if (!write_all(fd.get(), text)) return false;
    written += static_cast<std::int64_t>(text.size());
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  const auto size = mebibytes(argc > 1 ? parse_number<std::int64_t>(argv[1]).value_or(0) : 1024);
  const std::filesystem::path folder = argc > 2 ? argv[2] : std::filesystem::temp_directory_path();
  const auto path = folder / fmt::format("doctor_log_speed.{}.log", ::getpid());
  const auto lines_a_message = argc > 3 ? parse_number<std::int64_t>(argv[3]).value_or(0) : 10'000;
  if (lines_a_message < 1) return fmt::print(stderr, "invalid LINES_A_MESSAGE: must be 1 or more\n"), 2;
  if (!write_log(path, size.count, lines_a_message))
    return fmt::print(stderr, "cannot write {}\n", path.string()), 1;
  for (int round = 0; round < 5; ++round) {
    const Nanoseconds begin = monotonic_now();
    doctor::LogFindings logs;
    const auto read = logs.read_file(path.string());
    const double seconds = (monotonic_now() - begin).seconds();
    const auto findings = logs.findings();
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    fmt::print("{:.2f} s, {:.0f} MB/s, peak memory {:.1f} MiB, {} findings{}\n", seconds,
               static_cast<double>(std::filesystem::file_size(path)) / 1e6 / seconds,
               static_cast<double>(usage.ru_maxrss) / 1024, findings.size(),
               read ? "" : ": " + read.error().sentence());
  }
  std::filesystem::remove(path);
  return 0;
}
