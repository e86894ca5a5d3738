// Suggestions for names, and quotations of text, in messages; they have to do with no device.
#include "tensor/support/suggestion.h"

#include "tensor/support/in_quotes.h"
#include "tests/tensor/kernel_cases.h"

using namespace fovea;

BOOST_AUTO_TEST_SUITE(suggestion, *cpu_only())

static const std::vector<std::string> flags{"attention", "encoder-attention", "decoder-attention", "layers",
                                            "lr",        "learning-rate",     "label-smoothing",   "seed",
                                            "seeds"};

BOOST_AUTO_TEST_CASE(a_slip_of_the_finger_finds_its_name) {
  BOOST_TEST(did_you_mean("layer", flags) == "; did you mean 'layers'?");         // a letter missing
  BOOST_TEST(did_you_mean("attnetion", flags) == "; did you mean 'attention'?");  // two swapped
  BOOST_TEST(did_you_mean("Learning_Rate", flags) == "; did you mean 'learning-rate'?");
  BOOST_TEST(did_you_mean("lable-smoothin", flags) == "; did you mean 'label-smoothing'?");
  BOOST_TEST(did_you_mean("sed", flags) == "; did you mean 'seed'?");
}

BOOST_AUTO_TEST_CASE(an_abbreviation_finds_its_name) {
  BOOST_TEST(did_you_mean("enc-att", flags) == "; did you mean 'encoder-attention'?");
  BOOST_TEST(did_you_mean("label-s", flags) == "; did you mean 'label-smoothing'?");
}

BOOST_AUTO_TEST_CASE(a_strange_name_gets_no_suggestion) {
  BOOST_TEST(did_you_mean("verbose", flags) == "");
  BOOST_TEST(did_you_mean("", flags) == "");
  BOOST_TEST(did_you_mean("x", flags) == "");
  BOOST_TEST(did_you_mean(std::string(100000, 'a'), flags) == "");
  BOOST_TEST(did_you_mean("layers", {}) == "");
}

BOOST_AUTO_TEST_CASE(the_message_is_ready_to_append) {
  BOOST_TEST("no method 'gausian'" + did_you_mean("gausian", {"global", "gaussian"}) ==
             "no method 'gausian'; did you mean 'gaussian'?");
  BOOST_TEST(did_you_mean("zzz", {"global", "gaussian"}) == "");
}

// The dots take room too: a text that is little longer than what is shown must not be cut twice.
BOOST_AUTO_TEST_CASE(a_quotation_around_a_place_ends_where_its_dots_say) {
  std::string text(79, 'a');
  text += "bcd";
  BOOST_TEST(in_quotes_around(text, 1) == "'" + std::string(79, 'a') + "b...'");
  BOOST_TEST(in_quotes_around(text, 41) == "'..." + std::string(78, 'a') + "bc...'");
  BOOST_TEST(in_quotes_around(text, 82) == "'..." + std::string(77, 'a') + "bcd'");
}

BOOST_AUTO_TEST_SUITE_END()
