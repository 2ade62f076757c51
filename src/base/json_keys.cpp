#include "base/json_keys.h"

#include "base/json.h"

namespace headroom {
namespace {

class KeyReader final : public Json::json_sax_t {
 public:
  explicit KeyReader(JsonKeys& keys) : keys_(keys) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return begin(false); }
  bool start_array(std::size_t) override { return begin(true); }
  bool end_object() override { return end(); }
  bool end_array() override { return end(); }
  bool key(string_t& name) override {
    constexpr std::size_t kMost = 1000;
    if (depth_ == 1) last_ = keys_.lists.size() < kMost ? &(keys_.lists[name] = false) : nullptr;
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  bool begin(bool is_list) {
    if (depth_ == 1 && last_ != nullptr) *last_ = is_list;
    ++depth_;
    return true;
  }
  bool end() {
    --depth_;
    return true;
  }
  JsonKeys& keys_;
  bool* last_ = nullptr;  // whether the last key's value is a list
  std::size_t depth_ = 0;
};

}  // namespace

JsonKeys read_json_keys(std::istream& document) {
  JsonKeys keys;
  KeyReader reader(keys);
  keys.is_whole = Json::sax_parse(document, &reader);
  return keys;
}

JsonKeys read_json_keys(std::string_view document) {
  JsonKeys keys;
  KeyReader reader(keys);
  keys.is_whole = Json::sax_parse(document, &reader);
  return keys;
}

}  // namespace headroom
