#include "inference/isolated/isolated_messages.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace headroom::inference {
namespace {

Json tensor_to_json(const TensorSpec& tensor) {
  return {{"name", tensor.name},
          {"type", static_cast<std::int32_t>(tensor.type)},
          {"dims", tensor.dims},
          {"dim_names", tensor.dim_names}};
}

// Calls `field` with each setting that a model process gets, and its key.
template <class Settings, class Field>
void for_each_setting(Settings& settings, const Field& field) {
  field("device", settings.device);
  field("threads", settings.threads);
  field("arena", settings.arena);
  field("arena_extend", settings.arena_extend);
  field("memory_pattern", settings.memory_pattern);
  field("prepacking", settings.prepacking);
  field("graph_level", settings.graph_level);
  field("spinning", settings.spinning);
  field("precision", settings.precision);
  field("conv_search", settings.conv_search);
  field("conv_small_workspace", settings.conv_small_workspace);
  field("device_graph", settings.device_graph);
  field("mapped", settings.mapped);
}

std::vector<std::int64_t> integers_of(const Json& list) {
  std::vector<std::int64_t> values;
  for (const Json& value : list) values.push_back(value.is_number_integer() ? value.get<std::int64_t>() : -1);
  return values;
}

TensorSpec spec_from_json(const Json& object) {
  TensorSpec tensor;
  tensor.name = get_text(object, "name");
  tensor.type = static_cast<ElementType>(get_integer(object, "type").value_or(0));
  tensor.dims = integers_of(get_member(object, "dims"));
  for (const Json& name : get_member(object, "dim_names"))
    tensor.dim_names.push_back(name.is_string() ? name.get<std::string>() : std::string());
  tensor.dim_names.resize(tensor.dims.size());
  return tensor;
}

// The largest accepted document, in bytes. Real documents are far smaller: a description with thousands of
// class names has tens of kilobytes.
constexpr std::uint32_t kLongestMessage = 64 << 20;
constexpr const char* kWhat = "cannot communicate with a model process";

constexpr std::size_t kAlignment = 64;

}  // namespace

Json to_json(const RuntimeSettings& settings) {
  Json object;
  for_each_setting(settings, [&](const char* key, const auto& value) {
    if constexpr (std::is_enum_v<std::decay_t<decltype(value)>>)
      object[key] = static_cast<int>(value);
    else
      object[key] = value;
  });
  return object;
}

RuntimeSettings settings_from_json(const Json& object) {
  RuntimeSettings settings;
  for_each_setting(settings, [&]<class Value>(const char* key, Value& value) {
    if constexpr (std::is_same_v<Value, std::string>)
      value = get_text(object, key);
    else if constexpr (std::is_same_v<Value, bool>)
      value = get_bool(object, key).value_or(value);
    else
      value = static_cast<Value>(get_integer(object, key).value_or(static_cast<std::int64_t>(value)));
  });
  return settings;
}

Json to_json(const ModelDescription& description) {
  return {{"inputs", json_list(description.inputs, tensor_to_json)},
          {"outputs", json_list(description.outputs, tensor_to_json)},
          {"metadata", Json(description.metadata)}};
}

ModelDescription description_from_json(const Json& object) {
  ModelDescription description;
  for (const Json& input : get_member(object, "inputs")) description.inputs.push_back(spec_from_json(input));
  for (const Json& output : get_member(object, "outputs"))
    description.outputs.push_back(spec_from_json(output));
  for (const Json& pair : get_member(object, "metadata"))
    if (pair.is_array() && pair.size() == 2 && pair[0].is_string() && pair[1].is_string())
      description.metadata.emplace_back(pair[0].get<std::string>(), pair[1].get<std::string>());
  return description;
}

Json to_json(const PlacedTensor& tensor) {
  return {{"type", static_cast<std::int32_t>(tensor.type)},
          {"dims", tensor.dims},
          {"at", tensor.at},
          {"bytes", tensor.bytes}};
}

Result<PlacedTensor> placed_tensor_from_json(const Json& object, std::size_t size) {
  PlacedTensor tensor;
  tensor.type = static_cast<ElementType>(get_integer(object, "type").value_or(0));
  tensor.dims = integers_of(get_member(object, "dims"));
  const std::int64_t at = get_integer(object, "at").value_or(-1);
  const std::int64_t bytes = get_integer(object, "bytes").value_or(-1);
  if (at < 0 || bytes < 0 || static_cast<std::size_t>(at) > size ||
      static_cast<std::size_t>(bytes) > size - static_cast<std::size_t>(at))
    return internal_error("a tensor lies outside the shared memory");
  tensor.at = static_cast<std::size_t>(at);
  tensor.bytes = static_cast<std::size_t>(bytes);
  const auto needed = static_cast<std::size_t>(element_count(tensor.dims)) * size_of(tensor.type);
  if (tensor.bytes != 0 && tensor.bytes != needed)
    return internal_error("a tensor's size does not match its dimensions");
  return tensor;
}

Status MessageChannel::send(const Json& message) {
  std::string text = to_line(message);
  const auto length = static_cast<std::uint32_t>(text.size());
  char header[sizeof length];
  std::memcpy(header, &length, sizeof length);
  text.insert(0, header, sizeof header);
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t done = ::send(socket_.get(), text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return internal_error(kWhat, errno_text(errno));
    sent += static_cast<std::size_t>(done);
  }
  return {};
}

Result<bool> MessageChannel::read_all(char* to, std::size_t bytes, std::optional<Nanoseconds> deadline) {
  while (bytes > 0) {
    pollfd waiting{socket_.get(), POLLIN, 0};
    int milliseconds = -1;
    if (deadline) {
      const std::int64_t left = (*deadline - monotonic_now()).count;
      milliseconds = static_cast<int>(std::clamp<std::int64_t>(left / 1'000'000 + 1, 0, 1'000'000'000));
    }
    const int ready = ::poll(&waiting, 1, milliseconds);
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) return false;
    const ssize_t got = ::recv(socket_.get(), to, bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return internal_error(kWhat, got == 0 ? "it closed the connection" : errno_text(errno));
    to += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

Result<std::optional<Json>> MessageChannel::receive(std::optional<Nanoseconds> timeout) {
  std::optional<Nanoseconds> deadline;
  if (timeout) deadline = monotonic_now() + *timeout;
  std::uint32_t length = 0;
  char header[sizeof length];
  auto whole = read_all(header, sizeof header, deadline);
  if (!whole) return forward_error(whole);
  if (!*whole) return std::optional<Json>();
  std::memcpy(&length, header, sizeof length);
  if (length > kLongestMessage) return internal_error(kWhat, "it sent an invalid message length");
  std::string text(length, '\0');
  whole = read_all(text.data(), text.size(), deadline);
  if (!whole) return forward_error(whole);
  if (!*whole) return std::optional<Json>();
  auto message = parse_json(text, "the message of a model process");
  if (!message) return forward_error(message);
  return std::optional<Json>(std::move(*message));
}

Result<SharedTensors> SharedTensors::create(const char* name) {
  UniqueFd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd || ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK) != 0)
    return internal_error("cannot create shared memory for a model process", errno_text(errno));
  return SharedTensors(std::move(fd));
}

Result<SharedTensors> SharedTensors::attach(UniqueFd fd) {
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
    return internal_error("cannot use the shared memory for tensors", "its size is not sealed");
  return SharedTensors(std::move(fd));
}

void SharedTensors::Unmap::operator()(std::byte* memory) const { ::munmap(memory, bytes); }

Status SharedTensors::grow(std::size_t bytes) {
  if (bytes <= size()) return {};
  if (::ftruncate(fd_.get(), static_cast<off_t>(bytes)) != 0)
    return failure("cannot share tensors with a model process", "out of memory: " + errno_text(errno));
  return map(bytes);
}

Status SharedTensors::follow(std::size_t bytes) {
  if (bytes <= size()) return {};
  struct stat facts {};
  if (::fstat(fd_.get(), &facts) != 0 || static_cast<std::size_t>(facts.st_size) < bytes)
    return internal_error("the shared memory for tensors is smaller than announced");
  return map(bytes);
}

Status SharedTensors::map(std::size_t bytes) {
  // MAP_POPULATE, because the pool's account must include all pages of this mapping from the start.
  void* mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd_.get(), 0);
  if (mapped == MAP_FAILED)
    return failure("cannot share tensors with a model process", "out of memory: " + errno_text(errno));
  memory_ = {static_cast<std::byte*>(mapped), {bytes}};
  return {};
}

std::size_t place_tensor(std::size_t& end, std::size_t bytes) {
  const std::size_t at = (end + kAlignment - 1) / kAlignment * kAlignment;
  end = at + bytes;
  return at;
}

}  // namespace headroom::inference
