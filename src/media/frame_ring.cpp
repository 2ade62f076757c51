#include "media/frame_ring.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace headroom::media {
namespace {

constexpr std::uint64_t kMagic = 0x31474e4952524448;  // "HDRRING1"
constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW;
// Pixels start on a new page.
constexpr std::size_t kHeaderBytes = (sizeof(FrameRingHeader) + 4095) / 4096 * 4096;

}  // namespace

Bytes FrameRing::arena_offset() { return {static_cast<std::int64_t>(kHeaderBytes)}; }

Result<FrameRing> FrameRing::create(Bytes arena) {
  if (arena.count <= 0) return internal_error("cannot create the frame memory", "its size is not positive");
  UniqueFd fd(::memfd_create("headroom-frames", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return internal_error("cannot create the frame memory", errno_text(errno));
  const auto arena_size = static_cast<std::size_t>(arena.count);
  if (::ftruncate(fd.get(), static_cast<off_t>(kHeaderBytes + arena_size)) != 0)
    return internal_error(fmt::format("cannot create frame memory of {}", format_bytes(arena)),
                          errno_text(errno), "lower --max-frames-in-mem");
  if (::fcntl(fd.get(), F_ADD_SEALS, kSizeSeals | F_SEAL_SEAL) != 0)
    return internal_error("cannot seal the frame memory", errno_text(errno));
  auto ring = map(std::move(fd), arena_size);
  if (!ring) return ring;
  // Set only the fields: the slots of a new memfd are zero, and their pages stay untouched.
  ring->header_->magic = kMagic;
  ring->header_->arena_bytes = arena_size;
  return ring;
}

Result<FrameRing> FrameRing::attach(UniqueFd fd) {
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSizeSeals) != kSizeSeals)
    return internal_error("cannot use the frame memory", "its descriptor is not a memfd of sealed size");
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return internal_error("cannot use the frame memory", errno_text(errno));
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size <= kHeaderBytes)
    return internal_error("cannot use the frame memory",
                          fmt::format("{} bytes are too few for a frame", size));
  auto ring = map(std::move(fd), size - kHeaderBytes);
  if (!ring) return ring;
  if (ring->header_->magic != kMagic || ring->header_->arena_bytes != ring->arena_size_)
    return internal_error("cannot use the frame memory", "it has no frame ring header");
  return ring;
}

Result<FrameRing> FrameRing::map(UniqueFd fd, std::size_t arena_size) {
  void* mapping = ::mmap(nullptr, kHeaderBytes + arena_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (mapping == MAP_FAILED)
    return internal_error(
        fmt::format("cannot map frame memory of {}", format_bytes({static_cast<std::int64_t>(arena_size)})),
        errno_text(errno), "lower --max-frames-in-mem");
  return FrameRing(std::move(fd), mapping, arena_size);
}

FrameRing::FrameRing(UniqueFd fd, void* mapping, std::size_t arena_size)
    : fd_(std::move(fd)),
      header_(static_cast<FrameRingHeader*>(mapping), {kHeaderBytes + arena_size}),
      arena_(static_cast<std::uint8_t*>(mapping) + kHeaderBytes),
      arena_size_(arena_size) {}

void FrameRing::Unmap::operator()(FrameRingHeader* mapping) const { ::munmap(mapping, bytes); }

bool FrameRing::valid(const FrameSlot& slot) const {
  if (slot.width <= 0 || slot.height <= 0 || slot.offset > arena_size_) return false;
  // width × height < 2^62, so only × 3 could overflow. The division avoids that.
  const std::uint64_t pixels =
      static_cast<std::uint64_t>(slot.width) * static_cast<std::uint64_t>(slot.height);
  return pixels <= (arena_size_ - slot.offset) / 3;
}

Result<FrameSlot> FrameRing::slot(std::size_t i) const {
  if (i >= kMaximumSlots || i >= header_->slot_count)
    return internal_error(fmt::format("frame slot {} does not exist", i));
  FrameSlot copy = header_->slots[i];
  copy.name[sizeof(copy.name) - 1] = '\0';
  if (!valid(copy)) return internal_error(fmt::format("frame slot {} lies outside the frame memory", i));
  return copy;
}

void FrameRing::touch_pages() {
  const std::size_t size = kHeaderBytes + arena_size_;
  // Touch page by page instead of MADV_POPULATE_WRITE, which an emulator accepts without doing anything.
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  auto* bytes = reinterpret_cast<volatile std::uint8_t*>(header_.get());
  for (std::size_t at = 0; at < size; at += page) bytes[at] = bytes[at];
}

}  // namespace headroom::media
