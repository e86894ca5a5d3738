// Generated pairs are what their grammars say: word for word by the gold alignment, in the order that types demand.
#include "experiments/support/data/generated_text.h"

#include <algorithm>
#include <map>
#include <set>

#include <boost/test/unit_test.hpp>

#include "experiments/support/text/words.h"
#include "tests/files.h"

using namespace fovea;

namespace {

std::vector<TextPair> pairs_of(const PairSource& source, Part part) {
  std::vector<TextPair> pairs;
  source.visit(part, [&](const TextPair& pair) { pairs.push_back(pair); });
  return pairs;
}

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  for (std::string_view word : split_words(text)) words.emplace_back(word);
  return words;
}

struct Link {
  std::size_t source, target;
};

std::vector<Link> links_of(const std::string& alignment) {
  std::vector<Link> links;
  for (const std::string& link : words_of(alignment)) {
    std::size_t dash = link.find('-');
    links.push_back({std::stoul(link.substr(0, dash)), std::stoul(link.substr(dash + 1))});
  }
  return links;
}

std::uint64_t digest(const PairSource& source) {
  std::uint64_t hash = 0;
  for (Part part : {Part::train, Part::dev, Part::test})
    for (const TextPair& pair : pairs_of(source, part))
      hash = mix_bits(hash + stable_hash(pair.source + "|" + pair.target + "|" + pair.alignment));
  return hash;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(generated_texts)

BOOST_AUTO_TEST_CASE(a_sentence_is_translated_as_the_grammar_says) {
  TextPair first = pairs_of(*generate_translation("generated:train=3"), Part::train).front();
  BOOST_TEST(first.source ==
             "pa loru tira fafi bope sefu rabu pa pusa rotu dana dipo malu nenu bomu pa bope nosu rosi fore tifa");
  BOOST_TEST(first.target ==
             "ogeto isero isug anef ibago eboro abelo ireko ofemo akig ufala ateba anaf ipasa ibufa obod aredo isug");
  BOOST_TEST(first.alignment ==
             "6-0 5-1 4-2 1-3 2-4 3-5 14-6 13-7 12-8 11-9 10-10 9-11 8-12 20-13 19-14 18-15 17-16 16-17");
}

BOOST_AUTO_TEST_CASE(aligned_words_translate_each_other_and_particles_nothing) {
  std::map<std::string, std::set<std::string>> stems_of, words_with_stem;
  std::set<std::string> endings;
  int moved = 0;
  for (const TextPair& pair : pairs_of(*generate_translation("generated:train=3000"), Part::train)) {
    auto source = words_of(pair.source), target = words_of(pair.target);
    std::vector<Link> links = links_of(pair.alignment);
    std::set<std::size_t> aligned;
    BOOST_TEST(links.size() == target.size());
    std::size_t particles = static_cast<std::size_t>(std::count(source.begin(), source.end(), "pa"));
    BOOST_TEST(links.size() + particles == source.size());
    for (const Link& link : links) {
      aligned.insert(link.source);
      BOOST_TEST(source.at(link.source) != "pa");
      std::string stem = target.at(link.target).substr(0, 4);
      endings.insert(target[link.target].substr(4));
      stems_of[source[link.source]].insert(stem);
      words_with_stem[stem].insert(source[link.source]);
    }
    BOOST_TEST(aligned.size() == links.size());
    moved += particles > 0;
  }
  BOOST_TEST(stems_of.size() == 200u);  // 8 types of 25 words
  for (const auto& [word, stems] : stems_of) BOOST_TEST(stems.size() == 1u, word);
  for (const auto& [stem, words] : words_with_stem) BOOST_TEST(words.size() == 1u, stem);
  BOOST_TEST((endings == std::set<std::string>{"", "a", "o"}));
  BOOST_TEST(moved > 1500);
}

BOOST_AUTO_TEST_CASE(without_particles_and_with_phrases_of_one_word_the_order_is_kept) {
  for (const TextPair& pair : pairs_of(*generate_translation("generated:train=200,swap=0,length=1"), Part::train))
    for (const Link& link : links_of(pair.alignment)) BOOST_TEST(link.source == link.target);
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
    BOOST_TEST(headline.size() >= 3u);
    BOOST_TEST(headline.size() <= 4u);
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

BOOST_AUTO_TEST_CASE(texts_never_change_and_no_source_is_in_two_parts) {
  auto translation = generate_translation("generated:train=300,dev=30,test=40,seed=7");
  BOOST_TEST(digest(*translation) == 3200794671564095329u);
  BOOST_TEST(digest(*generate_summaries("generated:train=300,dev=30,test=40")) == 1190254875230322339u);
  BOOST_TEST(digest(*generate_lines("generated:train=300,dev=30,test=40")) == 3692266231502753298u);
  std::set<std::string> train;
  for (const TextPair& pair : pairs_of(*translation, Part::train)) train.insert(pair.source);
  BOOST_TEST(pairs_of(*translation, Part::dev).size() == 30u);
  for (Part part : {Part::dev, Part::test})
    for (const TextPair& pair : pairs_of(*translation, part)) BOOST_TEST(!train.contains(pair.source));
}

BOOST_AUTO_TEST_CASE(wrong_options_are_named) {
  BOOST_TEST(message_of([] { generate_translation("generated:phrases=6-2"); }) ==
             "--data: 'generated:phrases=6-2': phrases=6-2 (column 11): expected LOW-HIGH, both from 1 to 50");
  BOOST_TEST(message_of([] {
               generate_lines("generated:word=3");
             }).starts_with("--data: 'generated:word=3': no option 'word' (column 11); did you mean 'words'?"));
}

BOOST_AUTO_TEST_SUITE_END()
