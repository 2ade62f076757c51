// Arrays and mipmapped arrays. How much memory the driver needs for one is known only to the driver, and it
// tells for an array whose memory is mapped later: so one of the same shape is made, which takes no memory,
// is asked about, and goes again.
#include <mutex>

#include "tracer/device_hooks.h"
#include "tracer/lock.h"

namespace headroom::tracer::driver {
namespace {

// By its elements, where the driver does not say.
std::uint64_t bytes_of(const Array3dDescriptor& shape, unsigned levels) {
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

// A trial costs as much as the array itself, and programs make arrays of few shapes. Whoever finds another
// thread at the table asks the driver, too, so nobody waits, and a child after fork neither.
class KnownNeeds {
 public:
  // `ask` tells the bytes of what is not known yet; 0: the driver does not say.
  template <class Ask>
  std::uint64_t find(const Array3dDescriptor& shape, unsigned levels, unsigned device, const Ask& ask) {
    std::unique_lock held(lock_, std::try_to_lock);
    if (!held) return ask();
    for (const Need& need : needs_)
      if (need.bytes != 0 && need.levels == levels && need.device == device && is_same(need.shape, shape))
        return need.bytes;
    const std::uint64_t bytes = ask();
    if (bytes != 0) needs_[next_++ % kShapes] = {shape, levels, device, bytes};
    return bytes;
  }

 private:
  static constexpr unsigned kShapes = 16;
  struct Need {
    Array3dDescriptor shape;
    unsigned levels, device;
    std::uint64_t bytes;
  };
  static bool is_same(const Array3dDescriptor& a, const Array3dDescriptor& b) {
    return a.width == b.width && a.height == b.height && a.depth == b.depth && a.format == b.format &&
           a.channels == b.channels && a.flags == b.flags;
  }
  Lock lock_;
  Need needs_[kShapes] = {};
  unsigned next_ = 0;
};
constinit KnownNeeds known_needs;

std::uint64_t ask_for_array(const Array3dDescriptor& shape, unsigned device) {
  Array3dDescriptor later = shape;
  later.flags |= kArrayDeferred;
  Opaque trial = nullptr;
  MemoryRequirements needs{};
  if (real.cuArrayGetMemoryRequirements == nullptr || real.cuArray3DCreate_v2 == nullptr ||
      real.cuArrayDestroy == nullptr || real.cuArray3DCreate_v2(&trial, &later) != kSuccess)
    return 0;
  const Result result = real.cuArrayGetMemoryRequirements(&needs, trial, static_cast<Device>(device));
  real.cuArrayDestroy(trial);
  return result == kSuccess ? needs.size : 0;
}
std::uint64_t needed_for_array(const Array3dDescriptor& shape, unsigned device) {
  const std::uint64_t told = known_needs.find(shape, 0, device, [&] { return ask_for_array(shape, device); });
  return told != 0 ? told : bytes_of(shape, 1);
}

std::uint64_t ask_for_mipmap(const Array3dDescriptor& shape, unsigned levels, unsigned device) {
  Array3dDescriptor later = shape;
  later.flags |= kArrayDeferred;
  Opaque trial = nullptr;
  MemoryRequirements needs{};
  if (real.cuMipmappedArrayGetMemoryRequirements == nullptr || real.cuMipmappedArrayCreate == nullptr ||
      real.cuMipmappedArrayDestroy == nullptr ||
      real.cuMipmappedArrayCreate(&trial, &later, levels) != kSuccess)
    return 0;
  const Result result =
      real.cuMipmappedArrayGetMemoryRequirements(&needs, trial, static_cast<Device>(device));
  real.cuMipmappedArrayDestroy(trial);
  return result == kSuccess ? needs.size : 0;
}
std::uint64_t needed_for_mipmap(const Array3dDescriptor& shape, unsigned levels, unsigned device) {
  const std::uint64_t told =
      known_needs.find(shape, levels, device, [&] { return ask_for_mipmap(shape, levels, device); });
  return told != 0 ? told : bytes_of(shape, levels);
}

// Those that are mapped later take what is mapped, by handle (cuMemMapArrayAsync).
bool takes_memory(const Array3dDescriptor& shape) {
  return (shape.flags & (kArraySparse | kArrayDeferred)) == 0;
}

template <class Call>
Result create_array(const Array3dDescriptor* shape, Opaque* array, const CallFrame& caller,
                    const Call& call) {
  DriverHook hook;
  CurrentDevice where;
  if (shape == nullptr || array == nullptr || !takes_memory(*shape) || !hook.counts() ||
      !hook.get_current(where))
    return call();
  const Entry entry =
      entry_of(EntryType::array, DeviceMemoryKind::array, where, needed_for_array(*shape, where.device));
  return allocate(hook, entry, caller, call, [&] { return number_of(*array); });
}

Result destroy(Result (*call)(Opaque), EntryType type, Opaque array) {
  DriverHook hook;
  if (call == nullptr) return kNotFound;
  if (!hook.counts()) return call(array);
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

HEADROOM_HOOK Result cuArrayCreate_v2(Opaque* array, const ArrayDescriptor* shape) {
  const auto call = HEADROOM_REAL(cuArrayCreate_v2);
  if (call == nullptr) return kNotFound;
  Array3dDescriptor flat{};
  if (shape != nullptr) flat = {shape->width, shape->height, 0, shape->format, shape->channels, 0};
  return create_array(shape != nullptr ? &flat : nullptr, array, caller_of_this_function(),
                      [&] { return call(array, shape); });
}
HEADROOM_HOOK Result cuArrayCreate(Opaque* array, const ArrayDescriptorV1* shape) {
  const auto call = HEADROOM_REAL(cuArrayCreate);
  if (call == nullptr) return kNotFound;
  Array3dDescriptor flat{};
  if (shape != nullptr) flat = {shape->width, shape->height, 0, shape->format, shape->channels, 0};
  return create_array(shape != nullptr ? &flat : nullptr, array, caller_of_this_function(),
                      [&] { return call(array, shape); });
}
HEADROOM_HOOK Result cuArray3DCreate_v2(Opaque* array, const Array3dDescriptor* shape) {
  const auto call = HEADROOM_REAL(cuArray3DCreate_v2);
  if (call == nullptr) return kNotFound;
  return create_array(shape, array, caller_of_this_function(), [&] { return call(array, shape); });
}
HEADROOM_HOOK Result cuArray3DCreate(Opaque* array, const Array3dDescriptorV1* shape) {
  const auto call = HEADROOM_REAL(cuArray3DCreate);
  if (call == nullptr) return kNotFound;
  Array3dDescriptor wide{};
  if (shape != nullptr)
    wide = {shape->width, shape->height, shape->depth, shape->format, shape->channels, shape->flags};
  return create_array(shape != nullptr ? &wide : nullptr, array, caller_of_this_function(),
                      [&] { return call(array, shape); });
}
HEADROOM_HOOK Result cuArrayDestroy(Opaque array) {
  return destroy(HEADROOM_REAL(cuArrayDestroy), EntryType::array, array);
}

HEADROOM_HOOK Result cuMipmappedArrayCreate(Opaque* mipmap, const Array3dDescriptor* shape, unsigned levels) {
  const auto call = HEADROOM_REAL(cuMipmappedArrayCreate);
  DriverHook hook;
  CurrentDevice where;
  if (call == nullptr) return kNotFound;
  if (shape == nullptr || mipmap == nullptr || !takes_memory(*shape) || !hook.counts() ||
      !hook.get_current(where))
    return call(mipmap, shape, levels);
  const Entry entry = entry_of(EntryType::mipmap, DeviceMemoryKind::array, where,
                               needed_for_mipmap(*shape, levels, where.device));
  return allocate(
      hook, entry, caller_of_this_function(), [&] { return call(mipmap, shape, levels); },
      [&] { return number_of(*mipmap); });
}
HEADROOM_HOOK Result cuMipmappedArrayDestroy(Opaque mipmap) {
  return destroy(HEADROOM_REAL(cuMipmappedArrayDestroy), EntryType::mipmap, mipmap);
}

}  // namespace headroom::tracer::driver
