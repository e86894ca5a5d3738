#include "experiments/support/data/generated_options.h"

#include <algorithm>

#include "experiments/support/text/number.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"
#include "tensor/support/in_quotes.h"
#include "tensor/support/suggestion.h"

namespace fovea {

namespace {

constexpr std::string_view name_of_generated = "generated";

template <class Number>
bool parse(std::string_view text, Number low, Number high, Number& into) {
  const auto value = number<Number>(text);
  if (!value || !(*value >= low && *value <= high)) return false;
  into = *value;
  return true;
}

}  // namespace

bool is_generated(std::string_view data) {
  return data == name_of_generated || (data.starts_with(name_of_generated) && data[name_of_generated.size()] == ':');
}

GeneratedOption GeneratedOption::integer(std::string name, std::int64_t& value, IntegerRange range) {
  return {.name = std::move(name),
          .expected = fmt::format("an integer from {} to {}", range.low, range.high),
          .set = [&value, range](std::string_view text) { return parse(text, range.low, range.high, value); }};
}

GeneratedOption GeneratedOption::number(std::string name, double& value, double low, double high) {
  return {.name = std::move(name),
          .expected = fmt::format("a number from {} to {}", low, high),
          .set = [&value, low, high](std::string_view text) { return parse(text, low, high, value); }};
}

GeneratedOption GeneratedOption::interval(std::string name, IntegerRange& value, IntegerRange range) {
  return {.name = std::move(name),
          .expected = fmt::format("LOW-HIGH, both from {} to {}", range.low, range.high),
          .set = [&value, range](std::string_view text) {
            const std::size_t dash = text.find('-');
            const std::string_view low = text.substr(0, dash);
            const std::string_view high = dash == std::string_view::npos ? low : text.substr(dash + 1);
            IntegerRange read{};
            const bool numbers =
                parse(low, range.low, range.high, read.low) && parse(high, range.low, range.high, read.high);
            if (numbers && read.low <= read.high) value = read;
            return numbers && read.low <= read.high;
          }};
}

std::vector<GeneratedOption> GeneratedSizes::options() {
  constexpr IntegerRange most{1, 100'000'000};
  return {GeneratedOption::integer("train", train, most), GeneratedOption::integer("dev", dev, most),
          GeneratedOption::integer("test", test, most), GeneratedOption::integer("seed", seed, {0, 1'000'000'000})};
}

void read_generated_options(std::string_view specification, const std::vector<GeneratedOption>& options) {
  std::vector<std::string> names;
  for (const GeneratedOption& option : options) names.push_back(option.name);
  std::size_t at = name_of_generated.size();
  while (at < specification.size()) {
    ++at;  // the colon or a comma
    const std::size_t end = std::min(specification.find(',', at), specification.size());
    const std::string_view item = specification.substr(at, end - at);
    const std::size_t equals = item.find('=');
    require(equals != std::string_view::npos, "--data: {}: {} (column {}) is no option=value; options: {}",
            in_quotes_around(specification, at + 1), in_quotes(item), at + 1, listed(names, ", "));
    const std::string_view name = item.substr(0, equals), value = item.substr(equals + 1);
    const GeneratedOption* found = nullptr;
    for (const GeneratedOption& option : options) found = option.name == name ? &option : found;
    require(found != nullptr, "--data: {}: no option {} (column {}){}; options: {}",
            in_quotes_around(specification, at + 1), in_quotes(name), at + 1, did_you_mean(name, names),
            listed(names, ", "));
    require(found->set(value), "--data: {}: {}={} (column {}): expected {}", in_quotes_around(specification, at + 1),
            name, without_middle(value, 80), at + 1, found->expected);
    at = end;
  }
}

void draw_part(std::string_view specification, const GeneratedSizes& sizes, GeneratedPart part,
               const std::function<DrawnText(SplitMix&)>& draw) {
  const std::uint64_t first = part == GeneratedPart::train ? 0 : part == GeneratedPart::dev ? 8 : 9;
  const std::uint64_t last = part == GeneratedPart::train ? 8 : first + 1;
  const std::int64_t size = part == GeneratedPart::train ? sizes.train
                            : part == GeneratedPart::dev ? sizes.dev
                                                         : sizes.test;
  SplitMix random(static_cast<std::uint64_t>(sizes.seed), first);
  for (std::int64_t kept = 0, wasted = 0; kept < size;) {
    DrawnText drawn = draw(random);
    const std::uint64_t tenth = drawn.keep ? stable_hash(drawn.text) % 10 : 10;
    const bool fits = tenth >= first && tenth < last;
    if (fits) drawn.keep(), ++kept;
    wasted = fits ? 0 : wasted + 1;
    require(wasted < 100'000, "--data: {}: these options leave no text for a part of the data",
            in_quotes(specification));
  }
}

void append_word(std::string& text, std::string_view word) {
  if (!text.empty()) text += ' ';
  text += word;
}

}  // namespace fovea
