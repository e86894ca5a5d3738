#include "experiments/support/data/generated.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "experiments/support/data/lexicon.h"
#include "experiments/support/data/split_mix.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"
#include "tensor/suggestion.h"

namespace fovea {

namespace {

constexpr std::string_view name_of_generated = "generated";

// ------------------------------------------------------------------------------------------------------------------
// generated:name=value,name=value

struct Range {
  std::int64_t low, high;
};

/// One option: its name, what is right, and what takes the value; `set` answers false for a value that is wrong.
struct Option {
  std::string name, expected;
  std::function<bool(std::string_view)> set;
};

template <class Number>
bool parse(std::string_view text, Number low, Number high, Number& into) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= low && value <= high)) return false;
  into = value;
  return true;
}

Option integer(std::string name, std::int64_t& value, Range range) {
  return {.name = std::move(name),
          .expected = fmt::format("an integer from {} to {}", range.low, range.high),
          .set = [&value, range](std::string_view text) { return parse(text, range.low, range.high, value); }};
}

Option share(std::string name, double& value, double low, double high) {
  return {.name = std::move(name),
          .expected = fmt::format("a number from {} to {}", low, high),
          .set = [&value, low, high](std::string_view text) { return parse(text, low, high, value); }};
}

/// `10-20`, or `10` for exactly ten.
Option interval(std::string name, Range& value, Range range) {
  return {.name = std::move(name),
          .expected = fmt::format("LOW-HIGH, both from {} to {}", range.low, range.high),
          .set = [&value, range](std::string_view text) {
            const std::size_t dash = text.find('-');
            const std::string_view low = text.substr(0, dash);
            const std::string_view high = dash == std::string_view::npos ? low : text.substr(dash + 1);
            Range read{};
            const bool numbers =
                parse(low, range.low, range.high, read.low) && parse(high, range.low, range.high, read.high);
            if (numbers && read.low <= read.high) value = read;
            return numbers && read.low <= read.high;
          }};
}

/// Gives every `name=value` of the specification to its option; what is not named keeps its default.
void parse_specification(std::string_view specification, const std::vector<Option>& options) {
  std::vector<std::string> names;
  for (const Option& option : options) names.push_back(option.name);
  std::size_t at = name_of_generated.size();
  while (at < specification.size()) {
    ++at;  // the colon or a comma
    const std::size_t end = std::min(specification.find(',', at), specification.size());
    const std::string_view item = specification.substr(at, end - at);
    const std::size_t equals = item.find('=');
    require(equals != std::string_view::npos, "--data: '{}': '{}' (column {}) is no option=value; options: {}",
            specification, item, at + 1, listed(names, ", "));
    const std::string_view name = item.substr(0, equals), value = item.substr(equals + 1);
    const Option* found = nullptr;
    for (const Option& option : options) found = option.name == name ? &option : found;
    require(found != nullptr, "--data: '{}': no option '{}' (column {}){}; options: {}", specification, name, at + 1,
            did_you_mean(name, names), listed(names, ", "));
    require(found->set(value), "--data: '{}': {}={} (column {}): expected {}", specification, name, value, at + 1,
            found->expected);
    at = end;
  }
}

// ------------------------------------------------------------------------------------------------------------------

struct Sizes {
  std::int64_t train = 20000, dev = 500, test = 2000, seed = 1;
};

std::vector<Option> size_options(Sizes& sizes) {
  constexpr Range most{1, 10'000'000};
  return {integer("train", sizes.train, most), integer("dev", sizes.dev, most), integer("test", sizes.test, most),
          integer("seed", sizes.seed, {0, 1'000'000'000})};
}

/// `draw(random)` until enough texts have fallen to each part: eight tenths of all hashes are the training part's, one
/// tenth the development part's, one tenth the test part's.
template <class Draw, class Wanted>
void fill_parts(ClassificationData& data, const Sizes& sizes, std::string_view specification, Draw draw,
                Wanted wanted) {
  const auto fill = [&](std::vector<Example>& part, std::int64_t size, std::uint64_t first, std::uint64_t last) {
    SplitMix random(static_cast<std::uint64_t>(sizes.seed), first);
    part.reserve(static_cast<std::size_t>(size));
    std::int64_t wasted = 0;
    while (static_cast<std::int64_t>(part.size()) < size) {
      const std::optional<Example> example = draw(random);
      const std::uint64_t tenth = example ? stable_hash(example->text) % 10 : 10;
      const bool fits = tenth >= first && tenth < last && (first != 9 || wanted(*example));
      if (fits) part.push_back(*example);
      wasted = fits ? 0 : wasted + 1;
      require(wasted < 100'000, "--data: '{}': these options leave no text for a part of the data", specification);
    }
  };
  fill(data.train, sizes.train, 0, 8);
  fill(data.dev, sizes.dev, 8, 9);
  fill(data.test, sizes.test, 9, 10);
  data.source = std::string(specification);
}

void append(std::string& text, std::string_view word) {
  if (!text.empty()) text += ' ';
  text += word;
}

template <std::size_t n>
std::string_view one_of(SplitMix& random, const std::array<std::string_view, n>& words) {
  return words[static_cast<std::size_t>(random.below(n))];
}

/// Index drawn with the given weights, which sum to 1; the last takes what rounding leaves.
template <std::size_t n>
int weighted(SplitMix& random, const std::array<double, n>& weights) {
  double place = static_cast<double>(random.next() >> 11) * 0x1p-53;
  for (std::size_t i = 0; i + 1 < n; ++i) {
    if (place < weights[i]) return static_cast<int>(i);
    place -= weights[i];
  }
  return static_cast<int>(n) - 1;
}

// ------------------------------------------------------------------------------------------------------------------
// Agreement

enum Number { singular = 0, plural = 1 };

class AgreementGrammar {
 public:
  AgreementGrammar(std::int64_t most_attractors, std::int64_t nouns)
      : most_attractors_(most_attractors), nouns_(static_cast<std::uint64_t>(nouns)) {}

  struct Sentence {
    Example example;
    bool homogeneous = true;  ///< every noun between head and verb is an attractor
  };

  Sentence draw(SplitMix& random) const {
    const auto head = static_cast<Number>(random.below(2));
    const int nouns = weighted(random, std::array{.2, .2, .2, .15, .15, .1});
    std::vector<Number> between;
    std::int64_t attractors = 0;
    do {
      between.clear();
      for (int i = 0; i < nouns; ++i) between.push_back(static_cast<Number>(random.below(2)));
      attractors = std::count(between.begin(), between.end(), head == singular ? plural : singular);
    } while (attractors > most_attractors_);

    std::string text;
    if (random.chance(.15)) {
      any_noun_phrase(random, text);
      append(text, one_of(random, lexicon::past_verbs));
      any_noun_phrase(random, text);
      append(text, one_of(random, lexicon::conjunctions));
    }
    if (random.chance(.15)) {
      append(text, one_of(random, lexicon::prepositions));
      any_noun_phrase(random, text);
    }
    noun_phrase(random, text, head);
    for (const Number number : between) modifier(random, text, number);
    if (random.chance(.2)) append(text, one_of(random, lexicon::adverbs));
    return {.example = {.text = std::move(text), .label = head, .group = static_cast<int>(attractors)},
            .homogeneous = attractors == nouns};
  }

 private:
  /// Of random number, perhaps with a modifier.
  void any_noun_phrase(SplitMix& random, std::string& text) const {
    noun_phrase(random, text, static_cast<Number>(random.below(2)));
    if (random.chance(.3)) modifier(random, text, static_cast<Number>(random.below(2)));
  }

  void noun_phrase(SplitMix& random, std::string& text, Number number) const {
    append(text, one_of(random, lexicon::determiners));
    if (random.chance(.3)) append(text, one_of(random, lexicon::adjectives));
    const lexicon::Noun& noun = lexicon::nouns[static_cast<std::size_t>(random.below(nouns_))];
    append(text, number == singular ? noun.singular : noun.plural);
  }

  void modifier(SplitMix& random, std::string& text, Number number) const {
    const bool relative = random.chance(.4), subject_relative = random.chance(.5);
    append(text, relative ? "that" : one_of(random, lexicon::prepositions));
    if (relative && subject_relative) append(text, one_of(random, lexicon::past_verbs));
    noun_phrase(random, text, number);
    if (relative && !subject_relative) append(text, one_of(random, lexicon::past_verbs));
  }

  std::int64_t most_attractors_;
  std::uint64_t nouns_;
};

// ------------------------------------------------------------------------------------------------------------------
// Sentiment

class SentimentGrammar {
 public:
  SentimentGrammar(Range length, double polar, double negated) : length_(length), polar_(polar), negated_(negated) {}

  /// Nothing where the sum is 0.
  std::optional<Example> draw(SplitMix& random) const {
    const std::int64_t length = random.between(length_.low, length_.high);
    const int leaning = random.chance(.5) ? 1 : -1;
    std::string text;
    int sum = 0;
    for (std::int64_t room = length; room > 0;) {
      const std::int64_t words = random.chance(polar_) ? polar_phrase(random, text, room, leaning, sum) : 0;
      if (words == 0) append(text, one_of(random, lexicon::neutral));
      room -= words > 0 ? words : 1;
    }
    if (sum == 0) return std::nullopt;
    return Example{.text = std::move(text), .label = sum > 0 ? 1 : 0, .group = -1};
  }

 private:
  /// Appends at most `room` words and adds their polarity to the sum; the number of words.
  std::int64_t polar_phrase(SplitMix& random, std::string& text, std::int64_t room, int leaning, int& sum) const {
    const bool negated = random.chance(negated_);
    const std::int64_t neutral = negated ? random.between(0, 2) : 0;
    const std::int64_t words = 1 + (negated ? 1 : 0) + neutral;
    if (words > room) return 0;
    const int counts = random.chance(.7) ? leaning : -leaning;
    if (negated) append(text, "not");
    for (std::int64_t i = 0; i < neutral; ++i) append(text, one_of(random, lexicon::neutral));
    const bool positive_word = (counts > 0) != negated;
    append(text, positive_word ? one_of(random, lexicon::positive) : one_of(random, lexicon::negative));
    sum += counts;
    return words;
  }

  Range length_;
  double polar_, negated_;
};

}  // namespace

bool is_generated(std::string_view data) {
  return data == name_of_generated || (data.starts_with(name_of_generated) && data[name_of_generated.size()] == ':');
}

ClassificationData generate_agreement(std::string_view specification, bool hard_subset) {
  Sizes sizes;
  std::int64_t attractors = 4, nouns = 150;
  auto options = size_options(sizes);
  options.push_back(integer("attractors", attractors, {0, 4}));
  options.push_back(integer("nouns", nouns, {10, static_cast<std::int64_t>(lexicon::nouns.size())}));
  parse_specification(specification, options);

  ClassificationData data;
  data.classes = {"singular", "plural"};
  data.group = "attractors";
  const AgreementGrammar grammar(attractors, nouns);
  bool homogeneous = true;
  fill_parts(
      data, sizes, specification,
      [&](SplitMix& random) {
        AgreementGrammar::Sentence sentence = grammar.draw(random);
        homogeneous = sentence.homogeneous;
        return std::optional(std::move(sentence.example));
      },
      [&](const Example&) { return !hard_subset || homogeneous; });
  if (hard_subset) data.source += " (test: hard subset, no noun in between or attractors only)";
  return data;
}

ClassificationData generate_sentiment(std::string_view specification) {
  Sizes sizes;
  Range length{10, 20};
  double polar = .3, negated = .3;
  auto options = size_options(sizes);
  options.push_back(interval("length", length, {1, 10'000}));
  options.push_back(share("polar", polar, .01, 1));
  options.push_back(share("not", negated, 0, 1));
  parse_specification(specification, options);

  ClassificationData data;
  data.classes = {"negative", "positive"};
  const SentimentGrammar grammar(length, polar, negated);
  fill_parts(
      data, sizes, specification, [&](SplitMix& random) { return grammar.draw(random); },
      [](const Example&) { return true; });
  return data;
}

}  // namespace fovea
