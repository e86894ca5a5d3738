#include "experiments/support/data/generated.h"

#include <algorithm>

#include <fmt/core.h>

#include "experiments/support/data/grammar.h"
#include "experiments/support/data/lexicon.h"
#include "experiments/support/data/localness.h"
#include "experiments/support/text/words.h"

namespace fovea {

namespace {

/// The pairs of a grammar with the options of the specification. `tests` is the usual number of test pairs.
template <class Grammar>
std::unique_ptr<GeneratedPairs> pairs_of(std::string_view specification, std::int64_t tests = 500) {
  Grammar grammar;
  auto pairs = std::make_unique<GeneratedPairs>(specification, tests, grammar.options());
  pairs->draw_by([grammar](SplitMix& random) { return grammar.draw(random); });
  return pairs;
}

const std::vector<std::string> numbers = {"singular", "plural"}, sentiments = {"negative", "positive"};
constexpr double most_nouns = lexicon::nouns.size() / 2;

/// Singular and plural of one of the first `nouns` nouns.
std::pair<std::string_view, std::string_view> draw_noun(SplitMix& random, std::int64_t nouns) {
  const auto k = 2 * std::size_t(random.below(std::uint64_t(nouns)));
  return {lexicon::nouns[k], lexicon::nouns[k + 1]};
}

enum Number { singular = 0, plural = 1 };

class AgreementGrammar {
 public:
  std::vector<GrammarOption> options() {
    return {{"attractors", &most_attractors_, 0, 4}, {"nouns", &nouns_, 10, most_nouns}};
  }

  TextPair draw(SplitMix& random) const {
    const auto head = static_cast<Number>(random.below(2));
    const int nouns = weighted(random, std::array{.2, .2, .2, .15, .15, .1});
    std::vector<Number> between;
    std::int64_t attractors = 0;
    do {
      between.clear();
      for (int i = 0; i < nouns; ++i) between.push_back(static_cast<Number>(random.below(2)));
      attractors = std::ranges::count(between, head == singular ? plural : singular);
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
    return {.source = std::move(text),
            .target = numbers[head],
            .group = int(attractors),
            .nouns_between = nouns,
            .is_hard = attractors == nouns};
  }

 private:
  /// A noun phrase of random number, perhaps with a modifier.
  void any_noun_phrase(SplitMix& random, std::string& text) const {
    noun_phrase(random, text, static_cast<Number>(random.below(2)));
    if (random.chance(.3)) modifier(random, text, static_cast<Number>(random.below(2)));
  }

  void noun_phrase(SplitMix& random, std::string& text, Number number) const {
    append_word(text, one_of(random, lexicon::determiners));
    if (random.chance(.3)) append_word(text, one_of(random, lexicon::adjectives));
    const auto [one, many] = draw_noun(random, nouns_);
    append_word(text, number == singular ? one : many);
  }

  void modifier(SplitMix& random, std::string& text, Number number) const {
    const bool relative = random.chance(.4), subject_relative = random.chance(.5);
    append_word(text, relative ? "that" : one_of(random, lexicon::prepositions));
    if (relative && subject_relative) append_word(text, one_of(random, lexicon::past_verbs));
    noun_phrase(random, text, number);
    if (relative && !subject_relative) append_word(text, one_of(random, lexicon::past_verbs));
  }

  std::int64_t most_attractors_ = 4, nouns_ = 150;
};

class SentimentGrammar {
 public:
  std::vector<GrammarOption> options() {
    return {{"length", &length_, 1, 10'000}, {"polar", &polar_, .01, 1}, {"not", &negated_, 0, 1}};
  }

  /// Nothing where the sum is 0.
  std::optional<TextPair> draw(SplitMix& random) const {
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
    return TextPair{.source = std::move(text), .target = sentiments[sum > 0]};
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

  IntegerRange length_{10, 20};
  double polar_ = .3, negated_ = .3;
};

// ---- Invented words: every number has its own

constexpr std::string_view consonants = "bdfgklmnprst", vowels = "aeiou";
constexpr std::uint64_t syllables = consonants.size() * vowels.size();  // 60; two of them make 3600 words

/// Two syllables, of numbers below 3600. Neighbouring numbers do not look alike, because `factor` is prime to 3600.
std::string invented_word(std::uint64_t number, std::uint64_t factor, bool begins_with_vowel) {
  std::string word;
  const std::uint64_t code = number * factor % (syllables * syllables);
  for (const std::uint64_t syllable : {code / syllables, code % syllables}) {
    const char consonant = consonants[syllable / vowels.size()], vowel = vowels[syllable % vowels.size()];
    word += begins_with_vowel ? vowel : consonant;
    word += begins_with_vowel ? consonant : vowel;
  }
  return word;
}
std::string source_word(std::uint64_t number) { return invented_word(number, 1117, false); }  // "kelu"
std::string target_stem(std::uint64_t number) { return invented_word(number, 2003, true); }   // "ulek"

class TranslationGrammar {
 public:
  static constexpr std::uint64_t types = 8, first_turned = 4;
  static constexpr std::string_view particle = "pa";

  std::vector<GrammarOption> options() {
    return {
        {"words", &words_, 4, 100}, {"phrases", &phrases_, 1, 50}, {"length", &length_, 1, 20}, {"swap", &swap_, 0, 1}};
  }

  TextPair draw(SplitMix& random) const {
    std::vector<std::int64_t> places;
    return draw(random, places);
  }

 protected:
  /// The place in the source of each word of the target.
  TextPair draw(SplitMix& random, std::vector<std::int64_t>& places) const {
    TextPair pair;
    std::vector<Phrase> all;
    std::int64_t position = 0;
    const std::int64_t count = random.between(phrases_.low, phrases_.high);
    for (std::int64_t k = 0; k < count; ++k) {
      const bool is_passed = k > 0 && all.back().moves;
      const bool moves = !is_passed && k + 1 < count && random.chance(swap_);
      if (moves) append_word(pair.source, particle), ++position;
      const std::uint64_t type = all.empty() ? random.below(types) : another_type(random, all.back().type);
      all.push_back(draw_phrase(random, type, position));
      all.back().moves = moves;
      for (std::uint64_t number : all.back().numbers) append_word(pair.source, source_word(number));
      position += std::int64_t(all.back().numbers.size());
    }
    for (std::size_t k = 0; k + 1 < all.size(); ++k)
      if (all[k].moves) std::swap(all[k], all[k + 1]), ++k;
    for (const Phrase& phrase : all) write_translation(pair, phrase, places);
    for (std::size_t j = 0; j < places.size(); ++j) append_word(pair.alignment, fmt::format("{}-{}", places[j], j));
    return pair;
  }

 private:
  struct Phrase {
    std::uint64_t type = 0;
    std::vector<std::uint64_t> numbers;  ///< of its words, the head first
    std::int64_t position = 0;           ///< of the head in the source
    bool moves = false;
  };

  /// Neighbours differ in type: otherwise the end of a phrase could not be seen.
  static std::uint64_t another_type(SplitMix& random, std::uint64_t type) {
    return (type + 1 + random.below(types - 1)) % types;
  }

  Phrase draw_phrase(SplitMix& random, std::uint64_t type, std::int64_t position) const {
    Phrase phrase{.type = type, .numbers = {}, .position = position};
    const auto of_type = std::uint64_t(words_);
    for (std::int64_t k = random.between(length_.low, length_.high); k > 0; --k)
      phrase.numbers.push_back(phrase.type * of_type + random.below(of_type));
    return phrase;
  }

  static void write_translation(TextPair& pair, const Phrase& phrase, std::vector<std::int64_t>& places) {
    const std::size_t n = phrase.numbers.size();
    const std::string_view ending = phrase.numbers[0] % 2 == 0 ? "a" : "o";
    for (std::size_t k = 0; k < n; ++k) {
      const std::size_t from = phrase.type < first_turned ? k : n - 1 - k;
      append_word(pair.target, target_stem(phrase.numbers[from]));
      if (from > 0) pair.target += ending;
      places.push_back(phrase.position + std::int64_t(from));
    }
  }

  IntegerRange phrases_{2, 6}, length_{2, 5};
  std::int64_t words_ = 25;
  double swap_ = .3;
};

/// The source of a translation; the tags say where the translation of each word goes.
class TaggingGrammar : public TranslationGrammar {
 public:
  TextPair draw(SplitMix& random) const {
    std::vector<std::int64_t> places;
    TextPair pair = TranslationGrammar::draw(random, places);
    std::int64_t translated = 0;  // words before this one that have a translation
    pair.target = pair.alignment = "";
    for (std::int64_t word = 0; word < std::ssize(split_words(pair.source)); ++word) {
      const std::int64_t target = std::ranges::find(places, word) - places.begin();
      const bool is_particle = target == std::ssize(places);
      append_word(pair.target, is_particle           ? "none"
                               : target < translated ? "left"
                               : target > translated ? "right"
                                                     : "stay");
      translated += !is_particle;
    }
    return pair;
  }
};

class SummaryGrammar {
 public:
  std::vector<GrammarOption> options() {
    return {{"sentences", &sentences_, 1, 100}, {"nouns", &nouns_, 10, most_nouns}};
  }

  TextPair draw(SplitMix& random) const {
    TextPair pair;
    for (std::int64_t k = random.between(sentences_.low, sentences_.high); k > 0; --k)
      append_sentence(random, pair.source, pair.target.empty() ? &pair.target : nullptr);
    return pair;
  }

 private:
  /// Adds subject, verb and object to the headline, if there is one.
  void append_sentence(SplitMix& random, std::string& text, std::string* headline) const {
    auto noun = [&] {
      const auto [one, many] = draw_noun(random, nouns_);
      return random.chance(.5) ? one : many;
    };
    auto say = [&](std::string_view word, bool is_content) {
      append_word(text, word);
      if (is_content && headline) append_word(*headline, word);
    };
    say(one_of(random, lexicon::determiners), false);
    if (random.chance(.5)) say(one_of(random, lexicon::adjectives), true);
    say(noun(), true);
    if (random.chance(.4)) {
      say(one_of(random, lexicon::prepositions), false);
      say(one_of(random, lexicon::determiners), false);
      say(noun(), false);
    }
    say(one_of(random, lexicon::past_verbs), true);
    say(one_of(random, lexicon::determiners), false);
    if (random.chance(.3)) say(one_of(random, lexicon::adjectives), false);
    say(noun(), true);
    if (random.chance(.3)) say(one_of(random, lexicon::adverbs), false);
    append_word(text, ".");
  }

  IntegerRange sentences_{3, 6};
  std::int64_t nouns_ = 150;
};

class LineGrammar {
 public:
  std::vector<GrammarOption> options() {
    return {{"words", &words_, 10, 2000},
            {"length", &length_, 1, 1000},
            {"copies", &copies_, 0, 1},
            {"brackets", &brackets_, 0, .3}};
  }

  TextPair draw(SplitMix& random) const {
    std::vector<std::string> line;
    std::vector<bool> is_square;               // of the brackets that are open
    std::vector<std::uint64_t> history{0, 0};  // words alone, without brackets
    auto close = [&] {
      line.emplace_back(is_square.back() ? "]" : ")");
      is_square.pop_back();
    };
    for (std::int64_t k = random.between(length_.low, length_.high); k > 0; --k) {
      if (random.chance(brackets_)) {
        is_square.push_back(random.chance(.5));
        line.emplace_back(is_square.back() ? "[" : "(");
      } else if (!is_square.empty() && random.chance(3 * brackets_)) {
        close();
      } else {
        const std::uint64_t back = 1 + random.below(4);
        const bool is_copy = history.size() >= 2 + back && random.chance(copies_);
        history.push_back(is_copy ? history[history.size() - back] : successor(random, history));
        line.push_back(source_word(history.back()));
      }
    }
    while (!is_square.empty()) close();
    TextPair pair;
    for (const std::string& word : line) append_word(pair.target, word);
    return pair;
  }

 private:
  /// One of the four words that may follow the last two.
  std::uint64_t successor(SplitMix& random, const std::vector<std::uint64_t>& history) const {
    const std::uint64_t before_last = history[history.size() - 2], last = history.back();
    const auto choice = std::uint64_t(weighted(random, std::array{.5, .25, .15, .1}));
    return mix_bits((before_last * 4099 + last) * 4 + choice + 1) % std::uint64_t(words_);
  }

  IntegerRange length_{10, 30};
  std::int64_t words_ = 200;
  double copies_ = .15, brackets_ = .05;
};

}  // namespace

std::unique_ptr<PairSource> generate_agreement(std::string_view specification, bool hard_subset) {
  auto pairs = pairs_of<AgreementGrammar>(specification, 2000);
  pairs->label(numbers, "attractors");
  if (hard_subset) pairs->test_on([](const TextPair& pair) { return pair.is_hard; });
  return pairs;
}

std::unique_ptr<PairSource> generate_sentiment(std::string_view specification) {
  auto pairs = pairs_of<SentimentGrammar>(specification, 2000);
  pairs->label(sentiments, "");
  return pairs;
}

std::unique_ptr<PairSource> generate_translation(std::string_view specification) {
  return pairs_of<TranslationGrammar>(specification);
}

std::unique_ptr<PairSource> generate_tags(std::string_view specification) {
  if (specification.find("task=") != specification.npos) return pairs_of<LocalnessGrammar>(specification);
  return pairs_of<TaggingGrammar>(specification);
}

std::unique_ptr<PairSource> generate_summaries(std::string_view specification) {
  return pairs_of<SummaryGrammar>(specification);
}

std::unique_ptr<PairSource> generate_lines(std::string_view specification) {
  return pairs_of<LineGrammar>(specification);
}

}  // namespace fovea
