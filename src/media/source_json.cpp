#include <fmt/format.h>

#include <limits>
#include <optional>

#include "base/json.h"
#include "media/image_header.h"
#include "media/source_scan.h"

namespace headroom::media {
namespace {

constexpr std::int64_t kSchemaVersion = 1;
// Of frames and bytes: sums stay far from overflow.
constexpr std::int64_t kMaximumCount = std::int64_t{1} << 40;

// Reads members, and remembers the first that is invalid. `where` is the place of the object in the document.
class Reader {
 public:
  const std::optional<Error>& error() const { return error_; }

  void fail(std::string_view where, std::string_view key, std::string_view expected) {
    if (!error_)
      error_ = Error{ErrorKind::input, "invalid metadata.json",
                     fmt::format("{}{} is not {}", where, key, expected), "run the setup phase again"};
  }
  std::int64_t count(const Json& object, std::string_view where, std::string_view key, std::int64_t maximum) {
    const auto value = get_integer(object, key);
    if (value && *value >= 0 && *value <= maximum) return *value;
    fail(where, key, fmt::format("a whole number from 0 to {}", maximum));
    return 0;
  }
  std::string text(const Json& object, std::string_view where, std::string_view key) {
    const Json& value = get_member(object, key);
    if (!value.is_string()) fail(where, key, "a string");
    std::string text = get_text(object, key);
    if (text.find('\0') != std::string::npos) fail(where, key, "a string without zero bytes");
    return text;
  }
  const Json& array(const Json& object, std::string_view where, std::string_view key) {
    static const Json kNone = Json::array();
    const Json& value = get_member(object, key);
    if (value.is_array()) return value;
    fail(where, key, "an array");
    return kNone;
  }

  SourceSpec spec(const Json& object) {
    SourceSpec spec;
    const auto kind = find_named(get_text(object, "kind"), SourceKind::raw);
    if (!object.is_object())
      fail("", "source", "an object");
    else if (!kind)
      fail("source.", "kind", "a kind of source");
    else if (spec.kind = *kind; has_camera_number(spec.kind))
      spec.camera_index =
          static_cast<int>(count(object, "source.", "camera_index", std::numeric_limits<int>::max()));
    else
      spec.path = text(object, "source.", "path");
    return spec;
  }

  SourceSequence sequence(const Json& entry, const std::string& where) {
    SourceSequence sequence;
    sequence.name = text(entry, where, "name");
    sequence.path = text(entry, where, "path");
    sequence.frames = count(entry, where, "frames", kMaximumCount);
    sequence.width = static_cast<int>(count(entry, where, "width", kMaximumPixels));
    sequence.height = static_cast<int>(count(entry, where, "height", kMaximumPixels));
    for (const Json& image : array(entry, where, "images")) {
      // Accept only a name, not a path: prepared data must not refer to files outside its folder.
      sequence.images.push_back(image.is_string() ? image.get<std::string>() : "/");
      if (sequence.images.back().find_first_of(std::string_view("/\0", 2)) != std::string::npos)
        fail(where, "images[]", "a file name");
    }
    const std::string place = where + "objects[].";
    for (const Json& object : array(entry, where, "objects"))
      sequence.objects.push_back({text(object, place, "id"), text(object, place, "mask_path")});
    return sequence;
  }

 private:
  std::optional<Error> error_;
};

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
  if (has_camera_number(metadata.spec.kind))
    spec["camera_index"] = metadata.spec.camera_index;
  else
    spec["path"] = metadata.spec.path;
  document["fingerprint"] = metadata.fingerprint;
  document["total_frames"] = metadata.total_frames;
  document["largest_frame_bytes"] = metadata.largest_frame.count;
  if (metadata.prompted_by_mask > 0) document["prompted_by_mask"] = metadata.prompted_by_mask;
  if (metadata.prompted_by_file > 0) document["prompted_by_file"] = metadata.prompted_by_file;
  document["sequences"] = Json::array();
  for (const SourceSequence& sequence : metadata.sequences)
    document["sequences"].push_back(to_json(sequence));
  document["skipped"] = Json::array();
  for (const SkippedItem& item : metadata.skipped)
    document["skipped"].push_back({{"name", item.name}, {"reason", item.reason}});
  return document;
}

Result<SourceMetadata> source_from_json(const Json& document) {
  Reader reader;
  if (!document.is_object())
    reader.fail("", "the document", "an object");
  else if (get_integer(document, "schema_version") != kSchemaVersion)
    reader.fail("", "schema_version", fmt::format("{}", kSchemaVersion));
  SourceMetadata metadata;
  metadata.spec = reader.spec(get_member(document, "source"));
  metadata.fingerprint = reader.text(document, "", "fingerprint");
  metadata.total_frames = reader.count(document, "", "total_frames", kMaximumCount);
  metadata.largest_frame = {reader.count(document, "", "largest_frame_bytes", 3 * kMaximumPixels)};
  if (document.contains("prompted_by_mask"))
    metadata.prompted_by_mask = reader.count(document, "", "prompted_by_mask", kMaximumCount);
  if (document.contains("prompted_by_file"))
    metadata.prompted_by_file = reader.count(document, "", "prompted_by_file", kMaximumCount);
  for (const Json& entry : reader.array(document, "", "sequences"))
    metadata.sequences.push_back(
        reader.sequence(entry, fmt::format("sequences[{}].", metadata.sequences.size())));
  for (const Json& entry : reader.array(document, "", "skipped"))
    metadata.skipped.push_back(
        {reader.text(entry, "skipped[].", "name"), reader.text(entry, "skipped[].", "reason")});
  if (reader.error()) return tl::unexpected(*reader.error());
  return metadata;
}

}  // namespace headroom::media
