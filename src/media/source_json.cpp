#include "media/source_json.h"

#include <fmt/format.h>

#include <array>
#include <limits>

#include "base/json.h"
#include "media/image_header.h"

namespace headroom::media {
namespace {

constexpr std::int64_t kSchemaVersion = 1;
constexpr std::array kKinds{SourceKind::image_dir, SourceKind::video, SourceKind::camera};
constexpr std::int64_t kMaximumCount = std::int64_t{1}
                                       << 40;  // of frames and bytes: sums stay far from overflow

tl::unexpected<Error> bad_key(std::string_view where, std::string_view key, std::string_view expected) {
  return input_error("invalid metadata.json", fmt::format("{}{} is not {}", where, key, expected),
                     "run the setup phase again");
}

Result<std::int64_t> read_count(const Json& object, std::string_view where, std::string_view key,
                                std::int64_t maximum) {
  const auto value = get_integer(object, key);
  if (!value || *value < 0 || *value > maximum)
    return bad_key(where, key, fmt::format("a whole number from 0 to {}", maximum));
  return *value;
}

Result<std::string> read_text(const Json& object, std::string_view where, std::string_view key) {
  const Json& value = get_member(object, key);
  if (!value.is_string()) return bad_key(where, key, "a string");
  auto text = value.get<std::string>();
  if (text.find('\0') != std::string::npos) return bad_key(where, key, "a string without zero bytes");
  return text;
}

Result<const Json*> read_array(const Json& object, std::string_view where, std::string_view key) {
  const Json& value = get_member(object, key);
  if (!value.is_array()) return bad_key(where, key, "an array");
  return &value;
}

Result<SourceSpec> spec_from_json(const Json& object) {
  if (!object.is_object()) return bad_key("", "source", "an object");
  SourceSpec spec;
  const std::string kind = get_text(object, "kind");
  bool known = false;
  for (const SourceKind candidate : kKinds) {
    if (kind != name_of(candidate)) continue;
    spec.kind = candidate;
    known = true;
  }
  if (!known) return bad_key("source.", "kind", "image_dir, video or camera");
  if (spec.kind == SourceKind::camera) {
    const auto index = read_count(object, "source.", "camera_index", std::numeric_limits<int>::max());
    if (!index) return tl::unexpected(index.error());
    spec.camera_index = static_cast<int>(*index);
    return spec;
  }
  auto path = read_text(object, "source.", "path");
  if (!path) return forward_error(path);
  spec.path = std::move(*path);
  return spec;
}

Status read_objects(const Json& entry, const std::string& where, SourceSequence& sequence) {
  const auto objects = read_array(entry, where, "objects");
  if (!objects) return tl::unexpected(objects.error());
  for (const Json& object : **objects) {
    auto id = read_text(object, where + "objects[].", "id");
    if (!id) return forward_error(id);
    auto mask = read_text(object, where + "objects[].", "mask_path");
    if (!mask) return forward_error(mask);
    sequence.objects.push_back({std::move(*id), std::move(*mask)});
  }
  return {};
}

Result<SourceSequence> sequence_from_json(const Json& entry, const std::string& where) {
  SourceSequence sequence;
  auto name = read_text(entry, where, "name");
  if (!name) return forward_error(name);
  auto path = read_text(entry, where, "path");
  if (!path) return forward_error(path);
  const auto frames = read_count(entry, where, "frames", kMaximumCount);
  if (!frames) return tl::unexpected(frames.error());
  const auto width = read_count(entry, where, "width", kMaximumPixels);
  if (!width) return tl::unexpected(width.error());
  const auto height = read_count(entry, where, "height", kMaximumPixels);
  if (!height) return tl::unexpected(height.error());
  const auto images = read_array(entry, where, "images");
  if (!images) return tl::unexpected(images.error());
  sequence.name = std::move(*name);
  sequence.path = std::move(*path);
  sequence.frames = *frames;
  sequence.width = static_cast<int>(*width);
  sequence.height = static_cast<int>(*height);
  for (const Json& image : **images) {
    // Accept only a name, not a path: prepared data must not refer to files outside its folder.
    if (!image.is_string() ||
        image.get_ref<const std::string&>().find_first_of(std::string_view("/\0", 2)) != std::string::npos)
      return bad_key(where, "images[]", "a file name");
    sequence.images.push_back(image.get<std::string>());
  }
  if (auto read = read_objects(entry, where, sequence); !read) return forward_error(read);
  return sequence;
}

Json to_json(const SourceSequence& sequence) {
  Json entry;
  entry["name"] = sequence.name;
  entry["path"] = sequence.path;
  entry["frames"] = sequence.frames;
  entry["width"] = sequence.width;
  entry["height"] = sequence.height;
  entry["images"] = sequence.images;
  entry["objects"] = Json::array();
  for (const SourceObject& object : sequence.objects)
    entry["objects"].push_back({{"id", object.id}, {"mask_path", object.mask_path}});
  return entry;
}

}  // namespace

Json to_json(const SourceMetadata& metadata) {
  Json document;
  document["schema_version"] = kSchemaVersion;
  Json& spec = document["source"];
  spec["kind"] = name_of(metadata.spec.kind);
  if (metadata.spec.kind == SourceKind::camera)
    spec["camera_index"] = metadata.spec.camera_index;
  else
    spec["path"] = metadata.spec.path;
  document["fingerprint"] = metadata.fingerprint;
  document["total_frames"] = metadata.total_frames;
  document["largest_frame_bytes"] = metadata.largest_frame.count;
  document["sequences"] = Json::array();
  for (const SourceSequence& sequence : metadata.sequences)
    document["sequences"].push_back(to_json(sequence));
  document["skipped"] = Json::array();
  for (const SkippedItem& item : metadata.skipped)
    document["skipped"].push_back({{"name", item.name}, {"reason", item.reason}});
  return document;
}

Result<SourceMetadata> source_from_json(const Json& document) {
  if (!document.is_object()) return bad_key("", "the document", "an object");
  if (get_integer(document, "schema_version") != kSchemaVersion)
    return bad_key("", "schema_version", fmt::format("{}", kSchemaVersion));
  SourceMetadata metadata;
  auto spec = spec_from_json(get_member(document, "source"));
  if (!spec) return forward_error(spec);
  metadata.spec = std::move(*spec);
  auto fingerprint = read_text(document, "", "fingerprint");
  if (!fingerprint) return forward_error(fingerprint);
  metadata.fingerprint = std::move(*fingerprint);
  const auto total = read_count(document, "", "total_frames", kMaximumCount);
  if (!total) return tl::unexpected(total.error());
  metadata.total_frames = *total;
  const auto largest = read_count(document, "", "largest_frame_bytes", 3 * kMaximumPixels);
  if (!largest) return tl::unexpected(largest.error());
  metadata.largest_frame = {*largest};

  const auto sequences = read_array(document, "", "sequences");
  if (!sequences) return tl::unexpected(sequences.error());
  for (const Json& entry : **sequences) {
    auto sequence = sequence_from_json(entry, fmt::format("sequences[{}].", metadata.sequences.size()));
    if (!sequence) return forward_error(sequence);
    metadata.sequences.push_back(std::move(*sequence));
  }
  const auto skipped = read_array(document, "", "skipped");
  if (!skipped) return tl::unexpected(skipped.error());
  for (const Json& entry : **skipped) {
    auto name = read_text(entry, "skipped[].", "name");
    if (!name) return forward_error(name);
    auto reason = read_text(entry, "skipped[].", "reason");
    if (!reason) return forward_error(reason);
    metadata.skipped.push_back({std::move(*name), std::move(*reason)});
  }
  return metadata;
}

}  // namespace headroom::media
