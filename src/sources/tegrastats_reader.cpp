// Parses a line with a cursor in one pass. Figures are numbers with an optional fraction and unit. A number
// counts only with everything that belongs to it: a line that is cut within "4321/62801MB" gives an unknown
// token instead of a machine with 628 MB.
#include "sources/tegrastats_reader.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/text.h"

namespace headroom::sources {
namespace {

constexpr double kHertzOfMegahertz = 1e6;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Reads from the front of a text. Every take_… function consumes its whole item or fails.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : at_(text.data()), end_(text.data() + text.size()) {}

  bool done() const { return at_ == end_; }
  const char* place() const { return at_; }
  void go_back_to(const char* place) { at_ = place; }
  std::string_view since(const char* place) const { return {place, static_cast<std::size_t>(at_ - place)}; }

  void skip_spaces() {
    while (at_ != end_ && is_space(*at_)) ++at_;
  }
  bool at_space_or_end() const { return at_ == end_ || is_space(*at_); }
  bool take(char c) {
    if (at_ == end_ || *at_ != c) return false;
    ++at_;
    return true;
  }
  bool take(std::string_view word) {
    if (static_cast<std::size_t>(end_ - at_) < word.size() || !std::equal(word.begin(), word.end(), at_))
      return false;
    at_ += word.size();
    return true;
  }
  std::string_view take_word() {
    const char* start = at_;
    while (!at_space_or_end()) ++at_;
    return since(start);
  }
  // A name of letters, digits and _.
  std::string_view take_name() {
    const char* start = at_;
    while (at_ != end_ &&
           (is_digit(*at_) || (*at_ >= 'A' && *at_ <= 'Z') || (*at_ >= 'a' && *at_ <= 'z') || *at_ == '_'))
      ++at_;
    return since(start);
  }
  // "-256", "44.562", but not "5." or "1e5".
  bool take_number(double& value) {
    const char* const digits = at_ != end_ && *at_ == '-' ? at_ + 1 : at_;
    if (digits == end_ || !is_digit(*digits)) return false;
    const auto [stop, code] = std::from_chars(at_, end_, value, std::chars_format::fixed);
    if (code != std::errc{} || stop[-1] == '.') return false;
    at_ = stop;
    return true;
  }
  // A whole number that is not negative.
  bool take_count(std::int64_t& value) {
    if (at_ == end_ || !is_digit(*at_)) return false;
    const auto [stop, code] = std::from_chars(at_, end_, value);
    if (code != std::errc{}) return false;
    at_ = stop;
    return true;
  }
  // "MB", "kB" (also "KB", "GB"): all are binary units.
  bool take_unit(std::int64_t& bytes) {
    if (take("MB")) return bytes = std::int64_t{1} << 20, true;
    if (take("kB") || take("KB")) return bytes = std::int64_t{1} << 10, true;
    if (take("GB")) return bytes = std::int64_t{1} << 30, true;
    return false;
  }

 private:
  static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
  const char* at_;
  const char* end_;
};

// At most 64 PiB, so that sums of sizes don't overflow.
bool multiply(std::int64_t count, std::int64_t unit, Bytes& bytes) {
  if (count > (std::int64_t{1} << 56) / unit) return false;
  bytes = {count * unit};
  return true;
}

// "4321/62801MB": used and total.
bool take_usage(Cursor& cursor, Bytes& used, Bytes& total) {
  std::int64_t a = 0, b = 0, unit = 0;
  return cursor.take_count(a) && cursor.take('/') && cursor.take_count(b) && cursor.take_unit(unit) &&
         multiply(a, unit, used) && multiply(b, unit, total);
}

// "(lfb 1759x4MB)", and IRAM's "(lfb 252kB)", for which `count` is 1.
bool take_largest_block(Cursor& cursor, std::int64_t& count, Bytes& size) {
  std::int64_t a = 0, unit = 0;
  cursor.skip_spaces();
  if (!cursor.take("(lfb ") || !cursor.take_count(a)) return false;
  count = 1;
  if (cursor.take('x')) {
    count = a;
    if (!cursor.take_count(a)) return false;
  }
  return cursor.take_unit(unit) && multiply(a, unit, size) && cursor.take(')');
}

// Fields that begin with their own word. Each function parses the field after the word and the space. It
// fills the sample only if the whole field is valid, and otherwise returns false.
bool take_ram(Cursor& cursor, SystemSample& sample) {
  Bytes used, total, size;
  std::int64_t count = 0;
  if (!take_usage(cursor, used, total) || !cursor.at_space_or_end()) return false;
  sample.ram_used = used;
  sample.ram_total = total;
  const char* behind = cursor.place();
  if (take_largest_block(cursor, count, size)) {
    sample.largest_free_block = size;
    sample.largest_free_blocks = count;
  } else {
    cursor.go_back_to(behind);
  }
  return true;
}

bool take_swap(Cursor& cursor, SystemSample& sample) {
  Bytes used, total;
  if (!take_usage(cursor, used, total) || !cursor.at_space_or_end()) return false;
  sample.swap_used = used;
  sample.swap_total = total;
  const char* behind = cursor.place();
  cursor.skip_spaces();
  std::int64_t cached = 0, unit = 0;
  Bytes bytes;
  if (cursor.take("(cached ") && cursor.take_count(cached) && cursor.take_unit(unit) && cursor.take(')') &&
      multiply(cached, unit, bytes))
    sample.swap_cached = bytes;
  else
    cursor.go_back_to(behind);
  return true;
}

// On-chip memory of boards before Xavier.
bool take_iram(Cursor& cursor, SystemSample& sample) {
  Bytes used, total, size;
  std::int64_t count = 0;
  if (!take_usage(cursor, used, total)) return false;
  const char* behind = cursor.place();
  const bool has_block = take_largest_block(cursor, count, size);
  if (!has_block) cursor.go_back_to(behind);
  if (!cursor.at_space_or_end()) return false;
  sample.other.push_back({"iram_used_bytes", static_cast<double>(used.count)});
  sample.other.push_back({"iram_bytes", static_cast<double>(total.count)});
  if (has_block) sample.other.push_back({"iram_lfb_bytes", static_cast<double>(size.count)});
  return true;
}

// "[3%@729,off,0%@1190]"; until L4T 24 "[25%,7%]@2218" with one clock for all cores.
bool take_list_of_cores(Cursor& cursor, SystemSample& sample) {
  double sum = 0, value = 0;
  int online = 0;
  do {
    CpuCore core;
    if (cursor.take("off")) {
      core.online = false;
    } else {
      if (!cursor.take_number(value) || !cursor.take('%')) return false;
      core.percent = value;
      sum += value;
      ++online;
      if (cursor.take('@')) {
        if (!cursor.take_number(value)) return false;
        core.clock_hz = value * kHertzOfMegahertz;
      }
    }
    sample.cores.push_back(core);
  } while (cursor.take(','));
  if (!cursor.take(']')) return false;
  if (cursor.take('@')) {
    if (!cursor.take_number(value)) return false;
    for (CpuCore& core : sample.cores)
      if (core.online) core.clock_hz = value * kHertzOfMegahertz;
  }
  if (!cursor.at_space_or_end()) return false;
  if (online > 0) sample.cpu_percent = sum / online;
  return true;
}

bool take_cores(Cursor& cursor, SystemSample& sample) {
  if (!cursor.take('[')) return false;  // a power rail has the same name
  sample.cores.clear();
  if (take_list_of_cores(cursor, sample)) return true;
  sample.cores.clear();
  return false;
}

// "fg 0% bg 10%", for NVIDIA's own cores (TX2, Xavier).
bool take_mts(Cursor& cursor, SystemSample& sample) {
  double fg = 0, bg = 0;
  if (!cursor.take("fg ") || !cursor.take_number(fg) || !cursor.take("% bg ") || !cursor.take_number(bg) ||
      !cursor.take('%') || !cursor.at_space_or_end())
    return false;
  sample.engines.push_back({"MTS fg", {}, fg, {}});
  sample.engines.push_back({"MTS bg", {}, bg, {}});
  return true;
}

bool take_edp(Cursor& cursor, SystemSample& sample) {
  double limit = 0;
  if (!cursor.take("limit ") || !cursor.take_number(limit) || !cursor.at_space_or_end()) return false;
  sample.other.push_back({"edp_limit", limit});
  return true;
}

// The text after an engine's name: "off", "3%", "3%@924", "3%@[924,924]", "@314", "@[0,0]". A number alone
// is a clock, too, but only for engines that are known to have nothing else.
struct Activity {
  bool off = false;
  std::optional<double> percent;
  std::array<double, 8> clocks_hz{};  // one per cluster of the GPU; the largest GPU has three
  std::size_t clocks = 0;
};

bool take_activity(Cursor& cursor, Activity& activity) {
  double value = 0;
  if (cursor.take("off")) return activity.off = true;
  if (cursor.take_number(value)) {
    if (!cursor.take('%')) return false;
    activity.percent = value;
  }
  if (!cursor.take('@')) return activity.percent.has_value();
  const bool list = cursor.take('[');
  do {
    if (!cursor.take_number(value) || activity.clocks == activity.clocks_hz.size()) return false;
    activity.clocks_hz[activity.clocks++] = value * kHertzOfMegahertz;
  } while (list && cursor.take(','));
  return !list || cursor.take(']');
}

std::string_view without_freq(std::string_view name) {
  return name.ends_with("_FREQ") ? name.substr(0, name.size() - 5) : name;
}

void add_activity(std::string_view name, const Activity& activity, SystemSample& sample) {
  name = without_freq(name);
  if (name == "EMC") {
    sample.emc_percent = activity.percent;
    if (activity.clocks > 0) sample.clocks_hz.push_back({"emc", activity.clocks_hz[0]});
    return;
  }
  if (name == "GR3D" && !activity.off) {
    sample.gpu_percent = activity.percent;
    constexpr std::array<const char*, 8> kNames{"gpu",  "gpu1", "gpu2", "gpu3",
                                                "gpu4", "gpu5", "gpu6", "gpu7"};
    for (std::size_t i = 0; i < activity.clocks; ++i)
      sample.clocks_hz.push_back({kNames[i], activity.clocks_hz[i]});
    return;
  }
  EngineReading& engine = sample.engines.emplace_back();
  engine.name = name;
  engine.on = !activity.off;
  engine.percent = activity.percent;
  if (activity.clocks > 0) engine.clock_hz = activity.clocks_hz[0];
}

// Engines whose field may be only a clock in MHz. Power values of L4T before 34 have no unit either, but
// always two figures.
bool is_engine(std::string_view name) {
  constexpr std::array<std::string_view, 12> kEngines{"APE", "MSENC", "NVENC", "NVDEC", "NVJPG", "VIC",
                                                      "OFA", "NVDLA", "PVA",   "SE",    "VDE",   "AVP"};
  name = without_freq(name);
  while (!name.empty() && is_digit(name.back())) name.remove_suffix(1);
  return std::ranges::find(kEngines, name) != kEngines.end();
}

// "2340mW/2340mW", "463/463", "5517mW", "5139mW/5139mW/5139mW": current, average and peak, in milliwatts.
bool take_power(Cursor& cursor, std::array<double, 3>& milliwatts, std::size_t& figures) {
  bool has_unit = false;
  figures = 0;
  do {
    if (figures == milliwatts.size() || !cursor.take_number(milliwatts[figures])) return false;
    const bool unit = cursor.take("mW");
    if (figures > 0 && unit != has_unit) return false;
    has_unit = unit;
    ++figures;
  } while (cursor.take('/'));
  return has_unit || figures > 1;
}

// The text after the @: "44.562C", and since L4T 39 "44.562C/44.562C" with the peak.
bool take_temperature(Cursor& cursor, double& now, std::optional<double>& peak) {
  double value = 0;
  if (!cursor.take_number(now) || !cursor.take('C')) return false;
  if (!cursor.take('/')) return true;
  if (!cursor.take_number(value) || !cursor.take('C')) return false;
  peak = value;
  return true;
}

bool is_real_temperature(std::string_view name, double celsius) {
  if (celsius <= -200) return false;  // the rail is off
  return !(name.starts_with("PMIC") && (celsius == 100 || celsius == 50));
}

// "04-11-2025 10:36:27"
bool take_clock(Cursor& cursor, SystemSample& sample) {
  const char* start = cursor.place();
  const auto digits = [&cursor](std::ptrdiff_t count) {
    const char* from = cursor.place();
    std::int64_t value = 0;
    return cursor.take_count(value) && cursor.place() - from == count;
  };
  if (!digits(2) || !cursor.take('-') || !digits(2) || !cursor.take('-') || !digits(4) || !cursor.take(' ') ||
      !digits(2) || !cursor.take(':') || !digits(2) || !cursor.take(':') || !digits(2))
    return false;
  sample.clock_text = cursor.since(start);
  return true;
}

using Section = bool (*)(Cursor&, SystemSample&);

Section section_of(std::string_view name) {
  if (name == "RAM") return take_ram;
  if (name == "SWAP") return take_swap;
  if (name == "IRAM") return take_iram;
  if (name == "MTS") return take_mts;
  if (name == "EDP") return take_edp;
  return nullptr;
}

// Parses the field after a name and a space by its shape.
bool take_field(std::string_view name, Cursor& cursor, SystemSample& sample) {
  const char* start = cursor.place();
  if (const Section section = section_of(name)) return section(cursor, sample);
  if ((name == "CPU" || name == "cpu") && take_cores(cursor, sample)) return true;
  cursor.go_back_to(start);
  if (Activity activity; take_activity(cursor, activity) && cursor.at_space_or_end()) {
    add_activity(name, activity, sample);
    return true;
  }
  cursor.go_back_to(start);
  std::array<double, 3> milliwatts{};
  std::size_t figures = 0;
  if (take_power(cursor, milliwatts, figures) && cursor.at_space_or_end()) {
    if (name == "NC") return true;  // a channel without a connection
    sample.power_watts.push_back({std::string(name), milliwatts[0] / 1e3});
    if (figures > 1) sample.power_average_watts.push_back({std::string(name), milliwatts[1] / 1e3});
    if (figures > 2) sample.power_peak_watts.push_back({std::string(name), milliwatts[2] / 1e3});
    return true;
  }
  cursor.go_back_to(start);
  if (double megahertz = 0; is_engine(name) && cursor.take_number(megahertz) && cursor.at_space_or_end()) {
    EngineReading& engine = sample.engines.emplace_back();
    engine.name = without_freq(name);
    engine.clock_hz = megahertz * kHertzOfMegahertz;
    return true;
  }
  return false;
}

// Parses a name and its field. Returns false if nothing was consumed.
bool take_token(Cursor& cursor, SystemSample& sample) {
  const std::string_view name = cursor.take_name();
  if (name.empty() || is_digit(name.front())) return false;
  if (cursor.take('@')) {
    double now = 0;
    std::optional<double> peak;
    if (!take_temperature(cursor, now, peak) || !cursor.at_space_or_end()) return false;
    if (is_real_temperature(name, now)) sample.temperatures_celsius.push_back({std::string(name), now});
    if (peak && is_real_temperature(name, *peak))
      sample.temperature_peaks_celsius.push_back({std::string(name), *peak});
    return true;
  }
  if (!cursor.at_space_or_end()) return false;
  cursor.skip_spaces();
  return take_field(name, cursor, sample);
}

// tegrastats prints swap between memory and cores, and omits it if there is none. Unknown if the line is
// cut before the cores, or if the swap field could not be parsed.
bool has_no_swap(const SystemSample& sample) {
  return sample.ram_total && !sample.cores.empty() && !sample.swap_total &&
         std::ranges::find(sample.unknown_tokens, "SWAP") == sample.unknown_tokens.end();
}

}  // namespace

bool read_tegrastats_line(std::string_view line, SystemSample& sample) {
  clear(sample);
  Cursor cursor(line);
  bool understood = false;
  for (cursor.skip_spaces(); !cursor.done(); cursor.skip_spaces()) {
    const char* start = cursor.place();
    const bool is_clock = is_digit(*start) && sample.clock_text.empty() && take_clock(cursor, sample);
    if (is_clock && cursor.at_space_or_end()) continue;
    cursor.go_back_to(start);
    if (take_token(cursor, sample)) {
      understood = true;
      continue;
    }
    cursor.go_back_to(start);
    sample.unknown_tokens.emplace_back(cursor.take_word());
  }
  if (has_no_swap(sample)) sample.swap_total = Bytes{};
  return understood;
}

}  // namespace headroom::sources
