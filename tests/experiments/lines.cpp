// Lines of files, words, characters and numbers.
#include "experiments/support/text/lines.h"

#include <boost/test/unit_test.hpp>
#include <unistd.h>
#include <zlib.h>

#include "experiments/support/text/words.h"
#include "tests/files.h"

using namespace fovea;

namespace {

std::string compressed(const std::string& text) {
  z_stream stream{};
  BOOST_REQUIRE_EQUAL(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  BOOST_REQUIRE_EQUAL(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::vector<std::string> lines_of(const std::filesystem::path& path) { return read_lines(path).lines; }

std::string refusal(const std::filesystem::path& path) {
  return message_of([&] { read_lines(path); });
}

using Lines = std::vector<std::string>;

}  // namespace

BOOST_AUTO_TEST_SUITE(lines)

BOOST_AUTO_TEST_CASE(line_ends_and_byte_order_marks_are_dropped) {
  const Folder folder;
  const std::string text = "one\n\nzwei \xc3\xa4\n\xe4\xb8\x89 \xf0\x9f\x98\x80", mark = "\xef\xbb\xbf";
  const Lines all = {"one", "", "zwei \xc3\xa4", "\xe4\xb8\x89 \xf0\x9f\x98\x80"};
  std::string windows;
  for (const std::string& line : all) windows += line + "\r\n";
  for (const auto& [bytes, expected] : std::vector<std::pair<std::string, Lines>>{
           {text, all},
           {text + "\n", all},
           {mark + text, all},
           {windows, all},
           {"", {}},
           {"\n", {""}},
           {"one\r", {"one"}},
           {"one\rtwo\nthree\n", {"one\rtwo", "three"}},
           // files with a mark each that were joined, the first with and without a line feed at its end
           {mark + "one\n" + mark + "two\nthree" + mark + "\n" + mark, {"one", "two", "three", ""}}})
    BOOST_TEST(lines_of(folder.write("file", bytes)) == expected);
  BOOST_TEST(read_text(folder.write("file", windows), "|") == "one||zwei \xc3\xa4|\xe4\xb8\x89 \xf0\x9f\x98\x80");
}

BOOST_AUTO_TEST_CASE(gzip_reads_as_what_was_compressed) {
  Folder folder;
  Lines expected;
  std::string text;
  for (int i = 0; i < 40'000; ++i) {  // several chunks of input and of output
    expected.push_back(std::to_string(i * 7919 % 10'007) + std::string(std::size_t(i % 13), 'x'));
    text += expected.back() + "\n";
  }
  BOOST_TEST(lines_of(folder.write("a.gz", compressed(text))) == expected);
  BOOST_TEST(lines_of(folder.write("not_called_gz", compressed(text))) == expected);
  const std::string halves = compressed(text.substr(0, 1000)) + compressed(text.substr(1000));
  BOOST_TEST(lines_of(folder.write("two_members.gz", halves)) == expected);
  BOOST_TEST(lines_of(folder.write("padded.gz", compressed(text) + std::string(700, '\0'))) == expected);
  BOOST_TEST(lines_of(folder.write("empty.gz", compressed(""))).empty());
}

BOOST_AUTO_TEST_CASE(damaged_gzip_is_refused) {
  Folder folder;
  const std::string good = compressed(std::string(3000, 'a') + "\nline\n");
  for (const std::size_t size : {std::size_t{2}, std::size_t{9}, good.size() / 2, good.size() - 1}) {
    const std::string message = refusal(folder.write("short.gz", good.substr(0, size)));
    BOOST_TEST(contains(message, "truncated"), message);
    BOOST_TEST(contains(message, "short.gz:"), message);
  }
  std::string flipped = good;
  flipped[good.size() - 6] = char(flipped[good.size() - 6] ^ 1);  // in the checksum
  BOOST_TEST(contains(refusal(folder.write("sum.gz", flipped)), "damaged: incorrect data check"));
  BOOST_TEST(contains(refusal(folder.write("plain.gz", "text\n")), "plain.gz: not a gzip file"));
  std::string second = good;
  second[good.size() / 2] = char(second[good.size() / 2] ^ 0x55);
  const std::string later = refusal(folder.write("second.gz", good + second));
  BOOST_TEST(contains(later, "second.gz:"), later);
  for (const std::string& behind : {std::string("text"), "\x1e" + good.substr(1), std::string(3, '\0') + "text",
                                    std::string(5, '\0') + good, std::string("\x1f")}) {
    const std::string message = refusal(folder.write("behind.gz", good + behind));
    BOOST_TEST(contains(message, "behind.gz:3: the gzip stream is "), message);
  }
}

BOOST_AUTO_TEST_CASE(other_files_are_refused_with_their_line) {
  const Folder folder;
  for (const auto& [bytes, expected] : std::vector<std::pair<std::string, std::string>>{
           {"good\nna\xefve\n", "file:2: byte 3 is 0xef: not valid UTF-8"},
           {std::string("a\nb\nc\0d\n", 8),
            "file:3: byte 2 is NUL: not a text file in UTF-8 (of UTF-16? try iconv -f UTF-16LE "},
           {std::string("\0a\0\n", 4),
            "file:1: byte 1 is NUL: not a text file in UTF-8 (of UTF-16? try iconv -f UTF-16BE "},
           {std::string("\xff\xfe\0\0h\0\0\0", 8), "file: is text in UTF-32, "},
           {std::string("\xff\xfeh\0", 4), "file: is text in UTF-16, "},
           {"PAR1\x15\x04\xff\xff\n", "file: is a Parquet table, expected"},
           {std::string("\xfd\x37zXZ\0\0", 7), "file: is compressed with xz, expected UTF-8 text; unxz FILE"},
           {"one\rtwo\r", "file: its lines end in carriage returns alone"},
           {"one\rtwo", "file: its lines end in carriage returns alone"},
           {"one\rtwo\rthree\n", "file: its lines end in carriage returns alone"}}) {
    const std::string message = folder.without(refusal(folder.write("file", bytes)));
    BOOST_TEST(message.starts_with(expected), message);
  }
  BOOST_TEST(lines_of(folder.write("b.txt", "PAR1 is a word\n")).size() == 1u);
  BOOST_TEST(contains(refusal(folder / "nothing"), "nothing: cannot be opened: No such file"));
  BOOST_TEST(contains(refusal(folder.path), "a directory, expected a text file"));
}

BOOST_AUTO_TEST_CASE(a_line_without_end_is_refused) {
  Folder folder;
  std::string bomb;  // 70 MiB of one line in 70 kB
  for (int i = 0; i < 70; ++i) bomb += compressed(std::string(std::size_t{1} << 20, 'a'));
  const std::string message = refusal(folder.write("bomb.gz", bomb));
  BOOST_TEST(contains(message, "bomb.gz:1: a line of more than 64 MiB"), message);
}

BOOST_AUTO_TEST_CASE(standard_input_gives_a_line_as_soon_as_it_is_typed) {
  const int status = status_in_child([] {
    int typed[2];
    if (::pipe(typed) != 0 || ::dup2(typed[0], 0) != 0) return 9;
    LineReader reader("-");
    std::string line;
    bool right = ::write(typed[1], "first\n", 6) == 6 && reader.next(line) && line == "first";
    right = right && ::write(typed[1], "second\nno end", 13) == 13 && reader.next(line) && line == "second";
    ::close(typed[1]);
    right = right && reader.next(line) && line == "no end" && !reader.next(line) && reader.number() == 3;
    return right && reader.name() == "standard input" ? 0 : 1;
  });
  BOOST_TEST(status == 0);
}

BOOST_AUTO_TEST_CASE(standard_input_may_be_compressed) {
  Folder folder;
  folder.write("a.gz", compressed("text\n"));
  const int status = status_in_child([&] {
    if (!std::freopen((folder / "a.gz").c_str(), "r", stdin)) return 9;
    return lines_of("-") == Lines{"text"} ? 0 : 1;
  });
  BOOST_TEST(status == 0);
}

BOOST_AUTO_TEST_CASE(words_lie_between_any_white_space) {
  const std::string text =
      " a\tbc\xc2\xa0"
      "d\xe3\x80\x80\xe4\xb8\x80\xe2\x80\xa8 e\xe2\x80\x94"
      "f \r\n";
  const std::vector<std::string_view> expected = {"a", "bc", "d", "\xe4\xb8\x80",
                                                  "e\xe2\x80\x94"
                                                  "f"};
  BOOST_TEST(split_words(text) == expected);
  BOOST_TEST(join_words(split_words(text)) ==
             "a bc d \xe4\xb8\x80 e\xe2\x80\x94"
             "f");
  BOOST_TEST(split_words(" \t ").empty());
  BOOST_TEST(is_blank(" \xc2\xa0"));
}

BOOST_AUTO_TEST_CASE(texts_without_spaces_are_known_as_such) {
  using Texts = std::vector<std::string_view>;
  BOOST_TEST(has_few_spaces(Texts{"我们今天去北京学习人工智能。", "他说明天会下雨。"}));
  BOOST_TEST(!has_few_spaces(Texts{"我们 今天 去 北京", "We go to Beijing"}));
  BOOST_TEST(!has_few_spaces(Texts{"Donaudampfschifffahrtsgesellschaft ist ein Wort"}));
  BOOST_TEST(!has_few_spaces(Texts{"", " "}));
}

BOOST_AUTO_TEST_SUITE_END()

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

BOOST_AUTO_TEST_CASE(lower_case_in_words_is_python_s) {
  BOOST_TEST(lower_case_in_words("ABZ[az ÄÖ×ßŸČ") == "abz[az äö×ßÿč");
  BOOST_TEST(lower_case_in_words("ΟΔΟΣ ΣΑΣ, Ο Σ ΑΣ1 ΑΣ'Α ΑΣ.") == "οδος σας, ο σ ας1 ασ'α ας.");
  BOOST_TEST(lower_case_in_words("A\u0301Σ\u0301 ΑΣ\u0301Α ΣΣ") == "a\u0301ς\u0301 ασ\u0301α σς");
  BOOST_TEST(lower_case_in_words("ΛΣ‘Α ΛΣⅣ ΛΣ\u0903Α") == "λσ‘α λσⅳ λς\u0903α");
  BOOST_TEST(lower_case_in_words("İzmir TURKİYE") == "i\u0307zmir turki\u0307ye");
}

BOOST_AUTO_TEST_CASE(numbers_are_whole_texts) {
  BOOST_TEST((number<int>("-3") == -3));
  BOOST_TEST((number<double>("2.5e1") == 25.0));
  BOOST_TEST((number<int>("+7") == 7));
  for (const char* wrong : {"", "+", "+-3", "++3", " 1", "1 ", "1x", "x", "99999999999999999999"})
    BOOST_TEST(!number<int>(wrong), wrong);
  BOOST_TEST((leading_number<int>("12_8.txt") == 12));
  BOOST_TEST(!leading_number<int>("x1"));
  BOOST_TEST(is_whole_number("-99999999999999999999"));
  for (const char* wrong : {"", "-", "1.5", "1e5", "12a"}) BOOST_TEST(!is_whole_number(wrong), wrong);
}

BOOST_AUTO_TEST_SUITE_END()
