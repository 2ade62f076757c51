// Arrays and mipmapped arrays. Only the driver knows how much memory an array needs, and it answers only for
// arrays whose memory is mapped later. So the hook creates a trial array of the same shape, which takes no
// memory, asks for its requirements and destroys it.
#include <mutex>

#include "preload/device_reclaim.h"
#include "types/lock.h"

namespace headroom::preload::driver {
namespace {

// Estimates the bytes from the number of elements, for drivers that do not return the requirements.
std::uint64_t estimate_bytes(const Array3dDescriptor& shape, unsigned levels) {
  const int format = shape.format;
  const std::uint64_t element = format == 0x01 || format == 0x08                     ? 1
                                : format == 0x02 || format == 0x09 || format == 0x10 ? 2
                                                                                     : 4;
  const auto at_least_one = [](std::size_t extent) { return extent > 0 ? extent : 1; };
  std::uint64_t bytes = shape.width * at_least_one(shape.height) * at_least_one(shape.depth) * element *
                        (shape.channels > 0 ? shape.channels : 1);
  std::uint64_t all = 0;
  for (unsigned level = 0; level < (levels > 0 ? levels : 1); ++level, bytes /= 4) all += bytes;
  return all;
}

// Remembers the requirements of recent shapes: a trial costs as much as the array itself, and programs create
// arrays of few shapes. A thread that finds the table locked asks the driver, so no thread waits, and neither
// does a child after fork.
class RequirementCache {
 public:
  // `query` returns the bytes of a shape that is not in the table; 0: the driver does not know.
  template <class Ask>
  std::uint64_t find(const Array3dDescriptor& shape, unsigned levels, unsigned device, const Ask& query) {
    std::unique_lock held(lock_, std::try_to_lock);
    if (!held) return query();
    for (const Requirement& requirement : requirements_)
      if (requirement.bytes != 0 && requirement.levels == levels && requirement.device == device &&
          is_same(requirement.shape, shape))
        return requirement.bytes;
    const std::uint64_t bytes = query();
    if (bytes != 0) requirements_[next_++ % kShapes] = {shape, levels, device, bytes};
    return bytes;
  }

 private:
  static constexpr unsigned kShapes = 16;
  struct Requirement {
    Array3dDescriptor shape;
    unsigned levels, device;
    std::uint64_t bytes;
  };
  static bool is_same(const Array3dDescriptor& a, const Array3dDescriptor& b) {
    return a.width == b.width && a.height == b.height && a.depth == b.depth && a.format == b.format &&
           a.channels == b.channels && a.flags == b.flags;
  }
  Lock lock_;
  Requirement requirements_[kShapes] = {};
  unsigned next_ = 0;
};
constinit RequirementCache requirement_cache;

std::uint64_t query_array(const Array3dDescriptor& shape, unsigned device) {
  Array3dDescriptor deferred = shape;
  deferred.flags |= kArrayDeferred;
  Opaque trial = nullptr;
  MemoryRequirements requirements{};
  if (real.cuArrayGetMemoryRequirements == nullptr || real.cuArray3DCreate_v2 == nullptr ||
      real.cuArrayDestroy == nullptr || real.cuArray3DCreate_v2(&trial, &deferred) != kSuccess)
    return 0;
  const Result result = real.cuArrayGetMemoryRequirements(&requirements, trial, static_cast<Device>(device));
  real.cuArrayDestroy(trial);
  return result == kSuccess ? requirements.size : 0;
}
std::uint64_t required_for_array(const Array3dDescriptor& shape, unsigned device) {
  const std::uint64_t required =
      requirement_cache.find(shape, 0, device, [&] { return query_array(shape, device); });
  return required != 0 ? required : estimate_bytes(shape, 1);
}

std::uint64_t query_mipmap(const Array3dDescriptor& shape, unsigned levels, unsigned device) {
  Array3dDescriptor deferred = shape;
  deferred.flags |= kArrayDeferred;
  Opaque trial = nullptr;
  MemoryRequirements requirements{};
  if (real.cuMipmappedArrayGetMemoryRequirements == nullptr || real.cuMipmappedArrayCreate == nullptr ||
      real.cuMipmappedArrayDestroy == nullptr ||
      real.cuMipmappedArrayCreate(&trial, &deferred, levels) != kSuccess)
    return 0;
  const Result result =
      real.cuMipmappedArrayGetMemoryRequirements(&requirements, trial, static_cast<Device>(device));
  real.cuMipmappedArrayDestroy(trial);
  return result == kSuccess ? requirements.size : 0;
}
std::uint64_t required_for_mipmap(const Array3dDescriptor& shape, unsigned levels, unsigned device) {
  const std::uint64_t required =
      requirement_cache.find(shape, levels, device, [&] { return query_mipmap(shape, levels, device); });
  return required != 0 ? required : estimate_bytes(shape, levels);
}

// Arrays that are mapped later get their memory by handle (cuMemMapArrayAsync).
bool allocates_on_creation(const Array3dDescriptor& shape) {
  return (shape.flags & (kArraySparse | kArrayDeferred)) == 0;
}

Array3dDescriptor wide(const Array3dDescriptor& shape) { return shape; }
Array3dDescriptor wide(const Array3dDescriptorV1& shape) {
  return {shape.width, shape.height, shape.depth, shape.format, shape.channels, shape.flags};
}
Array3dDescriptor wide(const auto& shape) {
  return {shape.width, shape.height, 0, shape.format, shape.channels, 0};
}

template <class Shape>
Result create_array(DriverHook& hook, auto call, Opaque* array, const Shape* shape) {
  CurrentDevice where;
  if (shape == nullptr || array == nullptr || !allocates_on_creation(wide(*shape)) ||
      !hook.get_current(where))
    return call(array, shape);
  const Entry entry = entry_of(EntryType::array, DeviceMemoryKind::array, where,
                               required_for_array(wide(*shape), where.device));
  return allocate(
      hook, entry, [&] { return call(array, shape); }, [&] { return number_of(*array); });
}

Result create_mipmap(DriverHook& hook, auto call, Opaque* mipmap, const Array3dDescriptor* shape,
                     unsigned levels) {
  CurrentDevice where;
  if (shape == nullptr || mipmap == nullptr || !allocates_on_creation(*shape) || !hook.get_current(where))
    return call(mipmap, shape, levels);
  const Entry entry = entry_of(EntryType::mipmap, DeviceMemoryKind::array, where,
                               required_for_mipmap(*shape, levels, where.device));
  return allocate(
      hook, entry, [&] { return call(mipmap, shape, levels); }, [&] { return number_of(*mipmap); });
}

template <EntryType type>
Result destroy_array(DriverHook& hook, auto call, Opaque array) {
  constexpr auto kArray = ledger::Ledger::Owner::array;
  const std::uint64_t parts = device_ledger.begin_destroy(kArray, number_of(array));
  const Result result = release(hook, type, number_of(array), [&] { return call(array); });
  if (result != kSuccess) device_ledger.undo_destroy(kArray, parts, number_of(array));
  if (result != kSuccess || parts == 0) return result;
  ledger::Ledger::Pass pass;
  for (Entry freed; device_ledger.unmap_next_part(parts, pass, freed);)
    if (freed.address != 0) hook.record_release(freed);
  return result;
}

}  // namespace

HEADROOM_ARRAY_CALLS(HEADROOM_DEFINE_HOOK)

}  // namespace headroom::preload::driver
