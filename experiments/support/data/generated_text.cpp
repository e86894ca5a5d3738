#include "experiments/support/data/generated_text.h"

#include <algorithm>
#include <array>
#include <set>
#include <vector>

#include <fmt/core.h>

#include "experiments/support/data/lexicon.h"
#include "experiments/support/metrics/alignment.h"
#include "experiments/support/text/words.h"

namespace fovea {

namespace {

/// Draws pairs of a grammar until each part has its size.
class GeneratedPairs : public PairSource {
 public:
  GeneratedPairs(std::string_view specification, GeneratedSizes sizes,
                 std::function<TextPair(SplitMix& random)> grammar)
      : specification_(specification), sizes_(sizes), grammar_(std::move(grammar)) {}

  void visit(Part part, const std::function<void(const TextPair&)>& visitor) const override {
    const GeneratedPart which = part == Part::train ? GeneratedPart::train
                                : part == Part::dev ? GeneratedPart::dev
                                                    : GeneratedPart::test;
    TextPair pair;
    draw_part(specification_, sizes_, which, [&](SplitMix& random) -> DrawnText {
      pair = grammar_(random);
      return {pair.source.empty() ? pair.target : pair.source, [&] { visitor(pair); }};
    });
  }
  std::string description() const override { return specification_; }

 private:
  std::string specification_;
  GeneratedSizes sizes_;
  std::function<TextPair(SplitMix&)> grammar_;
};

/// Reads the options of the grammar and of the sizes, and draws the pairs.
template <class Grammar>
std::unique_ptr<PairSource> pairs_of(std::string_view specification, const GeneratedSizes& sizes,
                                     const std::vector<GeneratedOption>& options, const Grammar& grammar) {
  read_generated_options(specification, options);
  return std::make_unique<GeneratedPairs>(specification, sizes,
                                          [grammar](SplitMix& random) { return grammar.draw(random); });
}

GeneratedSizes default_sizes() { return {.train = 20000, .dev = 500, .test = 500, .seed = 1}; }

// ---- Invented words: every number has its own

constexpr std::string_view consonants = "bdfgklmnprst", vowels = "aeiou";
constexpr std::uint64_t syllables = consonants.size() * vowels.size();  // 60; two of them make 3600 words

/// Two syllables, "kelu"; numbers below 3600. Neighbouring numbers do not look alike.
std::string source_word(std::uint64_t number) {
  std::string word;
  std::uint64_t code = number * 1117 % (syllables * syllables);  // 1117 is prime to 3600: a bijection
  for (std::uint64_t syllable : {code / syllables, code % syllables}) {
    word += consonants[syllable / vowels.size()];
    word += vowels[syllable % vowels.size()];
  }
  return word;
}

/// The other language has its syllables the other way round, "ulek".
std::string target_stem(std::uint64_t number) {
  std::string word;
  std::uint64_t code = number * 2003 % (syllables * syllables);
  for (std::uint64_t syllable : {code / syllables, code % syllables}) {
    word += vowels[syllable % vowels.size()];
    word += consonants[syllable / vowels.size()];
  }
  return word;
}

// ---- Translation

class TranslationGrammar {
 public:
  static constexpr std::uint64_t types = 8, first_turned = 4;
  static constexpr std::string_view particle = "pa";

  IntegerRange phrases{2, 6}, length{2, 5};
  std::int64_t words = 25;
  double swap = .3;

  TextPair draw(SplitMix& random) const {
    TextPair pair;
    std::vector<Phrase> all;
    std::int64_t position = 0;
    const std::int64_t count = random.between(phrases.low, phrases.high);
    for (std::int64_t k = 0; k < count; ++k) {
      const bool is_passed = k > 0 && all.back().moves;
      const bool moves = !is_passed && k + 1 < count && random.chance(swap);
      if (moves) append_word(pair.source, particle), ++position;
      const std::uint64_t type = all.empty() ? random.below(types) : another_type(random, all.back().type);
      all.push_back(draw_phrase(random, type, position));
      all.back().moves = moves;
      for (std::uint64_t number : all.back().numbers) append_word(pair.source, source_word(number));
      position += static_cast<std::int64_t>(all.back().numbers.size());
    }
    for (std::size_t k = 0; k + 1 < all.size(); ++k)
      if (all[k].moves) std::swap(all[k], all[k + 1]), ++k;
    std::int64_t written = 0;
    for (const Phrase& phrase : all) write_translation(pair, phrase, written);
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
    const auto of_type = static_cast<std::uint64_t>(words);
    for (std::int64_t k = random.between(length.low, length.high); k > 0; --k)
      phrase.numbers.push_back(phrase.type * of_type + random.below(of_type));
    return phrase;
  }

  static void write_translation(TextPair& pair, const Phrase& phrase, std::int64_t& written) {
    const std::size_t n = phrase.numbers.size();
    const std::string_view ending = phrase.numbers[0] % 2 == 0 ? "a" : "o";
    for (std::size_t k = 0; k < n; ++k) {
      const std::size_t from = phrase.type < first_turned ? k : n - 1 - k;
      append_word(pair.target, target_stem(phrase.numbers[from]));
      if (from > 0) pair.target += ending;
      append_word(pair.alignment, fmt::format("{}-{}", phrase.position + static_cast<std::int64_t>(from), written++));
    }
  }
};

// ---- Tags

/// The source of a translation; the tags say where the translation of each word goes.
class TaggingGrammar : public TranslationGrammar {
 public:
  TextPair draw(SplitMix& random) const {
    const TextPair pair = TranslationGrammar::draw(random);
    const std::set<Link> links = parse_alignment(pair.alignment).sure;  // in the order of the source
    TextPair tagged{.source = pair.source, .target = {}, .alignment = {}};
    auto link = links.begin();
    std::int64_t translated = 0;  // words before this one that have a translation
    for (std::int64_t word = 0; word < std::ssize(split_words(pair.source)); ++word) {
      if (link == links.end() || link->source != word) {
        append_word(tagged.target, "none");
        continue;
      }
      append_word(tagged.target, link->target < translated ? "left" : link->target > translated ? "right" : "stay");
      ++link, ++translated;
    }
    return tagged;
  }
};

// ---- Summaries

class SummaryGrammar {
 public:
  IntegerRange sentences{3, 6};
  std::int64_t nouns = 150;

  TextPair draw(SplitMix& random) const {
    TextPair pair;
    for (std::int64_t k = random.between(sentences.low, sentences.high); k > 0; --k)
      append_sentence(random, pair.source, pair.target.empty() ? &pair.target : nullptr);
    return pair;
  }

 private:
  std::string_view noun(SplitMix& random) const {
    const lexicon::Noun& drawn =
        lexicon::nouns[static_cast<std::size_t>(random.below(static_cast<std::uint64_t>(nouns)))];
    return random.chance(.5) ? drawn.singular : drawn.plural;
  }

  /// Adds subject, verb and object to the headline, if there is one.
  void append_sentence(SplitMix& random, std::string& text, std::string* headline) const {
    auto say = [&](std::string_view word, bool is_content) {
      append_word(text, word);
      if (is_content && headline) append_word(*headline, word);
    };
    say(one_of(random, lexicon::determiners), false);
    if (random.chance(.5)) say(one_of(random, lexicon::adjectives), true);
    say(noun(random), true);
    if (random.chance(.4)) {
      say(one_of(random, lexicon::prepositions), false);
      say(one_of(random, lexicon::determiners), false);
      say(noun(random), false);
    }
    say(one_of(random, lexicon::past_verbs), true);
    say(one_of(random, lexicon::determiners), false);
    if (random.chance(.3)) say(one_of(random, lexicon::adjectives), false);
    say(noun(random), true);
    if (random.chance(.3)) say(one_of(random, lexicon::adverbs), false);
    append_word(text, ".");
  }
};

// ---- Lines

class LineGrammar {
 public:
  IntegerRange length{10, 30};
  std::int64_t words = 200;
  double copies = .15, brackets = .05;

  TextPair draw(SplitMix& random) const {
    std::vector<std::string> line;
    std::vector<bool> is_square;               // of the brackets that are open
    std::vector<std::uint64_t> history{0, 0};  // words alone, without brackets
    auto close = [&] {
      line.emplace_back(is_square.back() ? "]" : ")");
      is_square.pop_back();
    };
    for (std::int64_t k = random.between(length.low, length.high); k > 0; --k) {
      if (random.chance(brackets)) {
        is_square.push_back(random.chance(.5));
        line.emplace_back(is_square.back() ? "[" : "(");
      } else if (!is_square.empty() && random.chance(3 * brackets)) {
        close();
      } else {
        const std::uint64_t back = 1 + random.below(4);
        const bool is_copy = history.size() >= 2 + back && random.chance(copies);
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
    const auto choice = static_cast<std::uint64_t>(weighted(random, std::array{.5, .25, .15, .1}));
    return mix_bits((before_last * 4099 + last) * 4 + choice + 1) % static_cast<std::uint64_t>(words);
  }
};

}  // namespace

namespace {

template <class Grammar>
std::unique_ptr<PairSource> generate_phrases(std::string_view specification) {
  Grammar grammar;
  GeneratedSizes sizes = default_sizes();
  auto options = sizes.options();
  options.push_back(GeneratedOption::integer("words", grammar.words, {4, 100}));
  options.push_back(GeneratedOption::interval("phrases", grammar.phrases, {1, 50}));
  options.push_back(GeneratedOption::interval("length", grammar.length, {1, 20}));
  options.push_back(GeneratedOption::number("swap", grammar.swap, 0, 1));
  return pairs_of(specification, sizes, options, grammar);
}

}  // namespace

std::unique_ptr<PairSource> generate_translation(std::string_view specification) {
  return generate_phrases<TranslationGrammar>(specification);
}

std::unique_ptr<PairSource> generate_tags(std::string_view specification) {
  return generate_phrases<TaggingGrammar>(specification);
}

std::unique_ptr<PairSource> generate_summaries(std::string_view specification) {
  GeneratedSizes sizes = default_sizes();
  SummaryGrammar grammar;
  auto options = sizes.options();
  options.push_back(GeneratedOption::interval("sentences", grammar.sentences, {1, 100}));
  options.push_back(
      GeneratedOption::integer("nouns", grammar.nouns, {10, static_cast<std::int64_t>(lexicon::nouns.size())}));
  return pairs_of(specification, sizes, options, grammar);
}

std::unique_ptr<PairSource> generate_lines(std::string_view specification) {
  GeneratedSizes sizes = default_sizes();
  LineGrammar grammar;
  auto options = sizes.options();
  options.push_back(GeneratedOption::integer("words", grammar.words, {10, 2000}));
  options.push_back(GeneratedOption::interval("length", grammar.length, {1, 1000}));
  options.push_back(GeneratedOption::number("copies", grammar.copies, 0, 1));
  options.push_back(GeneratedOption::number("brackets", grammar.brackets, 0, .3));
  return pairs_of(specification, sizes, options, grammar);
}

}  // namespace fovea
