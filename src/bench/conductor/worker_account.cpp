#include "bench/conductor/worker_account.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <type_traits>

#include "base/json.h"

namespace headroom::bench {
namespace {

constexpr std::size_t kInMemory = 2048;  // frames, 112 KiB
constexpr std::size_t kPiece = 256;
static_assert(std::is_trivially_copyable_v<FrameTimes> && sizeof(FrameTimes) == 56);

// A file without a name. The kernel removes it when its last descriptor closes.
UniqueFd open_unnamed(const std::filesystem::path& folder) {
#ifdef O_TMPFILE
  if (UniqueFd file(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)); file) return file;
#endif
  std::string name = (folder / "frames.XXXXXX").string();  // for NFS and others without O_TMPFILE
  UniqueFd file(::mkostemp(name.data(), O_CLOEXEC));
  if (file) ::unlink(name.c_str());
  return file;
}

}  // namespace

void KeptFrames::add(const FrameTimes& frame) {
  const bool has_file = !folder_.empty() && problem_.empty();
  if (has_file && recent_.size() >= kInMemory) move_to_file();
  recent_.push_back(frame);
}

void KeptFrames::move_to_file() {
  if (!file_) file_ = open_unnamed(folder_);
  const std::string_view bytes{reinterpret_cast<const char*>(recent_.data()),
                               recent_.size() * sizeof(FrameTimes)};
  const Status moved = file_ ? write_all(file_.get(), bytes) : failure("", errno_text(errno));
  if (!moved) {
    problem_ = fmt::format("frame times stay in memory: cannot write a file in {}: {}", folder_.string(),
                           moved.error().why);
    return;
  }
  in_file_ += recent_.size();
  recent_.clear();
}

std::size_t KeptFrames::read(std::size_t first, std::span<FrameTimes> buffer) const {
  std::size_t got = 0;
  if (first < in_file_) {
    got = std::min(buffer.size(), in_file_ - first);
    const std::size_t size = got * sizeof(FrameTimes);
    if (::pread(file_.get(), buffer.data(), size, static_cast<off_t>(first * sizeof(FrameTimes))) !=
        static_cast<ssize_t>(size)) {
      problem_ = fmt::format("some frames are missing from the figures: cannot read their times: {}",
                             errno_text(errno));
      return 0;
    }
  }
  const std::size_t start = first + got - in_file_;  // index in recent_
  if (first + got < in_file_ || start >= recent_.size()) return got;
  const std::size_t more = std::min(buffer.size() - got, recent_.size() - start);
  std::copy_n(recent_.begin() + static_cast<std::ptrdiff_t>(start), more,
              buffer.begin() + static_cast<std::ptrdiff_t>(got));
  return got + more;
}

void KeptFrames::each(const std::function<void(std::span<const FrameTimes>)>& piece) const {
  std::array<FrameTimes, kPiece> frames;
  std::size_t done = 0;
  for (std::size_t got = 0; (got = read(done, frames)) > 0; done += got) piece(std::span(frames).first(got));
}

namespace {

void raise(std::optional<Bytes>& peak, Bytes bytes) { peak = std::max(peak, std::optional(bytes)); }

// Where a GPU's figures at the end of a phase go: the ledger's current bytes and peak, and the driver's
// figure of the process. nullptr: nowhere.
struct PhaseFigures {
  using Figure = std::optional<Bytes> GpuMemory::*;
  Figure charged = nullptr, peak = nullptr, process = nullptr;
};

PhaseFigures figures_at(Phase phase) {
  using Gpu = GpuMemory;
  switch (phase) {
    case Phase::runtime_loaded:
      return {&Gpu::runtime, nullptr, &Gpu::process_runtime};
    case Phase::model_loaded:
      return {&Gpu::loaded, &Gpu::load_peak, &Gpu::process_loaded};
    case Phase::warm:
      return {nullptr, &Gpu::run_peak, nullptr};
    case Phase::running:
      return {&Gpu::running, &Gpu::run_peak, &Gpu::process_running};
    case Phase::unloaded:
      return {&Gpu::residual, nullptr, &Gpu::process_residual};
    case Phase::start:
      break;
  }
  return {};
}

// Adds the figures of the worker's ledger at the end of a phase.
void add_ledger_figures(GpuMemory& memory, Phase phase, const LedgerReading& reading, bool has_failed) {
  memory.refused = reading.refused;
  if (memory.refused > 0) memory.refused_bytes = reading.refused_bytes;
  if (has_failed) {
    // The worker failed in the step after `phase`.
    raise(phase < Phase::model_loaded ? memory.load_peak : memory.run_peak, reading.peak);
    return;
  }
  const PhaseFigures figures = figures_at(phase);
  if (figures.charged != nullptr) memory.*figures.charged = reading.charged;
  if (figures.peak != nullptr) raise(memory.*figures.peak, reading.peak);
  if (phase == Phase::running) memory.pinned_host = reading.pinned;
}

void add_frames_event(WorkerAccount& account, const Json& event) {
  const auto index = static_cast<std::size_t>(get_integer(event, "model").value_or(0));
  if (index >= account.models.size()) return;
  for (const Json& times : get_member(event, "times")) {
    if (!times.is_array() || (times.size() != 5 && times.size() != 6)) continue;
    const auto at = [&](std::size_t i) {
      return times[i].is_number_integer() ? times[i].get<std::int64_t>() : 0;
    };
    FrameTimes frame{{at(0)}, {at(1)}, {at(2)}, {at(3)}, at(4), {}};
    if (times.size() == 6) frame.device = Nanoseconds{at(5)};
    account.models[index].frames.add(frame);
  }
}

// The counters replace the earlier ones; the times are added to them.
void add_pool_event(PoolAccount& pool, PoolAccount news) {
  const auto keep_earlier = [](std::vector<std::int64_t>& earlier, std::vector<std::int64_t>& times) {
    earlier.insert(earlier.end(), times.begin(), times.end());
    times = std::move(earlier);
  };
  keep_earlier(pool.frames, news.frames);
  for (std::size_t i = 0; i < std::min(pool.models.size(), news.models.size()); ++i) {
    keep_earlier(pool.models[i].loads, news.models[i].loads);
    keep_earlier(pool.models[i].waits, news.models[i].waits);
  }
  pool = std::move(news);
}

// The peaks of the last phase: the kernel's, and the ledger's on all devices.
std::optional<Bytes> ledger_peak_of(const PhaseAccount& phase) {
  if (phase.gpu.ledger.empty()) return std::nullopt;
  Bytes sum;
  for (const LedgerReading& reading : phase.gpu.ledger) sum += reading.peak;
  return sum;
}

void add_vos_event(WorkerAccount& account, const std::string& kind, const Json& event) {
  if (!account.vos) account.vos.emplace();
  VosResult& vos = *account.vos;
  const PhaseAccount last = account.phases.empty() ? PhaseAccount{} : account.phases.back();
  if (kind == "vos_model") {
    auto facts = message_from_json<VosModelFacts>(event);
    if (!facts) return;
    vos.side = facts->side;
    vos.label = std::move(facts->label);
    vos.pixel_mean = std::move(facts->pixel_mean);
    vos.pixel_std = std::move(facts->pixel_std);
  } else if (kind == "vos_trial") {
    auto trial = message_from_json<VosTrial>(event);
    if (!trial) return;
    trial->peak = last.peak;
    trial->gpu_peak = ledger_peak_of(last);
    vos.trials.push_back(*trial);
  } else if (kind == "vos_progress") {
    account.vos_progress.reset();
    auto progress = message_from_json<VosProgress>(event);
    if (!progress || progress->video.empty()) return;
    account.vos_progress = std::move(*progress);
    account.frames_before_clip = account.models.empty() ? 0 : account.models.front().frames.size();
  } else if (kind == "vos_clip") {
    auto end = message_from_json<VosClipEnd>(event);
    if (!end) return;
    end->clip.peak = last.peak;
    end->clip.gpu_peak = ledger_peak_of(last);
    vos.bank = std::max(vos.bank, std::optional(end->bank));
    if (end->has_lost_masks) vos.unscored.push_back(vos.clips.size());
    vos.clips.push_back(std::move(end->clip));
  } else if (kind == "vos_object") {
    if (auto end = message_from_json<VosObjectEnd>(event)) vos.object_ends.push_back(std::move(*end));
  } else if (kind == "vos_load") {
    const auto end = message_from_json<VosLoadEnd>(event);
    if (!end) return;
    vos.loads.push_back(end->after);
    if (end->gpu_after) vos.gpu_loads.push_back(*end->gpu_after);
  }
}

}  // namespace

GpuAccount::Device* GpuAccount::find(unsigned ordinal) {
  const auto found = std::ranges::find(devices_, ordinal, &Device::ordinal);
  return found == devices_.end() ? nullptr : &*found;
}

void GpuAccount::add_device(const DeviceFacts& facts) {
  if (find(facts.ordinal) != nullptr) return;
  GpuMemory& memory = devices_.emplace_back(Device{facts.ordinal, {}}).memory;
  memory.device = facts.device;
  memory.name = facts.name;
  memory.uuid = facts.uuid;
  if (facts.total > Bytes{}) memory.total = facts.total;
  memory.is_integrated = facts.is_integrated;
}

void GpuAccount::add_phase(Phase phase, const GpuReading& gpu, bool has_failed) {
  for (const LedgerReading& reading : gpu.ledger)
    if (Device* const device = find(reading.ordinal))
      add_ledger_figures(device->memory, phase, reading, has_failed);
  if (has_failed) return;
  for (Device& device : devices_)
    for (const DriverReading& share : gpu.driver) {
      // If there is one device and one share, they match, even if a MIG instance reports another UUID.
      const bool is_only = devices_.size() == 1 && gpu.driver.size() == 1;
      const auto figure = figures_at(phase).process;
      if (figure != nullptr && (is_only || share.uuid == device.memory.uuid))
        device.memory.*figure = share.used;
    }
}

std::vector<GpuMemory> GpuAccount::memory(const std::optional<ledger::Limits>& limits,
                                          ModelStatus status) const {
  std::vector<GpuMemory> list;
  for (const Device& device : devices_) {
    GpuMemory memory = device.memory;
    const std::uint64_t limit =
        limits && device.ordinal < ledger::kMaxDevices ? limits->bytes[device.ordinal] : ledger::kNoLimit;
    if (limit != ledger::kNoLimit) {
      memory.limit = Bytes{static_cast<std::int64_t>(limit)};
      if (memory.total == memory.limit) memory.total.reset();  // the ledger reports the limit as the total
      const std::optional<Bytes> peak = std::max(memory.load_peak, memory.run_peak);
      // If the worker died before its first report, this stays unknown.
      if (status == ModelStatus::oom && memory.refused > 0)
        memory.within_limit = false;
      else if (peak)
        memory.within_limit = *peak <= *memory.limit;
    }
    list.push_back(std::move(memory));
  }
  return list;
}

const PhaseAccount* WorkerAccount::find(Phase phase) const {
  for (auto it = phases.rbegin(); it != phases.rend(); ++it)
    if (it->phase == phase) return &*it;
  return nullptr;
}

void add_event(WorkerAccount& account, const Json& event) {
  const std::string kind = get_text(event, "event");
  if (kind == "phase") {
    auto phase = message_from_json<PhaseAccount>(event);
    if (!phase) return;
    account.gpus.add_phase(phase->phase, phase->gpu);
    account.peak_reset_works = account.peak_reset_works && phase->peak_was_reset;
    phase->time = phase->time - account.started;
    account.phases.push_back(std::move(*phase));
  } else if (kind == "runtime") {
    account.runtime = message_from_json<RuntimeFacts>(event).value_or(account.runtime);
  } else if (kind == "device") {
    if (const auto facts = message_from_json<DeviceFacts>(event)) account.gpus.add_device(*facts);
  } else if (kind == "model") {
    auto facts = message_from_json<ModelFacts>(event);
    if (facts) account.models.push_back({std::move(*facts), {}, KeptFrames(account.run_folder)});
  } else if (kind == "pipeline_model") {
    if (!account.models.empty())
      account.models.back().resident_after_load = get_bytes(event, "resident_bytes");
  } else if (kind == "frames") {
    add_frames_event(account, event);
  } else if (kind == "pool") {
    if (auto news = message_from_json<PoolAccount>(event)) add_pool_event(account.pool, std::move(*news));
  } else if (kind == "held") {
    account.frames_held = std::max(account.frames_held, get_integer(event, "frames").value_or(0));
    account.skipped_frames += get_integer(event, "skipped").value_or(0);
  } else if (kind == "warning") {
    account.warnings.push_back(get_text(event, "message"));
  } else if (kind == "cleanup") {
    if (auto point = message_from_json<CleanupPoint>(event)) account.cleanups.push_back(std::move(*point));
  } else if (kind == "measuring") {
    const auto start = message_from_json<MeasuringStart>(event);
    if (start) account.measuring = {start->time - account.started, start->warmup, start->cpu_time};
  } else if (kind == "decoder") {
    account.awaits_decoder = get_bool(event, "awaited").value_or(false);
  } else if (kind.starts_with("vos_")) {
    add_vos_event(account, kind, event);
  } else if (kind == "in_step") {
    if (auto in_step = message_from_json<InStep>(event)) account.in_step = std::move(*in_step);
  } else if (kind == "waiting") {
    account.waits_for_gate = true;
  } else if (kind == "error") {
    const auto error = message_from_json<WorkerError>(event).value_or(WorkerError{});
    account.status = error.kind;
    account.error = error.message;
    account.is_input_error = error.is_input;
    account.peak_at_error = error.peak;
    account.gpus.add_phase(account.phase(), error.gpu, true);
  } else if (kind == "done") {
    account.is_done = true;
  }
}

}  // namespace headroom::bench
