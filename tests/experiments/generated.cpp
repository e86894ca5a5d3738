// Generated texts are what their grammars say, and never change.
#include "experiments/support/data/generated.h"

#include <functional>
#include <map>
#include <set>

#include <boost/test/unit_test.hpp>

#include "experiments/support/text/split_mix.h"
#include "experiments/support/text/words.h"
#include "tests/files.h"

using namespace fovea;

namespace {

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
                                  : stable_hash(pair.source) + std::uint64_t(label_of(pair))));
  return hash;
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

// These numbers change only if the data sets do, which makes earlier results incomparable. The texts that they stand
// for were parsed once: labels are the head's number or the sign of the sum, links are those of words that translate
// each other, headlines are parts of first sentences, brackets close in order, tags say where a word's translation
// goes.
BOOST_AUTO_TEST_CASE(the_same_specification_gives_the_same_texts_everywhere) {
  const auto agreement = [](std::string_view text) { return digest(*generate_agreement(text, false)); };
  const auto hard = [](std::string_view text) { return digest(*generate_agreement(text, true)); };
  const auto sentiment = [](std::string_view text) { return digest(*generate_sentiment(text)); };
  const auto translation = [](std::string_view text) { return digest(*generate_translation(text)); };
  const auto tags = [](std::string_view text) { return digest(*generate_tags(text)); };
  const auto summaries = [](std::string_view text) { return digest(*generate_summaries(text)); };
  const auto lines = [](std::string_view text) { return digest(*generate_lines(text)); };
  struct Row {
    std::uint64_t (*of)(std::string_view specification);
    std::string specification;
    std::uint64_t digest;
  };
  for (const Row& row : std::vector<Row>{
           {agreement, "generated:train=200,dev=20,test=20", 879655199461792597u},
           {agreement, "generated:train=300,dev=20,test=20,attractors=2,nouns=20", 7322702826976383407u},
           {hard, "generated:train=100,dev=10,test=300", 8737754251284377910u},
           {sentiment, "generated:train=200,dev=20,test=20", 14919364462729102325u},
           {sentiment, "generated:train=100,dev=20,test=20,length=150-400,polar=0.1", 2884581160897442618u},
           {sentiment, "generated:train=100,dev=20,test=20,length=3,not=1,seed=2", 16222942334452777014u},
           {translation, "generated:train=300,dev=30,test=40,seed=7", 3200794671564095329u},
           {translation, "generated:train=300,dev=30,test=40,swap=0,length=1,phrases=4,words=4", 8884055916989885778u},
           {translation, "generated:train=300,dev=30,test=40,swap=1,phrases=2", 3790256762115863044u},
           {tags, "generated:train=300,dev=30,test=40,seed=7", 16600258680347929698u},
           {summaries, "generated:train=300,dev=30,test=40", 1190254875230322339u},
           {summaries, "generated:train=300,dev=30,test=40,sentences=1,nouns=10", 9886476535738094093u},
           {lines, "generated:train=300,dev=30,test=40", 3692266231502753298u},
           {lines, "generated:train=300,dev=30,test=40,words=10,length=5,copies=0.5,brackets=0.3",
            9533405118871178484u}})
    BOOST_TEST(row.of(row.specification) == row.digest, row.specification << " " << row.of(row.specification));
}

BOOST_AUTO_TEST_CASE(parts_have_their_sizes_and_no_source_in_common) {
  const auto translation = generate_translation("generated:train=300,dev=30,test=40,phrases=2,length=1-2,words=4");
  std::map<std::string, Part> seen;
  for (const Part part : all_parts)
    for (const TextPair& pair : pairs_of(*translation, part))
      BOOST_TEST((seen.emplace(pair.source, part).first->second == part), pair.source);
  BOOST_TEST(pairs_of(*translation, Part::train).size() == 300u);
  BOOST_TEST(pairs_of(*translation, Part::dev).size() == 30u);
  BOOST_TEST(pairs_of(*generate_sentiment("generated:train=5"), Part::test).size() == 2000u);
}

// The tags of LocalnessGrammar, computed a second time from the words alone.
BOOST_AUTO_TEST_CASE(tags_of_localness_are_what_their_tasks_say) {
  using Words = std::vector<std::string_view>;
  using Tag = std::function<std::string(const Words& words, int i)>;
  const auto majority = [](const Words& words, int first, int last, int i) {
    int lead = 0;
    for (int j = std::max(first, 0); j <= std::min(last, int(words.size()) - 1); ++j)
      lead += words[std::size_t(j)][0] == 'b' ? 1 : -1;
    return std::string(lead > 0 ? "b" : lead < 0 ? "a" : words[std::size_t(i)].substr(0, 1));
  };
  const auto within = [&](int width) {
    return [=](const Words& words, int i) { return majority(words, i - width, i + width, i); };
  };
  const auto number = [](std::string_view digits) { return std::stoi(std::string(digits)); };
  const auto at = [](const Words& words, int from, int i) {
    const bool is_there = from >= 0 && from < int(words.size());
    return std::string(words[std::size_t(is_there ? from : i)].substr(0, 1));
  };
  const auto end_of_segment = [](const Words& words, int i, int step) {
    while (i + step >= 0 && i + step < int(words.size()) && words[std::size_t(i + step)] != "|") i += step;
    return i;
  };
  const std::map<std::string, Tag> tasks = {
      {"majority", within(3)},
      {"widths", [&](const Words& words, int i) { return within(1)(words, i) + within(9)(words, i); }},
      {"own_width",
       [&](const Words& words, int i) { return within(number(words[std::size_t(i)].substr(1)))(words, i); }},
      {"segments",
       [&](const Words& words, int i) {
         return words[std::size_t(i)] == "|"
                    ? "|"
                    : majority(words, end_of_segment(words, i, -1), end_of_segment(words, i, 1), i);
       }},
      {"ranks",
       [&](const Words& words, int i) {
         int smaller = 0;
         for (int d = -3; d <= 3; ++d) smaller += at(words, i + d, i) < words[std::size_t(i)];
         return std::to_string(smaller);
       }},
      {"back", [&](const Words& words, int i) { return at(words, i - 5, i); }},
      {"displaced",
       [&](const Words& words, int i) { return at(words, i + number(words[std::size_t(i)].substr(1)), i); }},
      {"agreement",
       [&](const Words& words, int i) {
         while (!words[std::size_t(i)].starts_with("subject-")) --i;
         return std::string(words[std::size_t(i)].substr(8));
       }},
      {"recall", [&](const Words& words, int i) {
         const std::string_view word = words[std::size_t(i)];
         const std::string_view key = word.substr(0, word.find('=') + 1);
         for (int j = 0; j < int(words.size()); ++j)
           if (j != i && words[std::size_t(j)].starts_with(key))
             return std::string(words[std::size_t(j)].substr(key.size()));
         return std::string(word.substr(key.size()));
       }}};
  for (const auto& [task, tag] : tasks) {
    std::set<std::string_view> seen;
    for (const TextPair& pair :
         pairs_of(*generate_tags("generated:train=40,dev=1,test=1,length=8-70,task=" + task), Part::train)) {
      const Words words = split_words(pair.source), tags = split_words(pair.target);
      BOOST_TEST_REQUIRE(words.size() == tags.size());
      for (int i = 0; i < int(words.size()); ++i)
        BOOST_TEST(tags[std::size_t(i)] == tag(words, i), task << ", word " << i << " of: " << pair.source);
      seen.insert(tags.begin(), tags.end());
    }
    BOOST_TEST(seen.size() >= 2u, task);
  }
  BOOST_TEST(contains(message_of([] { generate_tags("generated:task=majorty"); }),
                      "task=majorty (column 11): expected one of majority, widths"));
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
      {"generated:train=5,dev=5,train=6", "train (column 25) is given twice"},
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
