#include "media/streams/open_stream.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "base/text.h"
#include "media/streams/stream_reader.h"

namespace headroom::media {
namespace fs = std::filesystem;
namespace {

std::string name_of_subject(const SourceSpec& spec, const std::string& path) {
  switch (spec.kind) {
    case SourceKind::camera:
      return fmt::format("camera {}", spec.camera_index);
    case SourceKind::csi:
      return fmt::format("CSI camera {}", spec.camera_index);
    case SourceKind::stream:
      return "the stream " + spec.shown_path();
    case SourceKind::gst:
      return "the pipeline " + spec.describe();
    case SourceKind::raw:
      return "the raw frames " + spec.path;
    default:
      return "the video " + path;
  }
}

const char* fix_for(SourceKind kind) {
  switch (kind) {
    case SourceKind::camera:
      return "check that no other program uses it";
    case SourceKind::csi:
      return "check that no other program uses it, and that JetPack's nvarguscamerasrc is installed (apt "
             "install nvidia-l4t-gstreamer)";
    case SourceKind::stream:
      return "check the address, the sender and the network";
    case SourceKind::gst:
      return "try it with gst-launch-1.0";
    case SourceKind::raw:
      return "check the program that writes them";
    default:
      return "check that a video player opens it, or convert it to mp4";
  }
}

StreamSubject subject_of(const SourceSpec& spec, const std::string& path) {
  return {name_of_subject(spec, path), fix_for(spec.kind), spec.secrets(), is_live(spec)};
}

Status check_video_file(const std::string& path, const std::string& what) {
  std::error_code code;
  if (!fs::exists(path, code)) return input_error(what, "no such file", "check the path");
  if (!fs::is_regular_file(path, code))  // opening a FIFO waits for a writer
    return input_error(
        what, "it is not a regular file",
        "give the path of a video, or use raw=FIFO,WIDTHxHEIGHT,FORMAT for a FIFO of raw frames");
  if (::access(path.c_str(), R_OK) != 0)
    return input_error(what, "permission denied", "check the file's permissions");
  if (fs::file_size(path, code) == 0 && !code) return input_error(what, "the file is empty");
  return {};
}

Status check_camera(int index, const std::string& what) {
  const std::string device = fmt::format("/dev/video{}", index);
  std::error_code code;
  if (!fs::exists(device, code))
    return input_error(what, "no device " + device,
                       "connect the camera, or use another number (ls /dev/video*)");
  if (::access(device.c_str(), R_OK | W_OK) != 0)
    return input_error(what, "no permission for " + device, "add yourself to the group video");
  return {};
}

std::optional<double> number_of(std::string_view text) {
  char* end = nullptr;
  const std::string copy(text);
  const double value = std::strtod(copy.c_str(), &end);
  return end != copy.c_str() && value > 0 && value < 2e9 ? std::optional(value) : std::nullopt;
}

// nb_frames=795, or if the container lacks it: avg_frame_rate=10/1 and duration=79.5.
std::int64_t frames_in(std::string_view probed) {
  std::optional<double> frames, rate, duration;
  for (const std::string_view line : split(probed, '\n')) {
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view key = line.substr(0, equals), value = line.substr(equals + 1);
    if (key == "nb_frames") frames = number_of(value);
    if (key == "duration") duration = number_of(value);
    if (const auto parts = split(value, '/'); key == "avg_frame_rate" && parts.size() == 2) {
      const auto over = number_of(parts[0]), under = number_of(parts[1]);
      if (over && under) rate = *over / *under;
    }
  }
  if (!frames && rate && duration) frames = *rate * *duration;
  return frames ? std::llround(*frames) : 0;
}

std::int64_t probe_frames(const std::string& path) {
  auto output = Pipe::create();
  if (!output) return 0;
  SpawnOptions options;
  options.command = frame_count_command(path);
  const UniqueFd null_device(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  options.stdout_fd = output->write_end.get();
  options.stderr_fd = null_device.get();
  const auto probe = Subprocess::spawn(options);
  output->write_end.reset();
  const auto text = read_descriptor(output->read_end.get(), "ffprobe", kibibytes(64));
  return probe && text ? frames_in(*text) : 0;
}

Result<std::unique_ptr<VideoReader>> open_with(StreamTool tool, const SourceSpec& spec,
                                               const std::string& path, Nanoseconds stall_time) {
  StreamSubject subject = subject_of(spec, path);
  UniqueFd file;
  if (spec.kind == SourceKind::video) file.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  auto process = ToolProcess::start(tool, stream_command(tool, spec, path), file.get());
  if (!process) return forward_error(process);
  const auto stalls_after = subject.is_live ? std::optional(stall_time) : std::nullopt;
  auto reader = std::make_unique<StreamReader>(StreamInput(std::move(*process), stalls_after),
                                               tool == StreamTool::ffmpeg ? Framing::bmp : Framing::padded,
                                               std::move(subject));
  if (auto begun = reader->begin(); !begun) return forward_error(begun);
  if (spec.kind == SourceKind::video) reader->count_frames_with([path] { return probe_frames(path); });
  return reader;
}

Result<std::unique_ptr<VideoReader>> open_raw_frames(const SourceSpec& spec, Nanoseconds stall_time) {
  auto frames = parse_raw_frames(spec.path);
  if (!frames) return forward_error(frames);
  const bool is_fifo = frames->is_fifo();
  // Without O_NONBLOCK, opening a FIFO waits for a writer without bound.
  UniqueFd file(::open(frames->path.c_str(), O_RDONLY | O_CLOEXEC | (is_fifo ? O_NONBLOCK : 0)));
  if (!file)
    return input_error(fmt::format("cannot open the raw frames {}", frames->path), errno_text(errno),
                       "check the path and the file's permissions");
  const auto stalls_after = is_fifo ? std::optional(stall_time) : std::nullopt;
  auto reader = std::make_unique<StreamReader>(StreamInput(std::move(file), stalls_after), Framing::packed,
                                               subject_of(spec, {}), frames->size, frames->order);
  std::error_code code;
  const auto bytes = is_fifo ? 0 : static_cast<std::int64_t>(fs::file_size(frames->path, code));
  if (!code)
    reader->count_frames_with(
        [count = bytes / static_cast<std::int64_t>(frames->frame_bytes())] { return count; });
  return reader;
}

}  // namespace

bool is_live(const SourceSpec& spec) {
  if (spec.kind != SourceKind::raw)
    return spec.kind != SourceKind::image_dir && spec.kind != SourceKind::video;
  const auto frames = parse_raw_frames(spec.path);
  return frames && frames->is_fifo();
}

bool is_exclusive(const SourceSpec& spec) {
  return has_camera_number(spec.kind) || (spec.kind == SourceKind::raw && is_live(spec));
}

Status check_stream_tools(const SourceSpec& spec) {
  if (spec.kind == SourceKind::image_dir || spec.kind == SourceKind::raw) return {};
  const std::vector<StreamTool> tools = tools_for(spec.kind);
  for (const StreamTool tool : tools)
    if (is_installed(program_of(tool))) return {};
  constexpr const char* kGStreamer =
      "apt install gstreamer1.0-tools gstreamer1.0-plugins-base gstreamer1.0-plugins-good gstreamer1.0-libav";
  const std::string what = fmt::format("cannot read {}", spec.describe());
  if (tools.size() == 1) return input_error(what, "gst-launch-1.0 is not installed", kGStreamer);
  return input_error(what, "neither ffmpeg nor gst-launch-1.0 is installed",
                     fmt::format("apt install ffmpeg, or {}", kGStreamer));
}

Result<std::unique_ptr<VideoReader>> open_stream(const SourceSpec& spec, const std::string& path,
                                                 Nanoseconds stall_time) {
  if (spec.kind == SourceKind::raw) return open_raw_frames(spec, stall_time);
  const std::string what = fmt::format("cannot open {}", name_of_subject(spec, path));
  Status usable;
  if (spec.kind == SourceKind::video) usable = check_video_file(path, what);
  if (spec.kind == SourceKind::camera) usable = check_camera(spec.camera_index, what);
  if (usable) usable = check_stream_tools(spec);
  if (!usable) return forward_error(usable);
  std::optional<Error> first;
  for (const StreamTool tool : tools_for(spec.kind)) {
    if (!is_installed(program_of(tool))) continue;
    auto reader = open_with(tool, spec, path, stall_time);
    // Only a file can be read by another program at once; a live source would stall twice.
    if (reader || spec.kind != SourceKind::video) return reader;
    if (!first) first = std::move(reader.error());
  }
  return tl::unexpected<Error>(*first);
}

}  // namespace headroom::media
