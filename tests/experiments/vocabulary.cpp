#include "experiments/support/data/vocabulary.h"

#include <cctype>

#include <boost/test/unit_test.hpp>

#include "experiments/support/data/generated.h"
#include "experiments/support/data/labelled_texts.h"
#include "experiments/support/text/utf8.h"
#include "tests/files.h"

using namespace fovea;

namespace {

using Texts = std::vector<std::string_view>;

std::string refusal(const std::filesystem::path& directory) {
  return message_of([&] { load_tokenizer(directory); });
}

/// Some hundred texts, and what owns them.
struct Corpus {
  LabelledTexts data{*generate_sentiment("generated:train=400,dev=5,test=5")};
  Texts texts;
  Corpus() {
    for (const TextPair& pair : data[Part::train]) texts.push_back(pair.source);
  }
};

TextOptions subwords(Units units, std::int64_t size) {
  TextOptions options;
  options.units = units;
  options.vocabulary_size = size;
  return options;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(vocabulary)

BOOST_AUTO_TEST_CASE(words_are_ordered_by_count_and_cut_off) {
  const Texts texts = {"b a c a", "a b  d", "<pad> </s> B \xc3\x84", "\xc3\xa4"};
  TextOptions options;
  options.min_count = 1;
  auto tokenizer = train_tokenizer(options, texts);
  BOOST_TEST(tokenizer->size() == 4 + 7);
  BOOST_TEST(tokenizer->token(0) == "<pad>");
  BOOST_TEST(tokenizer->token(4) == "a");
  BOOST_TEST(tokenizer->token(5) == "b");
  BOOST_TEST(tokenizer->token(6) == "B");  // once each, by bytes
  BOOST_TEST(tokenizer->encode("a  b zzz\tc") == (std::vector<int>{4, 5, unknown_id, 7}));
  BOOST_TEST(tokenizer->encode(" ").empty());
  BOOST_TEST(tokenizer->encode("<pad> <s> </s> <unk>") == std::vector<int>(4, unknown_id));
  BOOST_TEST(tokenizer->decode(std::vector<int>{begin_id, 4, unknown_id, 5, end_id, pad_id}) == "a <unk> b");

  options.min_count = 2;
  options.lower_case = true;
  tokenizer = train_tokenizer(options, texts);
  BOOST_TEST(tokenizer->size() == 4 + 3);  // a, b, a-umlaut
  BOOST_TEST(tokenizer->encode("A B \xc3\x84 c") == (std::vector<int>{4, 5, 6, unknown_id}));

  options.vocabulary_size = 5;
  BOOST_TEST(train_tokenizer(options, texts)->size() == 5);
  options.vocabulary_size = 4;
  BOOST_TEST(contains(message_of([&] { train_tokenizer(options, texts); }), "--vocabulary-size 4: expected more"));
  options.vocabulary_size = 0;
  options.min_count = 9;
  BOOST_TEST(contains(message_of([&] { train_tokenizer(options, texts); }), "--min-count 9: none of the 7 different"));
  BOOST_TEST(contains(message_of([&] {
                        train_tokenizer(options, Texts{"", " "});
                      }),
                      "2 training texts without a word"));
  BOOST_TEST(contains(message_of([&] { tokenizer->token(7); }), "no token 7, there are 7"));
  BOOST_TEST(contains(message_of([&] { tokenizer->decode(std::vector<int>{-1}); }), "no token -1"));
}

BOOST_AUTO_TEST_CASE(training_is_silent_and_what_is_saved_loads_exactly) {
  const Corpus corpus;
  std::string shouted(corpus.texts[0]);
  for (char& c : shouted) c = char(std::toupper(c));
  for (const Units units : {Units::words, Units::unigram, Units::bpe})
    for (const bool lower_case : {false, true}) {
      const Folder one, two, output;
      TextOptions options = subwords(units, 180);
      options.lower_case = lower_case;
      const int status = status_in_child([&] {
        if (!std::freopen((output / "out").c_str(), "w", stdout) ||
            !std::freopen((output / "err").c_str(), "w", stderr))
          return 9;
        for (const Folder* folder : {&one, &two}) train_tokenizer(options, corpus.texts)->save(folder->path);
        std::fflush(nullptr);
        return 0;
      });
      BOOST_TEST(status == 0);
      BOOST_TEST(contents(output / "out") + contents(output / "err") == "");
      BOOST_TEST(one.files() == 2u);
      for (const auto& entry : std::filesystem::directory_iterator(one.path))
        BOOST_TEST((contents(entry.path()) == contents(two / entry.path().filename().string())));
      const auto before = train_tokenizer(options, corpus.texts), after = load_tokenizer(one.path);
      BOOST_TEST(after->size() == before->size());
      BOOST_TEST(after->description() == before->description());
      for (int id = 0; id < before->size(); ++id) BOOST_TEST(after->token(id) == before->token(id));
      for (const std::string_view text : corpus.texts) {
        const auto tokens = after->encode(text);
        BOOST_TEST(tokens == before->encode(text));
        if (units == Units::words) continue;
        BOOST_TEST(after->decode(tokens) == text);
        for (const int token : tokens) BOOST_TEST(token >= special_tokens);
      }
      BOOST_TEST((after->encode(shouted) == after->encode(corpus.texts[0])) == lower_case);
      BOOST_TEST(contains(message_of([&] { after->decode(std::vector<int>{180}); }), "no token 180"));
      if (units == Units::words) continue;
      BOOST_TEST(after->token(pad_id) == "<pad>");
      BOOST_TEST(after->encode(" \t").empty());
      BOOST_TEST(after->decode(after->encode(" good\xc2\xa0 film\n")) == "good film");
      for (const int token : after->encode("<s></s><pad>"))
        BOOST_TEST((token == unknown_id || token >= special_tokens));
    }
}

BOOST_AUTO_TEST_CASE(a_size_that_does_not_fit_the_text_is_refused_with_one_that_does) {
  const Corpus corpus;
  for (const Units units : {Units::unigram, Units::bpe}) {
    const std::string large = message_of([&] { train_tokenizer(subwords(units, 50'000), corpus.texts); });
    BOOST_TEST(contains(large, "--vocabulary-size 50000: the training texts yield at most "), large);
    const std::string small = message_of([&] { train_tokenizer(subwords(units, 6), corpus.texts); });
    BOOST_TEST(contains(small, "--vocabulary-size 6: the training texts have "), small);
    const auto largest = std::stoll(large.substr(large.find(": set ") + 6));
    BOOST_TEST(train_tokenizer(subwords(units, largest), corpus.texts)->size() == largest);
    const auto smallest = std::stoll(small.substr(small.find(": set ") + 6));
    BOOST_TEST(train_tokenizer(subwords(units, smallest), corpus.texts)->size() == smallest);
    BOOST_TEST(train_tokenizer(subwords(units, 0), corpus.texts)->size() == largest);  // not asked for: what there is
    BOOST_TEST(contains(message_of([&] { train_tokenizer(subwords(units, 100), Texts{" ", ""}); }), "without a word"));
    BOOST_TEST(
        contains(message_of([&] { train_tokenizer(subwords(units, 3), corpus.texts); }), "expected 5 to 1000000"));
  }
}

BOOST_AUTO_TEST_CASE(text_without_spaces_comes_back_as_it_was) {
  std::string book, rare;
  for (char32_t c = 0x4e00; c < 0x4e00 + 9000; ++c) append_utf8(rare, c);  // more characters than sub-words by default
  for (int i = 0; i < 3000; ++i) book += "我們在東京學習";                 // one line of 63000 bytes
  const Texts texts = {"我们今天用 GPU 训练模型，好吗？", "彼は東京で　カタカナを習う。", "A man's word", book, rare};
  const auto tokenizer = train_tokenizer(subwords(Units::characters, 0), texts);
  BOOST_TEST(tokenizer->size() > 9000);
  for (const std::string_view text : {texts[0], texts[2], texts[3], texts[4]})
    BOOST_TEST(tokenizer->decode(tokenizer->encode(text)) == text);
  BOOST_TEST(tokenizer->decode(tokenizer->encode(texts[1])) == "彼は東京で カタカナを習う。");
  BOOST_TEST(tokenizer->decode(tokenizer->encode("我ж们")) == "我\u2047们");
  const auto pieces = train_tokenizer(subwords(Units::bpe, 50), Texts{book});
  BOOST_TEST(pieces->decode(pieces->encode(book)) == book);
  BOOST_TEST(pieces->encode(book).size() * 4 < 7 * 3000u);
}

BOOST_AUTO_TEST_CASE(characters_are_tokens) {
  const Texts texts{"ab c\xc3\xa4", "ba \xe6\x97\xa5"};
  for (const std::int64_t size : {0, 100}) {  // 100: at most
    const auto tokenizer = train_tokenizer(subwords(Units::characters, size), texts);
    BOOST_TEST(tokenizer->size() == special_tokens + 6);  // a b c, a-umlaut, day, and the space
    BOOST_TEST(tokenizer->decode(tokenizer->encode("cab \xe6\x97\xa5")) == "cab \xe6\x97\xa5");
  }
  const auto small = train_tokenizer(subwords(Units::characters, special_tokens + 3), texts);  // the most frequent ones
  BOOST_TEST(small->size() == special_tokens + 3);
  BOOST_TEST(small->encode("c").back() == unknown_id);
}

BOOST_AUTO_TEST_CASE(long_texts_are_trained_on_in_full) {
  std::string text;
  for (int i = 0; i < 3000; ++i) text += "word" + std::to_string(i % 50) + " ";
  const auto tokenizer = train_tokenizer(subwords(Units::bpe, 60), Texts{text});
  BOOST_TEST(tokenizer->encode("word7").size() <= 3u);
}

BOOST_AUTO_TEST_CASE(a_changed_file_is_noticed) {
  const Corpus corpus;
  for (const Units units : {Units::words, Units::unigram}) {
    const Folder folder;
    train_tokenizer(subwords(units, 120), corpus.texts)->save(folder.path);
    const std::string name = units == Units::words ? "vocabulary.txt" : "sentencepiece.model";
    std::string bytes = contents(folder / name);
    bytes[bytes.size() / 2] ^= 1;
    for (const std::string& changed : {bytes, bytes.substr(0, bytes.size() / 2)}) {
      folder.write(name, changed);
      BOOST_TEST(folder.without(refusal(folder.path)).starts_with(name + ": damaged: "));
    }
    std::filesystem::remove(folder / name);
    BOOST_TEST(contains(refusal(folder.path), name + ": cannot be read"));
  }
}

BOOST_AUTO_TEST_CASE(broken_word_lists_are_refused) {
  const std::string good = "<pad>\t0\n<unk>\t0\n<s>\t0\n</s>\t0\na\t2\nb\t1\nc\t1\n";
  const Folder saved;
  TextOptions options;
  options.min_count = 1;
  train_tokenizer(options, Texts{"a b c", "a"})->save(saved.path);
  BOOST_TEST(contents(saved / "vocabulary.txt") == good);
  BOOST_TEST(message_of([&] { word_tokenizer(good + "d\n", false, "list"); }) ==
             "list: 'd', expected a word and its count");
  const std::string list = R"("lower_case": false, "crc32": "00000000"})";
  for (const auto& [json, expected] : std::vector<std::pair<std::string, std::string>>{
           {R"({"units": "letters", "size": 7, )" + list,
            "units is 'letters', expected words, unigram, bpe, characters, wordpiece or byte-bpe"},
           {R"({"units": "words", "size": "7", )" + list, "tokenizer.json: "},
           {R"({"units": "words"})", "tokenizer.json: "},
           {R"({"units": )", "tokenizer.json: not JSON"}}) {
    saved.write("tokenizer.json", json);
    BOOST_TEST(contains(refusal(saved.path), expected), refusal(saved.path));
  }
  std::filesystem::remove(saved / "tokenizer.json");
  BOOST_TEST(contains(refusal(saved.path), "there is no tokenizer.json"));
}

BOOST_AUTO_TEST_SUITE_END()
