#include "experiments/support/program/terminal.h"

#include <boost/test/unit_test.hpp>

using namespace fovea;

BOOST_AUTO_TEST_SUITE(terminal)

BOOST_AUTO_TEST_CASE(shortening_never_exceeds_the_columns_or_cuts_a_character) {
  std::string text = "aé日本\u0301語z";
  for (std::size_t columns = 0; columns < 12; ++columns) {
    std::string result = shortened(text, columns);
    BOOST_TEST(display_width(result) <= columns);
    for (std::size_t at = 0; at < result.size();) BOOST_TEST((next_character(result, at) != 0xfffd));
  }
  BOOST_TEST(shortened("attention", 6) == "atten…");
  BOOST_TEST(shortened("attention", 9) == "attention");
}

BOOST_AUTO_TEST_CASE(hostile_text_becomes_visible_and_harmless) {
  BOOST_TEST(printable("a\tb\x1b[31m\n") == "a␉b␛[31m␊");
  BOOST_TEST(printable(std::string_view("\0\x7f", 2)) == "␀␡");
  BOOST_TEST(printable("\u202egnol\u2066") == "\ufffdgnol\ufffd");
  BOOST_TEST(printable("\xff\u0085\uffff") == "\ufffd\ufffd\ufffd");
  BOOST_TEST(printable("naïve 日本 ±") == "naïve 日本 ±");
}

BOOST_AUTO_TEST_CASE(words_wrap_and_long_ones_stay_whole) {
  BOOST_TEST(wrapped("one two three four five six", 0, 2, 22) == "one two three four\n  five six");
  BOOST_TEST(wrapped("heads(global*4,gaussian*4)+relative x", 0, 0, 20) == "heads(global*4,gaussian*4)+relative\nx");
  BOOST_TEST(wrapped("", 0, 4, 40) == "");
}

BOOST_AUTO_TEST_SUITE_END()
