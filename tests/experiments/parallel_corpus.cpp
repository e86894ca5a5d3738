// Files whose lines belong together and records of pairs: which files are read, what is refused or skipped of them, and
// the vocabularies of both sides.
#include "experiments/support/data/parallel_corpus.h"

#include <algorithm>

#include <boost/test/unit_test.hpp>

#include "experiments/support/data/vocabulary.h"
#include "tests/files.h"

using namespace fovea;

namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;
using Names = std::vector<std::string>;

/// Two files with these contents, read with these rules; paths in messages without the folder.
struct Reading {
  Pairs pairs = {};
  std::string skipped = {}, refusal = {};

  Reading(const std::string& source, const std::string& target, const LineRules& rules) {
    const Folder folder;
    PairReader reader({.source = folder.write("s", source), .target = folder.write("t", target), .has_source = true},
                      rules);
    try {
      for (TextPair pair; reader.next(pair);) pairs.emplace_back(pair.source, pair.target);
    } catch (const Error& error) {
      refusal = folder.without(error.what());
    }
    skipped = folder.without(reader.skipped().description());
  }
};

Pairs visited(const PairSource& corpus, Part part, std::size_t test = 0) {
  Pairs pairs;
  corpus.visit(
      part, [&](const TextPair& pair) { pairs.emplace_back(pair.source, pair.target); }, test);
  return pairs;
}

/// All pairs, in whatever part they are.
Pairs all_of(const PairSource& corpus) {
  Pairs pairs;
  for (const Part part : all_parts) std::ranges::copy(visited(corpus, part), std::back_inserter(pairs));
  std::ranges::sort(pairs);
  return pairs;
}

/// Files of a small corpus; the source says the number, the target says it backwards.
void write_corpus(const Folder& folder, const std::string& set, int lines, const std::string& ending = "") {
  std::string source, target;
  for (int i = 0; i < lines; ++i) {
    const std::string number = std::to_string(i * 7919 % 10007);
    source += set.substr(0, 2) + " number " + number + "\n";
    target += std::string(number.rbegin(), number.rend()) + " nummer\n";
  }
  folder.write(set + ".en" + ending, source);
  folder.write(set + ".de" + ending, target);
}

ParallelCorpusOptions options_of(const std::filesystem::path& data, const std::string& source = "en",
                                 const std::string& target = "de") {
  ParallelCorpusOptions options;
  options.data = data.string();
  options.source = source;
  options.target = target;
  options.needs_source = !source.empty();
  return options;
}

std::string refusal(const ParallelCorpusOptions& options) {
  return message_of([&] { ParallelCorpus{options}; });
}

}  // namespace

BOOST_AUTO_TEST_SUITE(parallel_corpus)

BOOST_AUTO_TEST_CASE(lines_come_in_pairs) {
  const Reading good("a b\nc\r\n", "A B\nC", {});
  BOOST_TEST((good.pairs == Pairs{{"a b", "A B"}, {"c", "C"}}));
  BOOST_TEST(good.skipped == "");
  const Folder folder;
  PairReader alone({.source = {}, .target = folder.write("t", " \n = Title =\n\nText\n")}, {});
  TextPair pair;
  for (const char* text : {" = Title =", "Text"}) BOOST_TEST((alone.next(pair) && pair.target == text));
  BOOST_TEST(!alone.next(pair));
  BOOST_TEST(alone.skipped().reasons.at("blank") == 2);  // which are no fault of texts alone
  PairReader aligned(
      {folder.write("s", "a\n"), folder.write("u", "b\n"), folder.write("al", "0-0\n"), RecordFormat::lines, {}, true},
      {});
  BOOST_TEST((aligned.next(pair) && pair.alignment == "0-0" && pair.source == "a" && pair.target == "b"));
  BOOST_TEST(!aligned.next(pair));
}

BOOST_AUTO_TEST_CASE(bad_lines_are_refused_with_their_place_or_skipped_and_counted) {
  struct Case {
    std::string source, target, refusal, skipped;
    std::int64_t max_words = 0;
  };
  const std::vector<Case> cases{
      {"a\nb\n", "x\n\xff\n", "t:2: byte 1 is 0xff: not valid UTF-8 (another encoding? try iconv -t UTF-8)",
       "1 not UTF-8 text"},
      {std::string("a\0b\n", 4), "x\n",
       "s:1: byte 2 is NUL: not a text file in UTF-8 (of UTF-16? try iconv -f UTF-16LE -t UTF-8)", "1 not UTF-8 text"},
      {"a\n \xc2\xa0\n", "x\ny\n", "s:2: a blank line", "1 blank"},
      {"a b\n", "x y z\n", "t:1: 3 words, --max-words is 2", "1 too long", 2},
      {"a\n", "x\ny\nz\n", "t:2: a line without a partner: s has 1 line", "2 without a partner"},
      {"a\nb\n", "", "s:1: a line without a partner: t has 0 lines", "2 without a partner"}};
  for (const Case& one : cases) {
    LineRules rules{.max_words = one.max_words};
    BOOST_TEST(Reading(one.source, one.target, rules).refusal ==
               one.refusal + " (--bad-lines skip leaves such pairs out)");
    rules.bad_lines = BadLines::skip;
    const Reading skipping(one.source, one.target, rules);
    BOOST_TEST(contains(skipping.skipped, " skipped: " + one.skipped + "; the first: " + one.refusal),
               skipping.skipped);
  }
  const Reading some("a\n\nc\nd d d d\ne\n\xc0 f\ng\n", "A\nB\n\xfe\nD\n\nF\nG\nH\nI\n", {BadLines::skip, 3});
  BOOST_TEST((some.pairs == Pairs{{"a", "A"}, {"g", "G"}}));
  BOOST_TEST(
      some.skipped ==
      "7 pairs skipped: 2 blank, 2 not UTF-8 text, 1 too long, 2 without a partner; the first: s:2: a blank line");
  BOOST_TEST(Reading("a b\n", "x y\n", {.max_words = 2}).refusal == "");
}

BOOST_AUTO_TEST_CASE(a_directory_has_its_parts_by_name) {
  const Folder folder;
  write_corpus(folder, "train.lc.norm", 5);
  write_corpus(folder, "val", 3, ".txt");
  write_corpus(folder, "test_2016", 2);
  folder.write("train.lc.norm.en.vocab", "no text of the corpus");
  folder.write("training.de", "no part\n");
  folder.write("test_2016.align", "0-1\n1-0\n");
  ParallelCorpusOptions options = options_of(folder.path);
  const ParallelCorpus corpus(options);
  BOOST_TEST(visited(corpus, Part::train).size() == 5u);
  BOOST_TEST(visited(corpus, Part::dev).size() == 3u);
  BOOST_TEST((visited(corpus, Part::test) == Pairs{{"te number 0", "0 nummer"}, {"te number 7919", "9197 nummer"}}));
  BOOST_TEST(corpus.description() ==
             folder.path.string() +
                 ": train train.lc.norm.en and train.lc.norm.de; dev val.en.txt and val.de.txt; "
                 "test test_2016.en and test_2016.de");
  std::string alignment;
  corpus.visit(Part::test, [&](const TextPair& pair) { alignment += pair.alignment + ";"; });
  BOOST_TEST(alignment == "0-1;1-0;");

  write_corpus(folder, "test_2017", 4);
  BOOST_TEST(contains(refusal(options), "several test sets: choose one with --test-set: test_2016 or test_2017"));
  options.test_set = "test_2017,test_2016";  // several, in this order
  BOOST_TEST(ParallelCorpus(options).tests() == (Names{"test_2017", "test_2016"}));
  BOOST_TEST(visited(ParallelCorpus(options), Part::test, 0).size() == 4u);
  BOOST_TEST(visited(ParallelCorpus(options), Part::test, 1).size() == 2u);
  for (const char* wrong : {"test_2016,test_2016", "test_2016,"}) {
    options.test_set = wrong;
    BOOST_TEST(contains(refusal(options), "expected different names, separated by commas"));
  }
  options.test_set = "test_2018";
  BOOST_TEST(contains(refusal(options), "--test-set test_2018: "));
  options.test_set = "val";     // on purpose
  options.train_set = "train";  // of train.lc.norm
  BOOST_TEST(visited(ParallelCorpus(options), Part::train).size() == 5u);
  BOOST_TEST(visited(ParallelCorpus(options), Part::test).size() == 3u);
}

BOOST_AUTO_TEST_CASE(missing_parts_are_split_off_by_hash) {
  const Folder folder;
  write_corpus(folder, "train", 1000);
  const ParallelCorpus corpus(options_of(folder.path));
  const Pairs train = visited(corpus, Part::train), dev = visited(corpus, Part::dev),
              test = visited(corpus, Part::test);
  BOOST_TEST(train.size() + dev.size() + test.size() == 1000u);
  for (const Pairs& part : {dev, test}) BOOST_TEST((part.size() > 70 && part.size() < 130));
  for (const auto& pair : dev) BOOST_TEST(std::ranges::count(train, pair) == 0);
  BOOST_TEST(contains(corpus.description(), "dev 10 % of train by hash"));
  BOOST_TEST(visited(ParallelCorpus(options_of(folder.path, "")), Part::train).at(0).first == "");
}

BOOST_AUTO_TEST_CASE(one_file_has_its_parts_in_order) {
  const Folder folder;
  std::string text;
  for (int i = 1; i <= 40; ++i) text += std::to_string(i) + "\n";
  ParallelCorpusOptions options = options_of(folder.write("input.txt", text), "", "");
  const ParallelCorpus corpus(options);
  BOOST_TEST(visited(corpus, Part::train).size() == 32u);
  BOOST_TEST((visited(corpus, Part::dev) == Pairs{{"", "33"}, {"", "34"}, {"", "35"}, {"", "36"}}));
  BOOST_TEST((visited(corpus, Part::test) == Pairs{{"", "37"}, {"", "38"}, {"", "39"}, {"", "40"}}));
  options.source = "en";
  BOOST_TEST(contains(refusal(options), "is one file of lines; --source and --target name files of a directory"));
}

BOOST_AUTO_TEST_CASE(texts_alone_need_no_target) {
  for (const Names& names : {Names{"train.txt", "valid.txt", "test.txt"}, Names{"train", "dev", "test"},
                             Names{"ptb.train.txt", "ptb.valid.txt", "ptb.test.txt"},
                             Names{"wiki.train.tokens", "wiki.valid.tokens", "wiki.test.tokens"}}) {
    const Folder folder;
    for (std::size_t k = 0; k < 3; ++k) folder.write(names[k], "text " + std::to_string(k) + "\n");
    folder.write("README", "about these texts");
    for (const auto& data : {folder.path, folder / names[0]}) {  // a training file brings the others along
      const ParallelCorpus corpus(options_of(data, "", ""));
      for (const Part part : all_parts)
        BOOST_TEST((visited(corpus, part) == Pairs{{"", "text " + std::to_string(int(part))}}));
      BOOST_TEST(corpus.description() ==
                 fmt::format("{}: train {}; dev {}; test {}", data.string(), names[0], names[1], names[2]));
    }
  }
}

BOOST_AUTO_TEST_CASE(sets_belong_together_by_their_names) {
  const Folder folder;
  for (const char* name : {"wiki.train.tokens", "ptb.train.txt"}) folder.write(name, std::string(name) + "\n");
  folder.write("wiki.test.tokens", "wiki.test.tokens\n\n");
  folder.write("wiki.valid.tokens", "\nwiki.valid.tokens\n");
  ParallelCorpusOptions options = options_of(folder.path, "", "");
  BOOST_TEST(
      contains(refusal(options), "several train sets: choose one with --train-set: ptb.train or wiki.train.tokens"));
  options.train_set = "wiki.train";
  const ParallelCorpus wiki(options);
  visited(wiki, Part::dev);
  BOOST_TEST((visited(wiki, Part::test) == Pairs{{"", "wiki.test.tokens"}}));
  BOOST_TEST(contains(wiki.left_out(), "dev: 1 line skipped: 1 blank; the first: "));
  BOOST_TEST(contains(wiki.left_out(), "wiki.valid.tokens:1: a blank line; test: 1 line skipped: "));
  for (const auto& [train, expected] :
       {std::pair("wiki.train", "dev wiki.valid.tokens; test wiki.test.tokens; not used: ptb.train.txt"),
        std::pair("ptb.train.txt",
                  "train ptb.train.txt; dev 10 % of train by hash; test 10 % of train by hash; not "
                  "used: wiki.test.tokens, wiki.train.tokens, wiki.valid.tokens"),
        // the set that is trained on is not the development set, too
        std::pair("wiki.valid", "train wiki.valid.tokens; dev 10 % of train by hash; test wiki.test.tokens;")}) {
    options.train_set = train;
    BOOST_TEST(contains(ParallelCorpus(options).description(), expected), train);
  }
  options.train_set = "books";
  BOOST_TEST(contains(refusal(options), "has no such set; it has ptb.train, wiki.test.tokens, wiki.train.tokens, "));
}

BOOST_AUTO_TEST_CASE(pairs_are_fields_of_records) {
  const Pairs expected = {{"a b", "A B"}, {"c, \"d\"", "C"}};
  for (const auto& [name, text, columns] : std::vector<std::tuple<std::string, std::string, std::string>>{
           {"a.tsv", "a b\tA B\n\nc, \"d\"\tC\n", ""},
           {"b.tsv", "1\tA B\ta b\n2\tC\tc, \"d\"\n", "3,2"},
           {"c.txt", "de\ten\nA B\ta b\nC\tc, \"d\"\n", "en,de"},
           {"d.csv", "en,de\na b,A B\n\"c, \"\"d\"\"\",C\n", "en, de"},
           {"e.jsonl", "{\"de\": \"A B\", \"en\": \"a b\", \"id\": 1}\n{\"en\": \"c, \\\"d\\\"\", \"de\": \"C\"}",
            "en,de"},
           {"f.jsonl",
            "{\"t\": {\"en\": \"a b\", \"de\": \"A B\"}}\n{\"t\": {\"en\": \"c, \\\"d\\\"\", \"de\": \"C\"}}",
            "t.en,t.de"},
           {"g.csv", "\"a\r\nb\",A B\n\"c, \"\"d\"\"\",C\n", "1,2"}}) {
    const Folder folder;
    ParallelCorpusOptions options = options_of(folder.write(name, text), "", "");
    options.columns = columns;
    options.needs_source = true;
    BOOST_TEST((all_of(ParallelCorpus(options)) == expected), name);
  }
}

BOOST_AUTO_TEST_CASE(records_are_found_in_a_directory) {
  const Folder folder;
  for (const char* part : {"train", "valid", "test"})
    folder.write(std::string(part) + ".jsonl", fmt::format(R"({{"text": "text of {}", "title": "{}"}})", part, part));
  for (const auto& data : {folder.path, folder / "train.jsonl"}) {
    const ParallelCorpus corpus(options_of(data, "text", "title"));
    BOOST_TEST((visited(corpus, Part::test) == Pairs{{"text of test", "test"}}));
    BOOST_TEST(corpus.description() ==
               data.string() + ": train train.jsonl; dev valid.jsonl; test test.jsonl; keys text, title");
  }
  ParallelCorpusOptions options = options_of(folder.path, "", "");
  BOOST_TEST((visited(ParallelCorpus(options), Part::dev) == Pairs{{"", "text of valid"}}));  // the key text by itself
  options.columns = "title";
  BOOST_TEST((visited(ParallelCorpus(options), Part::dev) == Pairs{{"", "valid"}}));
  options.needs_source = true;
  BOOST_TEST(contains(refusal(options), "--columns title: 1 field, expected 2 (SOURCE,TARGET), or more"));
  options.columns = "";
  BOOST_TEST(contains(refusal(options), "train.jsonl:1: 2 keys (text, title), expected 2 (SOURCE,TARGET)"));
  options.data = folder.write("list.txt", "a\n").string();
  BOOST_TEST(contains(refusal(options), "list.txt' is one file of lines; "));
}

BOOST_AUTO_TEST_CASE(broken_records_are_skipped_where_bad_lines_are) {
  const Folder folder;
  ParallelCorpusOptions options =
      options_of(folder.write("x.jsonl", "{\"text\": \"a\"}\n{\"txt\": \"b\"}\nnonsense\n{\"text\": \"\"}\n"), "", "");
  BOOST_TEST(
      contains(message_of([&] { visited(ParallelCorpus(options), Part::train); }),
               "x.jsonl:2: there is no key 'text'; the keys are txt; did you mean 'txt'? (--bad-lines skip leaves"));
  options.lines.bad_lines = BadLines::skip;
  const ParallelCorpus corpus(options);
  for (int time = 0; time < 2; ++time) {  // counted anew
    BOOST_TEST((visited(corpus, Part::train) == Pairs{{"", "a"}}));
    BOOST_TEST(contains(corpus.left_out(), "train: 3 lines skipped: 1 blank, 2 no proper record; the first: "));
  }
}

BOOST_AUTO_TEST_CASE(missing_files_are_named) {
  const Folder folder;
  ParallelCorpusOptions options = options_of(folder.path);
  BOOST_TEST(contains(refusal(options), "no training set train.de (.txt and .gz too); found nothing"));
  std::filesystem::create_symlink("nowhere.de", folder.path / "train.de");
  BOOST_TEST(contains(refusal(options), ": train.de is neither a file nor a link to one"));
  std::filesystem::remove(folder.path / "train.de");
  folder.write("train.de", "x\n");
  BOOST_TEST(contains(refusal(options), "there is train.de, but no train.en"));
  folder.write("train.en", "x\n");
  folder.write("train.de.gz", "x\n");
  BOOST_TEST(contains(refusal(options), "are train.de"));
  for (const auto& [source, target, expected] :
       {std::tuple("en", "", "--target is missing"), std::tuple("en", "en", "--source and --target are both 'en'")})
    BOOST_TEST(contains(refusal(options_of(folder.path, source, target)), expected), expected);
  std::filesystem::remove(folder.path / "train.de.gz");
  options.source = "";  // was a segmentation fault
  BOOST_TEST(contains(refusal(options), "--source is missing: the names of the source's files end with it"));
  options.source = "en";
  options.header = Header::yes;
  BOOST_TEST(contains(refusal(options), "--header: only tables have a line with names"));
  options = options_of(folder / "train.de");
  options.columns = "1,2";
  BOOST_TEST(contains(refusal(options), "--columns, and --source or --target, exclude each other"));
  const Folder tables;
  tables.write("train.tsv", "en\tde\nx\ty\n");
  ParallelCorpusOptions table = options_of(tables.path);
  table.columns = "en,de";
  BOOST_TEST(contains(refusal(table), "--columns, and --source or --target, exclude each other"));
  table = options_of(tables / "train.tsv", "en", "");
  BOOST_TEST(contains(refusal(table), "--target is missing: --source and --target choose two fields of"));
  table = options_of(tables / "train.tsv");
  table.train_set = "other";
  BOOST_TEST(contains(refusal(table), "--train-set other: --data is one file"));
  BOOST_TEST(contains(refusal(options_of("/dev/null")), "is neither a file nor a directory; a pipe"));
  std::filesystem::create_symlink("self", folder.path / "self");
  BOOST_TEST(refusal(options_of(folder.path)) == "no error");
  BOOST_TEST(contains(refusal(options_of(folder / "nowhere")), "does not exist"));
  const Folder empty;
  BOOST_TEST(contains(refusal(options_of(empty.path, "", "")),
                      "no training set: the name of a file must have the word train in it"));
}

BOOST_AUTO_TEST_CASE(a_sample_is_even_and_bounded) {
  TextSample all(1000), few(1000);
  for (int i = 0; i < 20; ++i) all.add(std::string(10, 'a'));
  BOOST_TEST(all.texts().size() == 20u);
  for (int i = 0; i < 10'000; ++i) few.add(std::to_string(100'000 + i));
  BOOST_TEST((few.texts().size() * 6 <= 1000 && few.texts().size() * 6 > 400));
  const int step = std::stoi(few.texts()[1]) - std::stoi(few.texts()[0]);
  for (std::size_t i = 1; i < few.texts().size(); ++i)
    BOOST_TEST(std::stoi(few.texts()[i]) - std::stoi(few.texts()[i - 1]) == step);
}

BOOST_AUTO_TEST_CASE(a_vocabulary_is_joint_or_one_for_each_side) {
  const Folder folder, saved, both;
  write_corpus(folder, "train", 300);
  const ParallelCorpus corpus(options_of(folder.path));
  TextOptions options;
  options.min_count = 1;
  const PairTokenizers joint = train_tokenizers(corpus, options);
  BOOST_TEST(joint.joint());
  for (const int token : joint.source->encode("number nummer")) BOOST_TEST(token != unknown_id);
  joint.save(saved.path);
  BOOST_TEST(load_tokenizers(saved.path).joint());
  BOOST_TEST(load_tokenizers(saved.path).target->encode("nummer") == joint.target->encode("nummer"));
  options.target_vocabulary_size = 50;
  BOOST_TEST(contains(message_of([&] { train_tokenizers(corpus, options); }), "is for --no-joint-vocabulary"));
  options.joint = false;
  for (const Units units : {Units::words, Units::bpe, Units::characters}) {
    options.units = units;
    options.vocabulary_size = 60;
    options.target_vocabulary_size = units == Units::characters ? 0 : 50;
    const PairTokenizers separate = train_tokenizers(corpus, options);
    BOOST_TEST(!separate.joint());
    BOOST_TEST(separate.target->size() <= 50);
    BOOST_TEST(separate.source->decode(separate.source->encode("number")) == "number");
    BOOST_TEST(separate.target->decode(separate.target->encode("nummer")) == "nummer");
    separate.save(both.path);
    const PairTokenizers again = load_tokenizers(both.path);
    BOOST_TEST(!again.joint());
    BOOST_TEST(again.description() == separate.description());
    BOOST_TEST(again.source->encode("number 12") == separate.source->encode("number 12"));
  }
}

BOOST_AUTO_TEST_CASE(a_part_that_only_one_side_has_is_refused_on_both_sides) {
  const Folder folder;
  for (const char* file : {"train.en", "train.de"}) folder.write(file, "a b\nc d\n");
  const auto is_refused = [&](const std::string& alone, const std::string& missing) {
    folder.write(alone, "a b\n");
    BOOST_TEST(contains(refusal(options_of(folder.path)), "there is " + alone + ", but no " + missing));
    std::filesystem::remove(folder.path / alone);
  };
  is_refused("test.de", "test.en");
  is_refused("test.en", "test.de");
  is_refused("dev.en", "dev.de");
  for (const char* file : {"test.en", "test.de", "test_2016.en"}) folder.write(file, "a b\n");
  BOOST_TEST(contains(ParallelCorpus(options_of(folder.path)).description(), "not used: test_2016.en"));
}

BOOST_AUTO_TEST_CASE(a_part_that_is_no_file_is_refused) {
  const Folder folder;
  for (const char* file : {"train.en", "train.de"}) folder.write(file, "a b\nc d\n");
  std::filesystem::create_directory(folder.path / "test");  // of something else
  BOOST_TEST(!ParallelCorpus(options_of(folder.path)).description().empty());
  std::filesystem::create_symlink("nowhere", folder.path / "test.de");
  BOOST_TEST(contains(refusal(options_of(folder.path)), ": test.de is neither a file nor a link to one"));
  std::filesystem::remove(folder.path / "test.de");
  std::filesystem::create_directory(folder.path / "test.de");
  BOOST_TEST(contains(refusal(options_of(folder.path)), ": test.de is neither a file nor a link to one"));
}

BOOST_AUTO_TEST_SUITE_END()
