#include "experiments/support/text/utf8.h"

#include <boost/test/unit_test.hpp>

#include "experiments/support/text/number.h"

using namespace fovea;

BOOST_AUTO_TEST_SUITE(utf8)

BOOST_AUTO_TEST_CASE(only_well_formed_utf8_is_valid) {
  for (const char* good : {"", "a", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80",
                           "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"}) {
    BOOST_TEST(invalid_utf8(good) == std::string::npos, good);
  }
  const std::vector<std::pair<std::string, std::size_t>> bad = {{"a\x80", 1},
                                                                {"\xc1\xbf", 0},
                                                                {"\xe0\x9f\xbf", 0},
                                                                {"\xed\xa0\x80", 0},
                                                                {"ab\xc3", 2},
                                                                {"\xf0\x8f\xbf\xbf", 0},
                                                                {"\xf4\x90\x80\x80", 0},
                                                                {"\xf5\x80\x80\x80", 0},
                                                                {"x\xe2\x82", 1},
                                                                {"\xff", 0},
                                                                {"\xe2\x28\xa1", 0},
                                                                {"\xf0\x9f\x98", 0},
                                                                {"\xc3\x28", 0},
                                                                {"\xfe\xfe", 0},
                                                                {"ok \xf0\x28\x8c\xbc", 3}};
  for (const auto& [text, where] : bad) BOOST_TEST(invalid_utf8(text) == where);
}

BOOST_AUTO_TEST_CASE(utf8_is_read_strictly_and_written_back) {
  for (char32_t c : {U'a', U'é', U'日', U'\U0001f600', U'\U0010ffff'}) {
    std::string text;
    append_utf8(text, c);
    std::size_t at = 0;
    BOOST_TEST((next_character(text, at) == c));
    BOOST_TEST(at == text.size());
  }
  // overlong, surrogate, too large, cut off, stray
  for (const char* wrong : {"\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe6\x97", "\x80"}) {
    std::size_t at = 0;
    BOOST_TEST((next_character(wrong, at) == 0xfffd));
    BOOST_TEST(at == 1u);
  }
}

BOOST_AUTO_TEST_CASE(width_counts_columns_not_bytes) {
  BOOST_TEST(display_width("") == 0u);
  BOOST_TEST(display_width("80.31 ± 0.42") == 12u);
  BOOST_TEST(display_width("日本語") == 6u);
  BOOST_TEST(display_width("e\u0301") == 1u);   // e and a combining accent
  BOOST_TEST(display_width("⚡𠀋") == 4u);       // emoji and Chinese characters beyond U+FFFF
  BOOST_TEST(display_width("ก็\u200b") == 1u);   // a mark of Thai, and a space without width
  BOOST_TEST(display_width("\xff\xc3") == 2u);  // no UTF-8: one column for each byte
}

BOOST_AUTO_TEST_CASE(characters_are_code_points) {
  BOOST_TEST(split_characters("a\xc3\xa4\xff\xe4\xb8\x80") ==
             (std::vector<std::string_view>{"a", "\xc3\xa4", "\xff", "\xe4\xb8\x80"}));
  BOOST_TEST(character_count("naïve 日本") == 8);
  BOOST_TEST(character_count("") == 0);
}

BOOST_AUTO_TEST_CASE(lower_case_is_unicode_s) {
  BOOST_TEST(lower_case("ABZ[az") == "abz[az");
  BOOST_TEST(lower_case("ÄÖ×ßŸČ") == "äö×ßÿč");
  BOOST_TEST(lower_case("ΩΆЖЁ") == "ωάжё");
  BOOST_TEST(lower_case("TIẾNG VIỆT ԲԱՐԵՎ Ａ") == "tiếng việt բարեվ ａ");  // Vietnamese, Armenian, full width
  BOOST_TEST(lower_case("一😀\xff\xc3") == "一😀\xff\xc3");
}

BOOST_AUTO_TEST_CASE(numbers_are_whole_texts) {
  BOOST_TEST((number<int>("-3") == -3));
  BOOST_TEST((number<double>("2.5e1") == 25.0));
  for (const char* wrong : {"", " 1", "1 ", "1x", "x", "99999999999999999999"}) BOOST_TEST(!number<int>(wrong), wrong);
  BOOST_TEST((leading_number<int>("12_8.txt") == 12));
  BOOST_TEST(!leading_number<int>("x1"));
  BOOST_TEST((hexadecimal<unsigned>("00ff") == 255u));
  BOOST_TEST(is_whole_number("-99999999999999999999"));
  for (const char* wrong : {"", "-", "1.5", "1e5", "12a"}) BOOST_TEST(!is_whole_number(wrong), wrong);
}

BOOST_AUTO_TEST_SUITE_END()
