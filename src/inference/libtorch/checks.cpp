#include "inference/libtorch/checks.h"

#include <algorithm>
#include <cstring>
#include <fstream>

#include "base/text.h"

namespace headroom::libtorch {
namespace {

// Signatures and sizes of the records at the end of a ZIP file, from PKWARE's APPNOTE.TXT.
constexpr std::uint32_t kEntry = 0x02014b50, kEnd = 0x06054b50, kEnd64 = 0x06064b50, kLocator64 = 0x07064b50;
constexpr std::size_t kEntryBytes = 46, kEndBytes = 22, kEnd64Bytes = 56, kLocator64Bytes = 20;
constexpr std::uint64_t kTail =
    65535 + kEndBytes;  // the end record may be followed by a comment of up to 65535 bytes
constexpr std::uint32_t kSeeEnd64 = 0xffffffff;
constexpr std::uint64_t kMostDirectory = 64 << 20;
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);

template <class Number>
std::optional<Number> number_at(std::string_view bytes, std::size_t place) {
  if (place > bytes.size() || bytes.size() - place < sizeof(Number)) return std::nullopt;
  Number number;
  std::memcpy(&number, bytes.data() + place, sizeof number);
  return number;
}

class File {
 public:
  explicit File(const std::string& path) : stream_(path, std::ios::binary | std::ios::ate) {
    if (const auto end = stream_.tellg(); end > 0) size_ = static_cast<std::uint64_t>(end);
  }
  std::uint64_t size() const { return size_; }
  // Returns these bytes, or fewer at the end of the file.
  std::string read(std::uint64_t place, std::uint64_t bytes) {
    if (place >= size_) return {};
    std::string text(std::min(bytes, size_ - place), '\0');
    stream_.clear();
    stream_.seekg(static_cast<std::streamoff>(place));
    stream_.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(std::max<std::streamsize>(stream_.gcount(), 0)));
    return text;
  }

 private:
  std::ifstream stream_;
  std::uint64_t size_ = 0;
};

struct Extent {
  std::uint64_t place = 0, bytes = 0;
};

// Finds the end record. Searches backwards, because a comment may follow it.
std::optional<std::size_t> find_end_record(std::string_view tail) {
  for (std::size_t place = tail.size(); place-- > 0;)
    if (tail.size() - place >= kEndBytes && number_at<std::uint32_t>(tail, place) == kEnd) return place;
  return std::nullopt;
}

// The directory of an archive of 4 GiB and more. Another record describes it; a locator before the end
// record points to that record.
std::optional<Extent> large_directory(File& file, std::string_view tail, std::size_t end) {
  if (end < kLocator64Bytes || number_at<std::uint32_t>(tail, end - kLocator64Bytes) != kLocator64)
    return std::nullopt;
  const auto place = number_at<std::uint64_t>(tail, end - kLocator64Bytes + 8);
  const std::string record = file.read(*place, kEnd64Bytes);
  if (record.size() < kEnd64Bytes || number_at<std::uint32_t>(record, 0) != kEnd64) return std::nullopt;
  return Extent{*number_at<std::uint64_t>(record, 48), *number_at<std::uint64_t>(record, 40)};
}

std::optional<Extent> directory_of(File& file) {
  const std::string tail = file.read(file.size() - std::min(file.size(), kTail), kTail);
  const auto end = find_end_record(tail);
  if (!end) return std::nullopt;
  const auto bytes = number_at<std::uint32_t>(tail, *end + 12),
             place = number_at<std::uint32_t>(tail, *end + 16);
  if (!bytes || !place) return std::nullopt;
  if (*place == kSeeEnd64) return large_directory(file, tail, *end);
  return Extent{*place, *bytes};
}

// The names of a ZIP file's entries; nothing if its directory is incomplete.
std::optional<std::vector<std::string>> entry_names(File& file) {
  const auto extent = directory_of(file);
  if (!extent || extent->bytes > kMostDirectory) return std::nullopt;
  const std::string directory = file.read(extent->place, extent->bytes);
  if (directory.size() != extent->bytes) return std::nullopt;
  std::vector<std::string> names;
  for (std::size_t place = 0; place < directory.size();) {
    const auto name = number_at<std::uint16_t>(directory, place + 28);
    const auto extra = number_at<std::uint16_t>(directory, place + 30);
    const auto comment = number_at<std::uint16_t>(directory, place + 32);
    if (number_at<std::uint32_t>(directory, place) != kEntry || !name || !extra || !comment ||
        directory.size() - place < kEntryBytes + *name)
      return std::nullopt;
    names.push_back(directory.substr(place + kEntryBytes, *name));
    place += kEntryBytes + *name + *extra + *comment;
  }
  return names;
}

// The start of a file from torch.save() before PyTorch 1.6: a pickle of protocol 2 with a magic number.
constexpr std::string_view kOldCheckpoint{"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9", 9};

// What is wrong with a file, by its kind.
constexpr const char* kProblems[] = {
    "",
    "the file holds weights or a pickled Python object (torch.save), not a TorchScript module; create one in "
    "Python with torch.jit.trace or torch.jit.script and save(), or export the model to .onnx",
    "the file is a program of torch.export, which TorchScript cannot run; create a module with "
    "torch.jit.trace and save(), or export the model to .onnx",
    "the file is truncated or damaged: it begins as an archive, but its directory is incomplete; copy it "
    "again",
    "the file is not a TorchScript archive; create one in Python with torch.jit.trace or torch.jit.script "
    "and "
    "save()"};

constexpr std::size_t kLongest = 400;

std::string_view before(std::string_view text, std::string_view words) {
  return text.substr(0, std::min(text.find(words), text.size()));
}

// The text after the last occurrence of `words`; the whole text if there is none.
std::string_view after_last(std::string_view text, std::string_view words) {
  const std::size_t at = text.rfind(words);
  return at == std::string_view::npos ? text : text.substr(at + words.size());
}

// The core of a message. The interpreter prints its stack first, then the exception; the importer prints
// the error first, then its position.
std::string_view core_message(std::string_view message) {
  message = before(message, "\nException raised from ");
  for (const std::string_view thrown : {"RuntimeError: ", "torch.jit.Error: "})
    if (plugin::mentions(message, thrown)) return after_last(message, thrown);
  return before(before(message, ":\n  File \""), "Serialized   File \"");
}

// Removes the prefix of "[enforce fail at alloc_cpu.cpp:75] err == 0. DefaultCPUAllocator: …".
std::string_view without_enforce(std::string_view reason) {
  if (!starts_with(reason, "[enforce fail at ")) return reason;
  const std::size_t end = reason.find(". ");
  return end == std::string_view::npos ? reason : reason.substr(end + 2);
}

constexpr int kAmpere = 8;  // the first generation with bfloat16

}  // namespace

ArchiveKind archive_kind(const std::string& path) {
  File file(path);
  const std::string head = file.read(0, kOldCheckpoint.size());
  if (head == kOldCheckpoint) return ArchiveKind::checkpoint;
  if (!starts_with(head, "PK")) return ArchiveKind::foreign;
  const auto names = entry_names(file);
  if (!names) return ArchiveKind::damaged;
  // All entries lie in one folder with an arbitrary name.
  const auto has = [&](std::string_view end) {
    return std::any_of(names->begin(), names->end(),
                       [&](const std::string& name) { return ends_with(name, end); });
  };
  const bool has_code = std::any_of(names->begin(), names->end(), [](const std::string& name) {
    return name.find("/code/") != std::string::npos;
  });
  if (has("/archive_format") || has("serialized_exported_program.json")) return ArchiveKind::exported_program;
  if (has_code) return ArchiveKind::torchscript;
  return has("/data.pkl") ? ArchiveKind::checkpoint : ArchiveKind::foreign;
}

void require_torchscript(const std::string& path) {
  const ArchiveKind kind = archive_kind(path);
  if (kind != ArchiveKind::torchscript)
    throw plugin::Failure{HR_ERROR_FAILED, kProblems[static_cast<std::size_t>(kind)]};
}

std::string clean_message(std::string_view message) {
  std::string_view reason = without_enforce(core_message(message));
  // After the figures of a refusal, LibTorch gives advice on environment variables.
  reason = before(reason, " If reserved ");
  reason = before(reason, "Could not find any similar ops");
  std::string clean = plugin::without_source_places(reason);
  if (clean.size() > kLongest) clean = clean.substr(0, kLongest) + "…";
  return clean;
}

Failure classify(std::string_view message) {
  return plugin::classify(
      message, clean_message(message),
      {{{"Unknown builtin op:"}, "it uses an operator that this LibTorch does not support: "},
       {{"PytorchStreamReader failed"}, "the file is damaged: "},
       {{"file in archive is not in a subdirectory"}, "the file is damaged: "},
       {{"Unknown type name", "__torch__.torch.classes"},
        "it uses a class that this LibTorch does not support: "}});
}

void check_settings(const hr_settings& settings, bool on_device) {
  if (settings.threads < 0)
    throw failed("{} threads is invalid; use 0 for the runtime's choice", settings.threads);
  const std::pair<bool, const char*> unsupported[] = {
      {settings.arena == 0 || settings.arena_same_as_requested != 0,
       on_device ? "LibTorch's caching allocator has no growth setting; omit arena and extend"
                 : "LibTorch has no arena on the CPU; omit arena and extend"},
      {settings.memory_pattern == 0, "LibTorch has no memory pattern; omit pattern=off"},
      {settings.spinning == 0,
       "OpenMP controls the spinning of LibTorch's threads; omit spinning=off and set OMP_WAIT_POLICY in the "
       "environment"},
      {settings.conv_small_workspace != 0 || settings.conv_search == static_cast<int>(ConvSearch::standard),
       "LibTorch supports only convolutions=exhaustive (cuDNN's benchmark) and heuristic (cuDNN's rules), "
       "without a workspace limit"},
      {settings.mapped != 0, "LibTorch reads a module's weights into memory; omit mapped=on"},
      {settings.device_graph != 0 && !on_device, "a CUDA graph needs a GPU; omit --capture-graph"}};
  for (const auto& [is_set, why] : unsupported)
    if (is_set) throw Failure{HR_ERROR_FAILED, why};
}

Precision precision_of(const hr_settings& settings, const Capabilities& capabilities) {
  const bool on_device = capabilities.compute_capability.has_value();
  const bool has_bf16 = capabilities.compute_capability.value_or(0) >= kAmpere;
  const auto asked = static_cast<Precision>(settings.precision);
  if (asked == Precision::automatic) return has_bf16 ? Precision::bf16 : Precision::fp32;
  if (asked == Precision::fp16 && !on_device && !capabilities.has_half_on_cpu)
    throw failed("autocast to fp16 on the CPU needs LibTorch 2.4 or newer; use --precision bf16 or fp32");
  if (asked == Precision::bf16 && on_device && !has_bf16)
    throw failed("this GPU does not support bf16, which needs Ampere or newer; use --precision fp16 or fp32");
  return asked;
}

GraphOptimization graph_optimization_of(const hr_settings& settings, Precision precision) {
  const int level = settings.graph_level;
  // Autocast cannot change the type of fused or oneDNN operators.
  if (level == 99)
    return settings.prepacking == 0 || precision != Precision::fp32 ? GraphOptimization::fold
                                                                    : GraphOptimization::optimize;
  if (level < 0 || level > 2) throw failed("invalid graph level {}; use 0, 1, 2 or 99", level);
  return static_cast<GraphOptimization>(level);
}

}  // namespace headroom::libtorch
