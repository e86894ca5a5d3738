#include "nn/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <vector>

#include "tensor/error.h"
#include "tensor/support/in_quotes.h"
#include "tensor/support/suggestion.h"
#include "tensor/support/text_reader.h"

namespace fovea {

using Values = std::map<std::string, double>;

/// A parameter of a schedule, such as `warmup`.
struct Key {
  const char* name;
  double value;        ///< default value
  double least, most;  ///< of the values allowed
  bool is_whole = false;
};

/// A kind of schedule, such as cosine, with its keys and the function that computes the rate.
struct Schedule::Kind {
  const char* name;
  std::vector<Key> keys;
  double (*rate)(const Values& v, double u, double epoch);  ///< `v` has the value of each key, `u` counts updates
};

namespace {

constexpr double largest_rate = 1e100, most_updates = 1e12;

Key rate_key(const char* name, double value) { return {name, value, 0, largest_rate}; }
Key count_key(const char* name, double value, double least) { return {name, value, least, most_updates, true}; }

double warm_up(const Values& v, double u) { return v.at("warmup") > 0 ? std::min(1.0, (u + 1) / v.at("warmup")) : 1; }

double constant(const Values& v, double u, double) { return v.at("rate") * warm_up(v, u); }

double inverse_sqrt(const Values& v, double u, double) {
  double peak = v.at("peak"), init = v.at("init"), warmup = v.at("warmup");
  return u < warmup ? init + u * (peak - init) / warmup : peak * std::sqrt(warmup / u);
}

double noam(const Values& v, double u, double) {
  double n = u + 1;
  return v.at("scale") / std::sqrt(v.at("dim")) * std::min(1 / std::sqrt(n), n * std::pow(v.at("warmup"), -1.5));
}

double cosine(const Values& v, double u, double) {
  double rate = v.at("rate"), floor = v.at("floor"), warmup = v.at("warmup");
  if (u < warmup) return rate * warm_up(v, u);
  double done = std::clamp((u - warmup) / std::max(v.at("updates") - warmup, 1.0), 0.0, 1.0);
  return floor + (rate - floor) * (1 + std::cos(std::numbers::pi * done)) / 2;
}

double halving(const Values& v, double u, double epoch) {
  bool by_update = v.at("update") > 0;
  double now = by_update ? u : epoch, first = by_update ? v.at("update") : v.at("epoch");
  double halvings = now < first ? 0 : 1 + std::floor((now - first) / v.at("every"));
  return v.at("rate") * std::pow(0.5, halvings);
}

const std::vector<Schedule::Kind>& kinds() {
  static const std::vector<Schedule::Kind> all = {
      {"constant", {rate_key("rate", 1e-3), count_key("warmup", 0, 0)}, constant},
      {"inverse_sqrt", {rate_key("peak", 5e-4), count_key("warmup", 4000, 1), rate_key("init", 1e-7)}, inverse_sqrt},
      {"noam", {count_key("dim", 512, 1), count_key("warmup", 4000, 1), {"scale", 1, 0, largest_rate}}, noam},
      {"cosine",
       {rate_key("rate", 1e-3), count_key("updates", 0, 0), count_key("warmup", 0, 0), rate_key("floor", 0)},
       cosine},
      {"halving",
       {rate_key("rate", 1e-4), count_key("epoch", 4, 1), count_key("every", 1, 1), count_key("update", 0, 0)},
       halving},
  };
  return all;
}

template <class Named>
const Named* named(const std::vector<Named>& all, std::string_view name) {
  auto found = std::find_if(all.begin(), all.end(), [&](const Named& one) { return one.name == name; });
  return found == all.end() ? nullptr : &*found;
}

/// The one of `all` whose name comes next. Throws Error for another name, which begins with `what`: "no schedule".
template <class Named>
const Named& read_name(TextReader& reader, const std::vector<Named>& all, const std::string& what) {
  const std::size_t column = reader.column();
  const std::string_view name = reader.word(".-");
  if (const Named* found = named(all, name)) return *found;
  std::vector<std::string> candidates;
  std::string listed;
  for (const Named& one : all) listed += (listed.empty() ? "" : ", ") + candidates.emplace_back(one.name);
  if (name.empty()) reader.expected("one of " + listed);
  const std::string meant = did_you_mean(name, candidates);
  fail_at(reader.text(), column, fmt::format("{} {}", what, in_quotes(name)),
          meant.empty() ? "; there are " + listed : meant);
}

void read_value(TextReader& reader, const Schedule::Kind& kind, Values& values) {
  const std::size_t column = reader.column();
  const Key& key = read_name(reader, kind.keys, fmt::format("{} has no", kind.name));
  if (!reader.take("=")) reader.expected("'='");
  const double value = reader.required_number();
  if (!(key.least <= value && value <= key.most) || (key.is_whole && value != std::floor(value)))
    fail_at(reader.text(), column, fmt::format("{} is {}", key.name, value),
            fmt::format("; it must be a {}number from {} to {}", key.is_whole ? "whole " : "", key.least, key.most));
  if (!values.emplace(key.name, value).second)
    fail_at(reader.text(), column, fmt::format("{} is given twice", key.name), "");
}

void require_floor_below_rate(std::string_view schedule, const Values& values) {
  if (auto floor = values.find("floor"); floor != values.end())
    require(floor->second <= values.at("rate"), "schedule {}: floor is {}; it must be at most the rate, {}",
            in_quotes(schedule), floor->second, values.at("rate"));
}

}  // namespace

Schedule Schedule::parse(std::string_view text, std::int64_t updates) {
  TextReader reader(text);
  Schedule schedule;
  schedule.kind_ = &read_name(reader, kinds(), "no schedule");
  if (reader.take("(") && !reader.take(")")) {
    do read_value(reader, *schedule.kind_, schedule.values_);
    while (reader.take(","));
    if (!reader.take(")")) reader.expected("',' or ')'");
  }
  if (!reader.at_end()) reader.expected("the end");
  for (const Key& key : schedule.kind_->keys) schedule.values_.emplace(key.name, key.value);  // those that are left out
  require_floor_below_rate(text, schedule.values_);
  if (auto end = schedule.values_.find("updates"); end != schedule.values_.end() && end->second == 0)
    end->second = static_cast<double>(updates);
  return schedule;
}

double Schedule::rate(std::int64_t updates, std::int64_t epoch) const {
  return kind_->rate(values_, static_cast<double>(updates), static_cast<double>(epoch));
}

Schedule Schedule::with_peak(double peak) const {
  require(peak >= 0 && std::isfinite(peak), "schedule {}: the peak is {}; it must be a finite number of at least 0",
          kind_->name, peak);
  Schedule other = *this;
  for (const char* key : {"rate", "peak"})
    if (auto value = other.values_.find(key); value != other.values_.end()) value->second = peak;
  if (auto scale = other.values_.find("scale"); scale != other.values_.end())
    scale->second = peak * std::sqrt(values_.at("dim") * values_.at("warmup"));
  require_floor_below_rate(other.str(), other.values_);
  return other;
}

double Schedule::warmup() const {
  auto value = values_.find("warmup");
  return value == values_.end() ? 0 : value->second;
}

namespace {

template <class Value>
std::string description(const Schedule::Kind& kind, const Value& value) {
  std::string text;
  for (const Key& key : kind.keys) text += fmt::format("{}{}={}", text.empty() ? "" : ", ", key.name, value(key));
  return fmt::format("{}({})", kind.name, text);
}

}  // namespace

std::string Schedule::str() const {
  return description(*kind_, [this](const Key& key) { return values_.at(key.name); });
}

std::string schedule_help() {
  std::string text;
  for (const Schedule::Kind& kind : kinds()) text += description(kind, [](const Key& key) { return key.value; }) + '\n';
  return text;
}

}  // namespace fovea
