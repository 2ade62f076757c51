"""Reads protobuf messages with tables of fields, and validates them.

A schema is {message: {number: (name, type)}}. Types: "uint64", "int64", "int32", "uint32", "bool", "string",
("enum", {values}), or a message's name; [type] is repeated. Errors: an unknown field, a wrong wire type, a repeated field
that must not be repeated, a number out of range, text that is not UTF-8, and truncated bytes.
"""

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
INTEGERS = {"uint64": (0, 2**64 - 1), "int64": (-(2**63), 2**63 - 1), "uint32": (0, 2**32 - 1), "int32": (-(2**31), 2**31 - 1),
            "bool": (0, 1)}


class SchemaError(Exception):
    pass


def read_varint(data, at):
    value = shift = 0
    while True:
        if at >= len(data):
            raise SchemaError(f"a number ends too early at byte {at}")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
        if shift >= 70:
            raise SchemaError(f"a number is longer than ten bytes at byte {at}")
    if value >= 2**64:
        raise SchemaError(f"a number has more than 64 bits at byte {at}")
    return value, at


def integer_of(kind, value, where):
    if isinstance(kind, tuple):
        if value not in kind[1]:
            raise SchemaError(f"{where}: {value} is not a value of the enumeration")
        return value
    if kind in ("int64", "int32") and value >= 2**63:
        value -= 2**64
    low, high = INTEGERS[kind]
    if not low <= value <= high:
        raise SchemaError(f"{where}: {value} does not fit {kind}")
    return value


def read_message(schema, name, data):
    """The fields as a dictionary. Missing fields have no key; repeated fields are lists."""
    message = {}
    at = 0
    while at < len(data):
        key, at = read_varint(data, at)
        number, wire = key >> 3, key & 7
        if number not in schema[name]:
            raise SchemaError(f"{name} has no field {number}")
        field, kind = schema[name][number]
        where = f"{name}.{field}"
        repeated = isinstance(kind, list)
        kind = kind[0] if repeated else kind
        is_integer = isinstance(kind, tuple) or kind in INTEGERS
        if wire == VARINT and is_integer:
            value, at = read_varint(data, at)
            values = [integer_of(kind, value, where)]
        elif wire == BYTES and (not is_integer or repeated):
            length, at = read_varint(data, at)
            if at + length > len(data):
                raise SchemaError(f"{where} is longer than its message")
            content, at = data[at:at + length], at + length
            if is_integer:  # packed
                values, inside = [], 0
                while inside < length:
                    value, inside = read_varint(content, inside)
                    values.append(integer_of(kind, value, where))
            elif kind == "string":
                try:
                    values = [content.decode("utf-8")]
                except UnicodeDecodeError as problem:
                    raise SchemaError(f"{where} is not UTF-8: {problem}") from problem
            else:
                values = [read_message(schema, kind, content)]
        else:
            raise SchemaError(f"{where} has the wire type {wire}")
        if repeated:
            message.setdefault(field, []).extend(values)
        elif field in message:
            raise SchemaError(f"{where} is repeated")
        else:
            message[field] = values[0]
    return message
