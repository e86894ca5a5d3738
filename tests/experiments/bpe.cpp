// Byte-pair codes of subword-nmt, and the tokens they make.
#include <fstream>

#include <boost/test/unit_test.hpp>

#include "experiments/support/text/bpe_codes.h"
#include "experiments/support/text/vocabulary.h"
#include "tests/files.h"
#include "tests/goldens.h"

using namespace fovea;

namespace {

using Texts = std::vector<std::string_view>;

std::filesystem::path write(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

std::string refusal(const std::filesystem::path& path) {
  return message_of([&] { BpeCodes{path}; });
}

constexpr const char* low = "#version: 0.2\nl o\nlo w</w>\ne r</w>\nlo w\n";

}  // namespace

BOOST_AUTO_TEST_SUITE(bpe)

BOOST_AUTO_TEST_CASE(merges_are_made_in_the_order_of_the_file) {
  Folder folder;
  const BpeCodes codes(write(folder / "codes", low));
  BOOST_TEST(codes.merges() == 4u);
  BOOST_TEST(codes.apply("low lower newer l lolo") == "low low@@ er n@@ e@@ w@@ er l lo@@ l@@ o");
  BOOST_TEST(codes.apply("  low   low ") == "low low");
  BOOST_TEST(codes.apply("").empty());
  BOOST_TEST(join_units(codes.apply("low lower newer")) == "low lower newer");
  BOOST_TEST(join_units("a@@ b@@") == "ab");
}

BOOST_AUTO_TEST_CASE(subword_nmt_splits_the_same) {
  for (const auto& one : test::golden_cases("bpe.json")) {
    Folder folder;
    std::string text;
    for (const std::string& line : one.at("codes").get<std::vector<std::string>>()) text += line + "\n";
    const BpeCodes codes(write(folder / "codes", text));
    for (const auto& [line, split] : one.at("lines").get<std::vector<std::pair<std::string, std::string>>>()) {
      BOOST_TEST(codes.apply(line) == split, one.at("name") << ": '" << line << "' became " << codes.apply(line));
    }
  }
}

BOOST_AUTO_TEST_CASE(what_are_no_codes_is_refused) {
  Folder folder;
  BOOST_TEST(contains(refusal(write(folder / "a", "#version: 0.3\na b\n")), "a:1: version 0.3, expected 0.1 or 0.2"));
  BOOST_TEST(contains(refusal(write(folder / "b", "#version: 0.2\na b\na b c\n")), "b:3: 3 units, expected 2"));
  BOOST_TEST(contains(refusal(write(folder / "c", "word\n")), "c:1: 1 unit, expected 2"));
  BOOST_TEST(contains(refusal(write(folder / "d", "")), "d: no merges"));
  BOOST_TEST(contains(refusal(folder / "e"), "cannot be opened"));
}

BOOST_AUTO_TEST_CASE(codes_make_a_tokenizer) {
  Folder folder, saved;
  TextOptions options;
  options.units = Units::codes;
  const Texts texts{"low lower low", "newer lolo"};
  BOOST_TEST(
      contains(message_of([&] { train_tokenizer(options, texts); }), "--codes, the file that subword-nmt learnt"));
  options.codes = write(folder / "codes", low).string();
  const auto tokenizer = train_tokenizer(options, texts);
  BOOST_TEST(tokenizer->size() == special_tokens + 9);   // low low@@ er n@@ e@@ w@@ lo@@ l@@ o
  BOOST_TEST(tokenizer->token(special_tokens) == "er");  // twice, as low; by bytes
  for (const std::string_view text : texts) BOOST_TEST(tokenizer->decode(tokenizer->encode(text)) == text);
  BOOST_TEST(tokenizer->encode("x").at(0) == unknown_id);
  BOOST_TEST(tokenizer->encode(" ").empty());
  BOOST_TEST(contains(tokenizer->description(), "units of 4 byte-pair codes"));

  tokenizer->save(saved.path);
  std::filesystem::remove(folder / "codes");  // a run keeps its own
  const auto again = load_tokenizer(saved.path);
  for (const char* text : {"lower newest", "low x"}) BOOST_TEST(again->encode(text) == tokenizer->encode(text));

  options.units = Units::words;
  BOOST_TEST(contains(message_of([&] { train_tokenizer(options, texts); }), "--codes needs --units codes, not words"));
}

BOOST_AUTO_TEST_CASE(characters_are_tokens) {
  TextOptions options;
  options.units = Units::characters;
  const Texts texts{"ab c\xc3\xa4", "ba \xe6\x97\xa5"};
  for (const std::int64_t size : {0, 100}) {  // 100: at most
    options.vocabulary_size = size;
    const auto tokenizer = train_tokenizer(options, texts);
    BOOST_TEST(tokenizer->size() == special_tokens + 6);  // a b c, a-umlaut, day, and the space
    const auto tokens = tokenizer->encode("cab \xe6\x97\xa5");
    BOOST_TEST(tokens.size() == 6u);
    BOOST_TEST(tokenizer->decode(tokens) == "cab \xe6\x97\xa5");
    Folder saved;
    tokenizer->save(saved.path);
    BOOST_TEST(load_tokenizer(saved.path)->encode("cab \xe6\x97\xa5") == tokens);
  }
  options.vocabulary_size = special_tokens + 3;  // the most frequent ones
  const auto small = train_tokenizer(options, texts);
  BOOST_TEST(small->size() == special_tokens + 3);
  BOOST_TEST(small->encode("c").back() == unknown_id);
}

BOOST_AUTO_TEST_SUITE_END()
