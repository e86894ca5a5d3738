// Generated texts are what their grammars say, and never change.
#include "experiments/support/data/generated.h"

#include <algorithm>
#include <map>
#include <set>

#include <boost/test/unit_test.hpp>

#include "experiments/support/data/grammar.h"
#include "experiments/support/data/lexicon.h"
#include "experiments/support/metrics/alignment.h"
#include "experiments/support/text/split_mix.h"
#include "experiments/support/text/words.h"
#include "tests/files.h"

using namespace fovea;

namespace {

template <std::size_t n>
bool is_in(std::string_view word, const std::array<std::string_view, n>& words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// 0 for a singular noun, 1 for a plural one, -1 for another word.
int number_of(std::string_view word) {
  const auto place = std::ranges::find(lexicon::nouns, word) - lexicon::nouns.begin();
  return place == std::ssize(lexicon::nouns) ? -1 : static_cast<int>(place % 2);
}

/// Numbers of the nouns from the head on. The head's phrase is the first one, behind the last conjunction, that is not
/// governed by a preposition, by `that` or by the verb of a relative clause.
std::vector<int> noun_numbers(const std::string& text) {
  auto words = split_words(text);
  const auto conjunction = std::find_if(words.rbegin(), words.rend(),
                                        [](std::string_view word) { return is_in(word, lexicon::conjunctions); });
  words.erase(words.begin(), conjunction.base());
  std::size_t start = 0;
  const auto governed = [&](std::size_t i) {
    if (i == 0 || number_of(words[i - 1]) >= 0) return false;
    return !is_in(words[i - 1], lexicon::past_verbs) || words[i - 2] == "that";
  };
  while (!is_in(words[start], lexicon::determiners) || governed(start)) ++start;
  std::vector<int> numbers;
  for (std::size_t i = start; i < words.size(); ++i) {
    if (number_of(words[i]) >= 0) numbers.push_back(number_of(words[i]));
  }
  return numbers;
}

/// 0 for the first label, 1 for the second.
int label_of(const TextPair& pair) { return pair.target == "plural" || pair.target == "positive"; }

std::vector<TextPair> pairs_of(const PairSource& source, Part part) {
  std::vector<TextPair> pairs;
  source.visit(part, [&](const TextPair& pair) { pairs.push_back(pair); });
  return pairs;
}

std::uint64_t digest(const PairSource& source) {
  std::uint64_t hash = 0;
  for (const Part part : all_parts)
    for (const TextPair& pair : pairs_of(source, part))
      hash = mix_bits(hash + (source.classes().empty()
                                  ? stable_hash(pair.source + "|" + pair.target + "|" + pair.alignment)
                                  : stable_hash(pair.source) + static_cast<std::uint64_t>(label_of(pair))));
  return hash;
}

void no_source_is_in_two_parts(const PairSource& data) {
  std::set<std::string> train, dev;
  for (const TextPair& pair : pairs_of(data, Part::train)) train.insert(pair.source);
  for (const TextPair& pair : pairs_of(data, Part::dev)) {
    BOOST_TEST(!train.contains(pair.source));
    dev.insert(pair.source);
  }
  for (const TextPair& pair : pairs_of(data, Part::test))
    BOOST_TEST((!train.contains(pair.source) && !dev.contains(pair.source)));
}

std::vector<std::string> words_of(const std::string& text) {
  const auto words = split_words(text);
  return {words.begin(), words.end()};
}

std::set<Link> links_of(const TextPair& pair) { return parse_alignment(pair.alignment).sure; }

}  // namespace

BOOST_AUTO_TEST_SUITE(generated)

BOOST_AUTO_TEST_CASE(random_numbers_are_the_published_ones) {
  // The reference implementation's sequence for state 1234567.
  BOOST_TEST(mix_bits(1234567 + 0x9e3779b97f4a7c15u) == 6457827717110365317u);
  BOOST_TEST(mix_bits(1234567 + 2 * 0x9e3779b97f4a7c15u) == 3203168211198807973u);
  SplitMix random(5), again(5), other(5, 1);
  std::map<std::uint64_t, int> counts;
  bool same = true, differs = false;
  for (int i = 0; i < 70'000; ++i) {
    const std::uint64_t draw = random.below(7);
    same = same && draw == again.below(7);
    differs = differs || draw != other.below(7);
    ++counts[draw];
  }
  BOOST_TEST(same);
  BOOST_TEST(differs);
  BOOST_TEST(counts.size() == 7u);
  for (const auto& [value, count] : counts) BOOST_TEST(std::abs(count - 10'000) < 500);
}

BOOST_AUTO_TEST_CASE(labels_of_agreement_are_the_heads_number) {
  const LabelledTexts data = generate_agreement("generated:train=3000,dev=100,test=100,seed=3", false);
  BOOST_TEST(data[Part::train].size() == 3000u);
  BOOST_TEST(data[Part::dev].size() == 100u);
  std::map<int, int> by_attractors;
  int plural = 0, with_clause = 0, first_noun = 0;
  for (const TextPair& example : data[Part::train]) {
    const auto numbers = noun_numbers(example.source);
    BOOST_REQUIRE(!numbers.empty());
    BOOST_TEST(numbers.front() == label_of(example), example.source);
    const auto attractors = std::count(numbers.begin(), numbers.end(), 1 - label_of(example));
    BOOST_TEST(attractors == example.group, example.source);
    ++by_attractors[example.group];
    plural += label_of(example);
    const auto words = split_words(example.source);
    with_clause +=
        std::any_of(words.begin(), words.end(), [](auto word) { return is_in(word, lexicon::conjunctions); });
    const auto first = std::find_if(words.begin(), words.end(), [](auto word) { return number_of(word) >= 0; });
    first_noun += number_of(*first) == label_of(example);
  }
  BOOST_TEST(std::abs(plural - 1500) < 120);
  BOOST_TEST(std::abs(with_clause - 450) < 90);
  BOOST_TEST(std::abs(first_noun - 2580) < 110);  // 1 - (1 - .85 * .85) / 2
  const std::map<int, double> expected = {{0, .38}, {1, .31}, {2, .195}, {3, .088}, {4, .026}};
  for (const auto& [attractors, share] : expected) BOOST_TEST(std::abs(by_attractors[attractors] - 3000 * share) < 110);
  no_source_is_in_two_parts(data);
}

BOOST_AUTO_TEST_CASE(the_hard_subset_has_attractors_only) {
  const LabelledTexts data = generate_agreement("generated:train=100,dev=10,test=300", true);
  for (const TextPair& example : data[Part::test]) {
    BOOST_TEST(noun_numbers(example.source).size() == static_cast<std::size_t>(example.group) + 1);
  }
  bool mixed = false;
  for (const TextPair& example : data[Part::train]) {
    mixed = mixed || noun_numbers(example.source).size() != static_cast<std::size_t>(example.group) + 1;
  }
  BOOST_TEST(mixed);
  for (const TextPair& pair : pairs_of(generate_agreement("generated:train=300,attractors=2", false), Part::train))
    BOOST_TEST(pair.group <= 2);
}

BOOST_AUTO_TEST_CASE(labels_of_sentiment_are_the_sign_of_the_sum) {
  for (const char* specification :
       {"generated:train=2000,dev=50,test=50", "generated:train=200,length=150-400,polar=0.1",
        "generated:train=500,length=3,not=1"}) {
    const LabelledTexts data = generate_sentiment(specification);
    int positive = 0, flips = 0;
    for (const TextPair& example : data[Part::train]) {
      int sum = 0, sign = 1;
      for (const std::string_view word : split_words(example.source)) {
        const int polarity = is_in(word, lexicon::positive) ? 1 : is_in(word, lexicon::negative) ? -1 : 0;
        sum += sign * polarity;
        if (polarity != 0) sign = 1;
        if (word == "not") sign = -1;
        flips += word == "not" ? 1 : 0;
      }
      BOOST_TEST(sum != 0, example.source);
      BOOST_TEST((sum > 0) == (label_of(example) == 1), example.source);
      positive += label_of(example);
    }
    BOOST_TEST(flips > 0);
    BOOST_TEST(std::abs(positive * 2 - static_cast<int>(data[Part::train].size())) <
               static_cast<int>(data[Part::train].size()) / 5);
    no_source_is_in_two_parts(data);
  }
}

BOOST_AUTO_TEST_CASE(lengths_are_those_asked_for) {
  std::set<std::size_t> lengths;
  for (const TextPair& pair : pairs_of(generate_sentiment("generated:train=500,length=5-9"), Part::train))
    lengths.insert(split_words(pair.source).size());
  BOOST_TEST(lengths == (std::set<std::size_t>{5, 6, 7, 8, 9}));
}

BOOST_AUTO_TEST_CASE(aligned_words_translate_each_other_and_particles_nothing) {
  std::map<std::string, std::set<std::string>> stems_of, words_with_stem;
  std::set<std::string> endings;
  for (const TextPair& pair : pairs_of(*generate_translation("generated:train=3000"), Part::train)) {
    const auto source = words_of(pair.source), target = words_of(pair.target);
    const std::set<Link> links = links_of(pair);
    const auto particles = static_cast<std::size_t>(std::count(source.begin(), source.end(), "pa"));
    BOOST_TEST((links.size() == target.size() && links.size() + particles == source.size()));
    for (const Link& link : links) {
      const std::string &word = source.at(std::size_t(link.source)), &other = target.at(std::size_t(link.target));
      BOOST_TEST(word != "pa");
      endings.insert(other.substr(4));
      stems_of[word].insert(other.substr(0, 4));
      words_with_stem[other.substr(0, 4)].insert(word);
    }
  }
  BOOST_TEST(stems_of.size() == 200u);  // 8 types of 25 words
  for (const auto& [word, stems] : stems_of) BOOST_TEST(stems.size() == 1u, word);
  for (const auto& [stem, words] : words_with_stem) BOOST_TEST(words.size() == 1u, stem);
  BOOST_TEST((endings == std::set<std::string>{"", "a", "o"}));
}

BOOST_AUTO_TEST_CASE(without_particles_and_with_phrases_of_one_word_the_order_is_kept) {
  for (const TextPair& pair : pairs_of(*generate_translation("generated:train=200,swap=0,length=1"), Part::train))
    for (const Link& link : links_of(pair)) BOOST_TEST(link.source == link.target);
}

BOOST_AUTO_TEST_CASE(a_phrase_is_followed_by_one_of_another_type) {
  std::map<std::string, std::set<std::string>> followers;
  for (const TextPair& pair :
       pairs_of(*generate_translation("generated:train=3000,swap=0,length=1,phrases=4,words=4"), Part::train)) {
    auto source = words_of(pair.source);
    for (std::size_t k = 1; k < source.size(); ++k) followers[source[k - 1]].insert(source[k]);
  }
  BOOST_TEST(followers.size() == 32u);  // 8 types of 4 words
  for (const auto& [word, next] : followers) BOOST_TEST(next.size() == 28u, word);
}

BOOST_AUTO_TEST_CASE(a_phrase_behind_the_particle_goes_behind_the_next) {
  for (const TextPair& pair :
       pairs_of(*generate_translation("generated:train=300,swap=1,length=1,phrases=2"), Part::train)) {
    BOOST_TEST(pair.source.starts_with("pa "));
    BOOST_TEST(pair.alignment == "2-0 1-1");
  }
}

BOOST_AUTO_TEST_CASE(a_headline_says_what_the_first_sentence_says) {
  for (const TextPair& pair : pairs_of(*generate_summaries("generated:train=500"), Part::train)) {
    std::string first = pair.source.substr(0, pair.source.find(" ."));
    auto words = words_of(first), headline = words_of(pair.target);
    BOOST_TEST((headline.size() == 3 || headline.size() == 4));
    auto at = words.begin();
    for (const std::string& word : headline) {
      at = std::find(at, words.end(), word);
      BOOST_REQUIRE_MESSAGE(at != words.end(), pair.source << " | " << pair.target);
      ++at;
    }
    auto sentences = std::count(pair.source.begin(), pair.source.end(), '.');
    BOOST_TEST((sentences >= 3 && sentences <= 6));
  }
}

BOOST_AUTO_TEST_CASE(brackets_of_lines_are_closed_in_order) {
  int brackets = 0;
  for (const TextPair& pair : pairs_of(*generate_lines("generated:train=2000"), Part::train)) {
    BOOST_TEST(pair.source.empty());
    std::string open;
    for (const std::string& word : words_of(pair.target)) {
      if (word == "(" || word == "[") open += word, ++brackets;
      if (word != ")" && word != "]") continue;
      BOOST_REQUIRE(!open.empty());
      BOOST_TEST(open.back() == (word == ")" ? '(' : '['));
      open.pop_back();
    }
    BOOST_TEST(open.empty());
  }
  BOOST_TEST(brackets > 1000);
}

BOOST_AUTO_TEST_CASE(tags_say_where_the_translation_of_each_word_goes) {
  const auto pairs = pairs_of(*generate_translation("generated:train=100"), Part::train),
             tagged = pairs_of(*generate_tags("generated:train=100"), Part::train);
  for (std::size_t k = 0; k < pairs.size(); ++k) {
    std::map<std::int64_t, std::int64_t> target_of;
    for (const Link& link : links_of(pairs[k])) target_of[link.source] = link.target;
    std::string tags;
    std::int64_t translated = 0;
    for (std::int64_t word = 0; word < std::ssize(words_of(pairs[k].source)); ++word) {
      const bool is_there = target_of.contains(word);
      const std::int64_t move = is_there ? target_of[word] - translated : 0;
      append_word(tags, !is_there ? "none" : move < 0 ? "left" : move > 0 ? "right" : "stay");
      translated += is_there;
    }
    BOOST_TEST(tagged[k].source == pairs[k].source);
    BOOST_TEST(tagged[k].target == tags);
  }
}

BOOST_AUTO_TEST_CASE(the_same_specification_gives_the_same_texts_everywhere) {
  // These numbers change only if the data sets do, which makes earlier results incomparable.
  BOOST_TEST(digest(generate_agreement("generated:train=200,dev=20,test=20", false)) == 879655199461792597u);
  BOOST_TEST(digest(generate_sentiment("generated:train=200,dev=20,test=20")) == 14919364462729102325u);
  BOOST_TEST(digest(generate_sentiment("generated:train=200,dev=20,test=20,seed=2")) != 14919364462729102325u);
  const auto translation = generate_translation("generated:train=300,dev=30,test=40,seed=7");
  BOOST_TEST(digest(*translation) == 3200794671564095329u);
  BOOST_TEST(digest(*generate_summaries("generated:train=300,dev=30,test=40")) == 1190254875230322339u);
  BOOST_TEST(digest(*generate_lines("generated:train=300,dev=30,test=40")) == 3692266231502753298u);
  BOOST_TEST(pairs_of(*translation, Part::dev).size() == 30u);
  no_source_is_in_two_parts(*translation);
}

BOOST_AUTO_TEST_CASE(no_word_of_the_lexicon_means_two_things) {
  std::set<std::string_view> nouns;
  for (const std::string_view noun : lexicon::nouns) BOOST_TEST(nouns.insert(noun).second);
  for (const std::string_view word : lexicon::neutral) {
    BOOST_TEST((!is_in(word, lexicon::positive) && !is_in(word, lexicon::negative) && word != "not"), word);
  }
  for (const std::string_view word : lexicon::conjunctions) BOOST_TEST(!is_in(word, lexicon::prepositions), word);
  for (const std::string_view word : lexicon::positive) BOOST_TEST(!is_in(word, lexicon::negative), word);
  for (const std::string_view word : lexicon::adjectives) BOOST_TEST(!nouns.contains(word), word);
  for (const std::string_view word : lexicon::past_verbs) BOOST_TEST(!nouns.contains(word), word);
}

BOOST_AUTO_TEST_CASE(wrong_specifications_are_refused_with_their_column) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"generated:trian=5", "no option 'trian' (column 11); did you mean 'train'?"},
      {"generated:train=5,attractors=9", "attractors=9 (column 19): expected an integer from 0 to 4"},
      {"generated:train=0", "train=0 (column 11): expected an integer from 1 to 10000000"},
      {"generated:train=5x", "train=5x (column 11)"},
      {"generated:train", "'train' (column 11) is no option=value"},
      {"generated:", "'' (column 11) is no option=value"},
      {"generated:train=5,,dev=5", "'' (column 19) is no option=value"},
      {"generated:seed=-1", "seed=-1 (column 11)"},
      {"generated:train=99999999999999999999", "(column 11): expected an integer"}};
  for (const auto& [wrong, expected] : cases) {
    const std::string& specification = wrong;  // clang 14 does not capture a structured binding
    const std::string message = message_of([&] { generate_agreement(specification, false); });
    BOOST_TEST(contains(message, "--data: '" + specification + "'"), message);
    BOOST_TEST(contains(message, expected), message);
  }
  for (const char* length : {"9-5", "0-5", "5-", "-5", "a", "5-6-7", "20000"}) {
    const std::string message = message_of([&] { generate_sentiment(std::string("generated:length=") + length); });
    BOOST_TEST(contains(message, "(column 11): expected LOW-HIGH, both from 1 to 10000"), message);
  }
  BOOST_TEST(
      contains(message_of([] { generate_sentiment("generated:polar=nan"); }), "expected a number from 0.01 to 1"));
  BOOST_TEST(message_of([] { generate_translation("generated:phrases=6-2"); }) ==
             "--data: 'generated:phrases=6-2': phrases=6-2 (column 11): expected LOW-HIGH, both from 1 to 50");
  BOOST_TEST(contains(message_of([] { generate_lines("generated:word=3"); }),
                      "no option 'word' (column 11); did you mean 'words'?"));
  BOOST_TEST(is_generated("generated"));
  BOOST_TEST(is_generated("generated:x"));
  BOOST_TEST(!is_generated("generated_by_me.tsv"));
}

BOOST_AUTO_TEST_SUITE_END()
