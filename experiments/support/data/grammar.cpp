#include "experiments/support/data/grammar.h"

#include <algorithm>

#include "experiments/support/data/generated.h"
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

template <class Number>
GrammarOption number_option(const std::string& name, Number& value, Number low, Number high, const char* kind) {
  return {name, fmt::format("{} from {} to {}", kind, low, high),
          [&value, low, high](std::string_view text) { return parse(text, low, high, value); }};
}

}  // namespace

bool is_generated(std::string_view data) {
  return data == name_of_generated || (data.starts_with(name_of_generated) && data[name_of_generated.size()] == ':');
}

GrammarOption option(const std::string& name, std::int64_t& value, std::int64_t low, std::int64_t high) {
  return number_option(name, value, low, high, "an integer");
}

GrammarOption option(const std::string& name, double& value, double low, double high) {
  return number_option(name, value, low, high, "a number");
}

GrammarOption option(const std::string& name, IntegerRange& value, std::int64_t low, std::int64_t high) {
  return {name, fmt::format("LOW-HIGH, both from {} to {}", low, high), [&value, low, high](std::string_view text) {
            const std::size_t dash = std::min(text.find('-'), text.size());
            const std::string_view last = dash < text.size() ? text.substr(dash + 1) : text;
            return parse(text.substr(0, dash), low, high, value.low) && parse(last, low, high, value.high) &&
                   value.low <= value.high;
          }};
}

GeneratedPairs::GeneratedPairs(std::string_view specification, std::int64_t tests, std::vector<GrammarOption> options)
    : specification_(specification) {
  sizes_[static_cast<std::size_t>(Part::test)] = tests;
  for (const Part part : all_parts)
    options.push_back(option(name_of(part), sizes_[static_cast<std::size_t>(part)], 1, 100'000'000));
  options.push_back(option("seed", seed_, 0, 1'000'000'000));
  std::vector<std::string> names;
  for (const GrammarOption& option : options) names.push_back(option.name);
  std::size_t at = name_of_generated.size();
  while (at < specification.size()) {
    ++at;  // the colon or a comma
    const std::size_t end = std::min(specification.find(',', at), specification.size());
    const std::string_view item = specification.substr(at, end - at);
    const std::size_t equals = item.find('=');
    require(equals != std::string_view::npos, "--data: {}: {} (column {}) is no option=value; options: {}",
            in_quotes_around(specification, at + 1), in_quotes(item), at + 1, listed(names, ", "));
    const std::string_view name = item.substr(0, equals), value = item.substr(equals + 1);
    const auto found = std::ranges::find(options, name, &GrammarOption::name);
    require(found != options.end(), "--data: {}: no option {} (column {}){}; options: {}",
            in_quotes_around(specification, at + 1), in_quotes(name), at + 1, did_you_mean(name, names),
            listed(names, ", "));
    require(found->set(value), "--data: {}: {}={} (column {}): expected {}", in_quotes_around(specification, at + 1),
            name, without_middle(value, 80), at + 1, found->expected);
    at = end;
  }
}

void GeneratedPairs::visit(Part part, const PairVisitor& visitor, std::size_t) const {
  const std::uint64_t first = part == Part::train ? 0 : part == Part::dev ? 8 : 9;  // tenths of all hashes
  const std::uint64_t last = part == Part::train ? 8 : first + 1;
  SplitMix random(static_cast<std::uint64_t>(seed_), first);
  for (std::int64_t kept = 0, wasted = 0; kept < sizes_[static_cast<std::size_t>(part)];) {
    const std::optional<TextPair> pair = draw_(random);
    bool fits = pair && (part != Part::test || !wanted_ || wanted_(*pair));
    if (fits) {
      const std::uint64_t tenth = stable_hash(pair->source.empty() ? pair->target : pair->source) % 10;
      fits = tenth >= first && tenth < last;
    }
    if (fits) visitor(*pair), ++kept;
    wasted = fits ? 0 : wasted + 1;
    require(wasted < 100'000, "--data: {}: these options leave no text for a part of the data",
            in_quotes(specification_));
  }
}

void append_word(std::string& text, std::string_view word) {
  if (!text.empty()) text += ' ';
  text += word;
}

}  // namespace fovea
