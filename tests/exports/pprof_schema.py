"""Checks a pprof profile against https://github.com/google/pprof/blob/main/proto/profile.proto: fields, types and the rules
in its comments (string table, references, numbers of values)."""
import gzip

from protobuf_schema import SchemaError, read_message

SCHEMA = {
    "Profile": {1: ("sample_type", ["ValueType"]), 2: ("sample", ["Sample"]), 3: ("mapping", ["Mapping"]),
                4: ("location", ["Location"]), 5: ("function", ["Function"]), 6: ("string_table", ["string"]),
                7: ("drop_frames", "int64"), 8: ("keep_frames", "int64"), 9: ("time_nanos", "int64"),
                10: ("duration_nanos", "int64"), 11: ("period_type", "ValueType"), 12: ("period", "int64"),
                13: ("comment", ["int64"]), 14: ("default_sample_type", "int64")},
    "ValueType": {1: ("type", "int64"), 2: ("unit", "int64")},
    "Sample": {1: ("location_id", ["uint64"]), 2: ("value", ["int64"]), 3: ("label", ["Label"])},
    "Label": {1: ("key", "int64"), 2: ("str", "int64"), 3: ("num", "int64"), 4: ("num_unit", "int64")},
    "Mapping": {1: ("id", "uint64"), 2: ("memory_start", "uint64"), 3: ("memory_limit", "uint64"), 4: ("file_offset", "uint64"),
                5: ("filename", "int64"), 6: ("build_id", "int64"), 7: ("has_functions", "bool"), 8: ("has_filenames", "bool"),
                9: ("has_line_numbers", "bool"), 10: ("has_inline_frames", "bool")},
    "Location": {1: ("id", "uint64"), 2: ("mapping_id", "uint64"), 3: ("address", "uint64"), 4: ("line", ["Line"]),
                 5: ("is_folded", "bool")},
    "Line": {1: ("function_id", "uint64"), 2: ("line", "int64"), 3: ("column", "int64")},
    "Function": {1: ("id", "uint64"), 2: ("name", "int64"), 3: ("system_name", "int64"), 4: ("filename", "int64"),
                 5: ("start_line", "int64")},
}
# Fields that are indices into the string table.
TEXTS = {"sample_type": ("type", "unit"), "label": ("key", "str", "num_unit"), "mapping": ("filename", "build_id"),
         "function": ("name", "system_name", "filename")}


def require(holds, what):
    if not holds:
        raise SchemaError(what)


def by_id(messages, kind):
    found = {}
    for message in messages:
        identity = message.get("id", 0)
        require(identity != 0, f"a {kind} has no id")
        require(identity not in found, f"two {kind}s have the id {identity}")
        found[identity] = message
    return found


def read_profile(file):
    """The checked profile, and its sums: {sample type: (unit, sum)}."""
    with gzip.open(file) as stream:
        profile = read_message(SCHEMA, "Profile", stream.read())
    texts = profile.get("string_table", [])
    require(texts and texts[0] == "", "the first text is not empty")
    require(len(set(texts)) == len(texts), "a text is stored twice")

    def check_texts(message, fields, what):
        for field in fields:
            require(0 <= message.get(field, 0) < len(texts), f"{what}.{field} is not an index of the string table")

    check_texts(profile, ("drop_frames", "keep_frames", "default_sample_type"), "profile")
    check_texts(profile.get("period_type", {}), TEXTS["sample_type"], "period_type")
    for comment in profile.get("comment", []):
        require(0 <= comment < len(texts), "a comment is not an index of the string table")
    for kind in ("sample_type", "mapping", "function"):
        for message in profile.get(kind, []):
            check_texts(message, TEXTS[kind], kind)

    mappings = by_id(profile.get("mapping", []), "mapping")
    functions = by_id(profile.get("function", []), "function")
    locations = by_id(profile.get("location", []), "location")
    for mapping in mappings.values():
        require(mapping.get("memory_start", 0) < mapping.get("memory_limit", 0), "a mapping is empty")
    for location in locations.values():
        mapping = location.get("mapping_id", 0)
        require(mapping == 0 or mapping in mappings, f"there is no mapping {mapping}")
        if mapping != 0:
            low, high = mappings[mapping]["memory_start"], mappings[mapping]["memory_limit"]
            require(low <= location["address"] < high, f"{location['address']:#x} is outside of its mapping")
        require(location.get("line"), "a location has no line")
        for line in location["line"]:
            require(line.get("function_id", 0) in functions, f"there is no function {line.get('function_id', 0)}")

    names = [texts[kind.get("type", 0)] for kind in profile["sample_type"]]
    require(texts[profile.get("default_sample_type", 0)] in names, "the default is not a sample type")
    sums = [0] * len(names)
    for sample in profile.get("sample", []):
        require(len(sample["value"]) == len(names), "the number of values of a sample differs from the number of types")
        for location in sample.get("location_id", []):
            require(location in locations, f"there is no location {location}")
        for label in sample.get("label", []):
            check_texts(label, TEXTS["label"], "label")
            require(("str" in label) != ("num" in label), "a label has both a text and a number, or neither")
        sums = [total + value for total, value in zip(sums, sample["value"])]
    units = [texts[kind.get("unit", 0)] for kind in profile["sample_type"]]
    return profile, {name: (unit, total) for name, unit, total in zip(names, units, sums)}
