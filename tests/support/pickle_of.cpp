#include "support/pickle_of.h"

#include <bit>
#include <cstdint>

namespace headroom::test {
namespace {

void append_number(std::string& out, std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i));
}

void append(std::string& out, const Json& data) {
  if (data.is_null()) {
    out += 'N';
  } else if (data.is_boolean()) {
    out += data.get<bool>() ? '\x88' : '\x89';
  } else if (data.is_number_float()) {
    out += 'G';
    append_number(out, __builtin_bswap64(std::bit_cast<std::uint64_t>(data.get<double>())), 8);
  } else if (data.is_number_unsigned() && data.get<std::uint64_t>() >> 63 != 0) {
    out += "\x8a\x09";
    append_number(out, data.get<std::uint64_t>(), 8);
    out += '\0';
  } else if (data.is_number()) {
    out += "\x8a\x08";
    append_number(out, static_cast<std::uint64_t>(data.get<std::int64_t>()), 8);
  } else if (data.is_string()) {
    const auto& text = data.get_ref<const std::string&>();
    out += 'X';
    append_number(out, text.size(), 4);
    out += text;
  } else if (data.is_array() || data.contains("tuple")) {
    const bool is_list = data.is_array();
    if (is_list) out += ']';
    out += '(';
    for (const Json& item : is_list ? data : data["tuple"]) append(out, item);
    out += is_list ? 'e' : 't';
  } else {
    out += "}(";
    for (const auto& [key, value] : data.items()) {
      append(out, key);
      append(out, value);
    }
    out += 'u';
  }
}

}  // namespace

std::string pickle_of(const Json& data) {
  std::string out = "\x80\x02";
  append(out, data);
  return out + '.';
}

}  // namespace headroom::test
