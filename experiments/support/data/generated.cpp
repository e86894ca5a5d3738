#include "experiments/support/data/generated.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <vector>

#include "experiments/support/data/generated_options.h"
#include "experiments/support/data/lexicon.h"
#include "experiments/support/data/split_mix.h"
#include "tensor/error.h"

namespace fovea {

namespace {

/// The three parts, by draw(random), an example or nothing; test examples only those that are wanted.
template <class Draw, class Wanted>
void fill_parts(ClassificationData& data, const GeneratedSizes& sizes, std::string_view specification, Draw draw,
                Wanted wanted) {
  const auto fill = [&](GeneratedPart which, std::vector<Example>& part) {
    draw_part(specification, sizes, which, [&](SplitMix& random) -> DrawnText {
      std::optional<Example> example = draw(random);
      if (!example || (which == GeneratedPart::test && !wanted(*example))) return {};
      return {example->text, [&part, example = std::move(*example)]() mutable { part.push_back(std::move(example)); }};
    });
  };
  fill(GeneratedPart::train, data.train);
  fill(GeneratedPart::dev, data.dev);
  fill(GeneratedPart::test, data.test);
  data.source = std::string(specification);
}

// ------------------------------------------------------------------------------------------------------------------
// Agreement

enum Number { singular = 0, plural = 1 };

class AgreementGrammar {
 public:
  AgreementGrammar(std::int64_t most_attractors, std::int64_t nouns)
      : most_attractors_(most_attractors), nouns_(static_cast<std::uint64_t>(nouns)) {}

  Example draw(SplitMix& random) const {
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
      append_word(text, one_of(random, lexicon::past_verbs));
      any_noun_phrase(random, text);
      append_word(text, one_of(random, lexicon::conjunctions));
    }
    if (random.chance(.15)) {
      append_word(text, one_of(random, lexicon::prepositions));
      any_noun_phrase(random, text);
    }
    noun_phrase(random, text, head);
    for (const Number number : between) modifier(random, text, number);
    if (random.chance(.2)) append_word(text, one_of(random, lexicon::adverbs));
    return {.text = std::move(text),
            .label = head,
            .group = static_cast<int>(attractors),
            .nouns_between = nouns,
            .is_hard = attractors == nouns};
  }

 private:
  /// Of random number, perhaps with a modifier.
  void any_noun_phrase(SplitMix& random, std::string& text) const {
    noun_phrase(random, text, static_cast<Number>(random.below(2)));
    if (random.chance(.3)) modifier(random, text, static_cast<Number>(random.below(2)));
  }

  void noun_phrase(SplitMix& random, std::string& text, Number number) const {
    append_word(text, one_of(random, lexicon::determiners));
    if (random.chance(.3)) append_word(text, one_of(random, lexicon::adjectives));
    const lexicon::Noun& noun = lexicon::nouns[static_cast<std::size_t>(random.below(nouns_))];
    append_word(text, number == singular ? noun.singular : noun.plural);
  }

  void modifier(SplitMix& random, std::string& text, Number number) const {
    const bool relative = random.chance(.4), subject_relative = random.chance(.5);
    append_word(text, relative ? "that" : one_of(random, lexicon::prepositions));
    if (relative && subject_relative) append_word(text, one_of(random, lexicon::past_verbs));
    noun_phrase(random, text, number);
    if (relative && !subject_relative) append_word(text, one_of(random, lexicon::past_verbs));
  }

  std::int64_t most_attractors_;
  std::uint64_t nouns_;
};

// ------------------------------------------------------------------------------------------------------------------
// Sentiment

class SentimentGrammar {
 public:
  SentimentGrammar(IntegerRange length, double polar, double negated)
      : length_(length), polar_(polar), negated_(negated) {}

  /// Nothing where the sum is 0.
  std::optional<Example> draw(SplitMix& random) const {
    const std::int64_t length = random.between(length_.low, length_.high);
    const int leaning = random.chance(.5) ? 1 : -1;
    std::string text;
    int sum = 0;
    for (std::int64_t room = length; room > 0;) {
      const std::int64_t words = random.chance(polar_) ? polar_phrase(random, text, room, leaning, sum) : 0;
      if (words == 0) append_word(text, one_of(random, lexicon::neutral));
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
    if (negated) append_word(text, "not");
    for (std::int64_t i = 0; i < neutral; ++i) append_word(text, one_of(random, lexicon::neutral));
    const bool positive_word = (counts > 0) != negated;
    append_word(text, positive_word ? one_of(random, lexicon::positive) : one_of(random, lexicon::negative));
    sum += counts;
    return words;
  }

  IntegerRange length_;
  double polar_, negated_;
};

}  // namespace

ClassificationData generate_agreement(std::string_view specification, bool hard_subset) {
  GeneratedSizes sizes;
  std::int64_t attractors = 4, nouns = 150;
  auto options = sizes.options();
  options.push_back(GeneratedOption::integer("attractors", attractors, {0, 4}));
  options.push_back(GeneratedOption::integer("nouns", nouns, {10, static_cast<std::int64_t>(lexicon::nouns.size())}));
  read_generated_options(specification, options);

  ClassificationData data;
  data.classes = {"singular", "plural"};
  data.group = "attractors";
  const AgreementGrammar grammar(attractors, nouns);
  fill_parts(
      data, sizes, specification, [&](SplitMix& random) { return std::optional(grammar.draw(random)); },
      [&](const Example& example) { return !hard_subset || example.is_hard; });
  if (hard_subset) data.source += " (test: hard subset, no noun in between or attractors only)";
  return data;
}

ClassificationData generate_sentiment(std::string_view specification) {
  GeneratedSizes sizes;
  IntegerRange length{10, 20};
  double polar = .3, negated = .3;
  auto options = sizes.options();
  options.push_back(GeneratedOption::interval("length", length, {1, 10'000}));
  options.push_back(GeneratedOption::number("polar", polar, .01, 1));
  options.push_back(GeneratedOption::number("not", negated, 0, 1));
  read_generated_options(specification, options);

  ClassificationData data;
  data.classes = {"negative", "positive"};
  const SentimentGrammar grammar(length, polar, negated);
  fill_parts(
      data, sizes, specification, [&](SplitMix& random) { return grammar.draw(random); },
      [](const Example&) { return true; });
  return data;
}

}  // namespace fovea
