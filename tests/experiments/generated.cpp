#include "experiments/support/data/generated.h"

#include <algorithm>
#include <map>
#include <set>

#include <boost/test/unit_test.hpp>

#include "experiments/support/data/lexicon.h"
#include "experiments/support/data/split_mix.h"
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
  for (const auto& noun : lexicon::nouns) {
    if (word == noun.singular) return 0;
    if (word == noun.plural) return 1;
  }
  return -1;
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

std::uint64_t digest(const ClassificationData& data) {
  std::uint64_t hash = 0;
  for (const auto* part : {&data.train, &data.dev, &data.test}) {
    for (const Example& example : *part) {
      hash = mix_bits(hash + stable_hash(example.text) + static_cast<std::uint64_t>(example.label));
    }
  }
  return hash;
}

std::set<std::string> texts(const std::vector<Example>& examples) {
  std::set<std::string> result;
  for (const Example& example : examples) result.insert(example.text);
  return result;
}

void no_text_is_in_two_parts(const ClassificationData& data) {
  const auto train = texts(data.train), dev = texts(data.dev);
  for (const Example& example : data.test) BOOST_TEST((!train.contains(example.text) && !dev.contains(example.text)));
  for (const Example& example : data.dev) BOOST_TEST(!train.contains(example.text));
}

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
  const ClassificationData data = generate_agreement("generated:train=3000,dev=100,test=100,seed=3", false);
  BOOST_TEST(data.train.size() == 3000u);
  BOOST_TEST(data.dev.size() == 100u);
  std::map<int, int> by_attractors;
  int plural = 0, with_clause = 0, first_noun = 0;
  for (const Example& example : data.train) {
    const auto numbers = noun_numbers(example.text);
    BOOST_REQUIRE(!numbers.empty());
    BOOST_TEST(numbers.front() == example.label, example.text);
    const auto attractors = std::count(numbers.begin(), numbers.end(), 1 - example.label);
    BOOST_TEST(attractors == example.group, example.text);
    ++by_attractors[example.group];
    plural += example.label;
    const auto words = split_words(example.text);
    with_clause +=
        std::any_of(words.begin(), words.end(), [](auto word) { return is_in(word, lexicon::conjunctions); });
    const auto first = std::find_if(words.begin(), words.end(), [](auto word) { return number_of(word) >= 0; });
    first_noun += number_of(*first) == example.label;
  }
  BOOST_TEST(std::abs(plural - 1500) < 120);
  BOOST_TEST(std::abs(with_clause - 450) < 90);
  BOOST_TEST(std::abs(first_noun - 2580) < 110);  // 1 - (1 - .85 * .85) / 2
  const std::map<int, double> expected = {{0, .38}, {1, .31}, {2, .195}, {3, .088}, {4, .026}};
  for (const auto& [attractors, share] : expected) BOOST_TEST(std::abs(by_attractors[attractors] - 3000 * share) < 110);
  no_text_is_in_two_parts(data);
}

BOOST_AUTO_TEST_CASE(the_hard_subset_has_attractors_only) {
  const ClassificationData data = generate_agreement("generated:train=100,dev=10,test=300", true);
  for (const Example& example : data.test) {
    BOOST_TEST(noun_numbers(example.text).size() == static_cast<std::size_t>(example.group) + 1);
  }
  bool mixed = false;
  for (const Example& example : data.train) {
    mixed = mixed || noun_numbers(example.text).size() != static_cast<std::size_t>(example.group) + 1;
  }
  BOOST_TEST(mixed);
  for (const Example& example : generate_agreement("generated:train=300,dev=10,test=10,attractors=2", false).train) {
    BOOST_TEST(example.group <= 2);
  }
}

BOOST_AUTO_TEST_CASE(labels_of_sentiment_are_the_sign_of_the_sum) {
  for (const char* specification :
       {"generated:train=2000,dev=50,test=50", "generated:train=200,length=150-400,polar=0.1",
        "generated:train=500,length=3,not=1"}) {
    const ClassificationData data = generate_sentiment(specification);
    int positive = 0, flips = 0;
    for (const Example& example : data.train) {
      int sum = 0, sign = 1;
      for (const std::string_view word : split_words(example.text)) {
        const int polarity = is_in(word, lexicon::positive) ? 1 : is_in(word, lexicon::negative) ? -1 : 0;
        sum += sign * polarity;
        if (polarity != 0) sign = 1;
        if (word == "not") sign = -1;
        flips += word == "not" ? 1 : 0;
      }
      BOOST_TEST(sum != 0, example.text);
      BOOST_TEST((sum > 0) == (example.label == 1), example.text);
      positive += example.label;
    }
    BOOST_TEST(flips > 0);
    BOOST_TEST(std::abs(positive * 2 - static_cast<int>(data.train.size())) < static_cast<int>(data.train.size()) / 5);
    no_text_is_in_two_parts(data);
  }
}

BOOST_AUTO_TEST_CASE(lengths_are_those_asked_for) {
  std::set<std::size_t> lengths;
  for (const Example& example : generate_sentiment("generated:train=500,length=5-9").train) {
    lengths.insert(split_words(example.text).size());
  }
  BOOST_TEST(lengths == (std::set<std::size_t>{5, 6, 7, 8, 9}));
}

BOOST_AUTO_TEST_CASE(the_same_specification_gives_the_same_texts_everywhere) {
  // These numbers change only if the data sets do, which makes earlier results incomparable.
  BOOST_TEST(digest(generate_agreement("generated:train=200,dev=20,test=20", false)) == 879655199461792597u);
  BOOST_TEST(digest(generate_sentiment("generated:train=200,dev=20,test=20")) == 14919364462729102325u);
  BOOST_TEST(digest(generate_sentiment("generated:train=200,dev=20,test=20,seed=2")) !=
             digest(generate_sentiment("generated:train=200,dev=20,test=20")));
}

BOOST_AUTO_TEST_CASE(no_word_of_the_lexicon_means_two_things) {
  std::set<std::string_view> nouns;
  for (const auto& noun : lexicon::nouns) {
    BOOST_TEST(nouns.insert(noun.singular).second);
    BOOST_TEST(nouns.insert(noun.plural).second);
  }
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
  BOOST_TEST(is_generated("generated"));
  BOOST_TEST(is_generated("generated:x"));
  BOOST_TEST(!is_generated("generated_by_me.tsv"));
}

BOOST_AUTO_TEST_SUITE_END()
