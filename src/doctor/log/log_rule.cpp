#include "doctor/log/log_rule.h"

#include <algorithm>
#include <utility>

namespace headroom::doctor {
namespace {

const Figure* find(const std::vector<Figure>& figures, std::string_view name) {
  const auto found = std::find_if(figures.begin(), figures.end(),
                                  [name](const Figure& figure) { return figure.name == name; });
  return found == figures.end() ? nullptr : &*found;
}

}  // namespace

void LogMessage::add(std::string_view name, const std::optional<Bytes>& bytes) {
  if (bytes) figures.push_back({std::string(name), bytes->count});
}
void LogMessage::add(std::string_view name, const std::optional<std::int64_t>& number) {
  if (number) figures.push_back({std::string(name), *number});
}
void LogMessage::add(std::string_view name, std::string_view text) {
  if (!text.empty()) figures.push_back({std::string(name), std::string(text)});
}
std::optional<Bytes> LogMessage::bytes(std::string_view name) const {
  const Figure* figure = find(figures, name);
  if (!figure || !std::holds_alternative<std::int64_t>(figure->value)) return std::nullopt;
  return Bytes{std::get<std::int64_t>(figure->value)};
}
std::string LogMessage::text(std::string_view name) const {
  const Figure* figure = find(figures, name);
  if (!figure || !std::holds_alternative<std::string>(figure->value)) return {};
  return std::get<std::string>(figure->value);
}

void LogMessage::set(Figure figure) {
  for (Figure& own : figures)
    if (own.name == figure.name) {
      own = std::move(figure);
      return;
    }
  figures.push_back(std::move(figure));
}
void LogMessage::add_absent(const LogMessage& other) {
  for (const Figure& figure : other.figures)
    if (find(figures, figure.name) == nullptr) figures.push_back(figure);
  if (!unaccounted_with_zram) unaccounted_with_zram = other.unaccounted_with_zram;
}

std::string words_for(const std::optional<Bytes>& bytes, std::string_view otherwise) {
  return bytes ? format_bytes(*bytes) : std::string(otherwise);
}

}  // namespace headroom::doctor
