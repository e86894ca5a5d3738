// From the attention of tokens to links of words.
#include <boost/test/unit_test.hpp>

#include "experiments/support/metrics/alignment.h"

using namespace fovea;

namespace {

using Words = std::vector<std::int64_t>;

std::unique_ptr<Tokenizer> trained(Units units) {
  TextOptions options;
  options.units = units;
  options.min_count = 1;
  const std::vector<std::string_view> texts{"ab cd ef", "cd ab gh"};
  return train_tokenizer(options, texts);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(word_alignment)

BOOST_AUTO_TEST_CASE(tokens_belong_to_words) {
  auto words = trained(Units::words), characters = trained(Units::characters);
  BOOST_TEST(words_of_tokens(*words, " ab  xx cd") == Words({0, 1, 2}), boost::test_tools::per_element());
  BOOST_TEST(words_of_tokens(*words, words->encode("ab xx cd")) == Words({0, 1, 2}), boost::test_tools::per_element());
  // each word has three tokens: a mark of the space before it, and two letters
  BOOST_TEST(words_of_tokens(*characters, "ab cd") == Words({0, 0, 0, 1, 1, 1}), boost::test_tools::per_element());
  Words of_tokens = words_of_tokens(*characters, characters->encode("ab cd ef"));
  BOOST_TEST(of_tokens[1] == 0);
  BOOST_TEST(of_tokens[2] == 0);
  BOOST_TEST(of_tokens[4] == 1);
  BOOST_TEST(of_tokens[8] == 2);
  BOOST_TEST(words_of_tokens(*words, "").empty());
}

BOOST_AUTO_TEST_CASE(a_word_is_linked_with_what_all_its_tokens_look_at) {
  // Source: a word of two tokens, one of one, </s>. Target: a word of one token, one of two, one of one, </s>.
  const std::vector<std::vector<float>> attention{
      {.1F, .2F, .4F, .3F},  // the second source word has more than either token of the first, and than both
      {.3F, .2F, .4F, .1F},  // the first word has more, though no token of it does
      {0, .1F, 0, .9F},
      {0, 0, 0, 1},  // </s> alone: no link
      {.9F, .1F, 0, 0}};
  BOOST_TEST((word_links(attention, {0, 0, 1}, {0, 1, 1, 2}) == std::set<Link>{{1, 0}, {0, 1}}));
  BOOST_TEST(word_links(attention, {}, {0, 1, 1, 2}).empty());
  BOOST_TEST(word_links(attention, {0, 0, 1}, {}).empty());
}

BOOST_AUTO_TEST_SUITE_END()
