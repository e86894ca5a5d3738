#include "experiments/support/data/grammar.h"

#include <algorithm>
#include <set>

#include <fmt/core.h>

#include "experiments/support/data/generated.h"
#include "tensor/error.h"
#include "tensor/support/in_quotes.h"
#include "tensor/support/suggestion.h"

namespace fovea {

namespace {

constexpr std::string_view name_of_generated = "generated";

template <class Number>
bool parse(std::string_view text, const GrammarOption& option, Number& into) {
  const auto value = number<Number>(text);
  if (!value || !(double(*value) >= option.low && double(*value) <= option.high)) return false;
  into = *value;
  return true;
}

bool parse(std::string_view text, const GrammarOption& option, IntegerRange& into) {
  const std::size_t dash = std::min(text.find('-'), text.size());
  const std::string_view last = dash < text.size() ? text.substr(dash + 1) : text;
  return parse(text.substr(0, dash), option, into.low) && parse(last, option, into.high) && into.low <= into.high;
}

bool parse(std::string_view text, const GrammarOption&, GrammarChoice& into) {
  into.chosen = std::size_t(std::ranges::find(into.names, text) - into.names.begin());
  return into.chosen < into.names.size();
}

/// The values that an option may have, for messages.
std::string expected_by(const GrammarOption& option) {
  if (const auto* const* choice = std::get_if<GrammarChoice*>(&option.value))
    return "one of " + listed((*choice)->names, ", ");
  constexpr const char* kinds[] = {"an integer", "a number", "LOW-HIGH, both"};
  return fmt::format("{} from {} to {}", kinds[option.value.index()], option.low, option.high);
}

}  // namespace

bool is_generated(std::string_view data) {
  return data == name_of_generated || (data.starts_with(name_of_generated) && data[name_of_generated.size()] == ':');
}

GeneratedPairs::GeneratedPairs(std::string_view specification, std::int64_t tests, std::vector<GrammarOption> options)
    : specification_(specification) {
  sizes_[std::size_t(Part::test)] = tests;
  for (const Part part : all_parts) options.push_back({name_of(part), &sizes_[std::size_t(part)], 1, 1e8});
  options.push_back({"seed", &seed_, 0, 1e9});
  std::vector<std::string> names;
  for (const GrammarOption& option : options) names.push_back(option.name);
  std::set<std::string_view> given;
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
    const std::string meant = did_you_mean(name, names);
    require(found != options.end(), "--data: {}: no option {} (column {}){}", in_quotes_around(specification, at + 1),
            in_quotes(name), at + 1, meant.empty() ? "; options: " + listed(names, ", ") : meant);
    require(given.insert(name).second, "--data: {}: {} (column {}) is given twice",
            in_quotes_around(specification, at + 1), name, at + 1);
    require(std::visit([&](auto* into) { return parse(value, *found, *into); }, found->value),
            "--data: {}: {}={} (column {}): expected {}", in_quotes_around(specification, at + 1), name,
            without_middle(value, 80), at + 1, expected_by(*found));
    at = end;
  }
}

void GeneratedPairs::visit(Part part, const PairVisitor& visitor, std::size_t) const {
  const std::uint64_t first = part == Part::train ? 0 : part == Part::dev ? 8 : 9;  // tenths of all hashes
  const std::uint64_t last = part == Part::train ? 8 : first + 1;
  SplitMix random(std::uint64_t(seed_), first);
  for (std::int64_t kept = 0, wasted = 0; kept < sizes_[std::size_t(part)];) {
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

}  // namespace fovea
