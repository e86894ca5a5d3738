// Files whose lines belong together, what is refused or skipped of them, and the vocabularies of both sides.
#include "experiments/support/data/parallel_corpus.h"

#include <fstream>

#include <boost/test/unit_test.hpp>
#include <sys/resource.h>

#include "experiments/support/data/pair_vocabulary.h"
#include "experiments/support/program/cli.h"
#include "tests/files.h"

using namespace fovea;

namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

std::filesystem::path write(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

Pairs read(PairReader& reader) {
  Pairs pairs;
  for (TextPair pair; reader.next(pair);) pairs.emplace_back(pair.source, pair.target);
  return pairs;
}

/// Two files with these contents, read with these rules; paths in messages without the folder.
struct Reading {
  Folder folder;
  Pairs pairs;
  SkippedPairs skipped;
  std::string refusal;

  Reading(const std::string& source, const std::string& target, const LineRules& rules) {
    PairReader reader({write(folder / "s", source), write(folder / "t", target), {}}, rules);
    try {
      pairs = read(reader);
    } catch (const Error& error) {
      refusal = without_folder(error.what());
    }
    skipped = reader.skipped();
    skipped.first = without_folder(skipped.first);
  }

  std::string without_folder(std::string text) const {
    const std::string name = folder.path.string() + "/";
    for (std::size_t at; (at = text.find(name)) != std::string::npos;) text.erase(at, name.size());
    return text;
  }
};

constexpr LineRules skip{.bad_lines = BadLines::skip};

Pairs visited(const PairSource& corpus, Part part) {
  Pairs pairs;
  corpus.visit(part, [&](const TextPair& pair) { pairs.emplace_back(pair.source, pair.target); });
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
  write(folder / (set + ".en" + ending), source);
  write(folder / (set + ".de" + ending), target);
}

ParallelCorpusOptions options_of(const Folder& folder) {
  ParallelCorpusOptions options;
  options.data = folder.path.string();
  options.source = "en";
  options.target = "de";
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
  BOOST_TEST(good.skipped.total() == 0);
  BOOST_TEST(describe(good.skipped) == "");
  Folder folder;
  PairReader alone({{}, write(folder / "t", "x\ny\n"), {}}, {});
  BOOST_TEST((read(alone) == Pairs{{"", "x"}, {"", "y"}}));
  PairReader aligned({write(folder / "s", "a\n"), write(folder / "u", "b\n"), write(folder / "al", "0-0\n")}, {});
  TextPair pair;
  BOOST_TEST(aligned.next(pair));
  BOOST_TEST(pair.alignment == "0-0");
  BOOST_TEST(!aligned.next(pair));
}

BOOST_AUTO_TEST_CASE(bad_lines_are_refused_with_their_place) {
  const std::string hint = " (--bad-lines skip leaves such pairs out)";
  BOOST_TEST(Reading("a\nb\n", "x\n\xff\n", {}).refusal ==
             "t:2: byte 1 is 0xff: not valid UTF-8 (another encoding? try iconv -t UTF-8)" + hint);
  BOOST_TEST(Reading(std::string("a\0b\n", 4), "x\n", {}).refusal == "s:1: byte 2 is NUL: not a text file" + hint);
  BOOST_TEST(Reading("a\n \xc2\xa0\n", "x\ny\n", {}).refusal == "s:2: a blank line" + hint);
  BOOST_TEST(Reading("a b\n", "x y z\n", {.max_words = 2}).refusal == "t:1: 3 words, --max-words is 2" + hint);
  BOOST_TEST(Reading("a\n", "我们今天去北京\n", {.max_words = 5}).refusal ==
             "t:1: 7 characters, --max-words is 5" + hint);
  BOOST_TEST(Reading("a\n", "x\ny\nz\n", {}).refusal == "t:2: a line without a partner: s has 1 line" + hint);
  BOOST_TEST(Reading("a\nb\n", "", {}).refusal == "s:1: a line without a partner: t has 0 lines" + hint);
  BOOST_TEST(Reading("a b\n", "x y\n", {.max_words = 2}).refusal == "");
}

BOOST_AUTO_TEST_CASE(blank_lines_of_texts_alone_are_no_fault) {
  Folder folder;
  PairReader reader({{}, write(folder / "t", " \n = Title =\n\nText\n"), {}}, {});
  BOOST_TEST((read(reader) == Pairs{{"", " = Title ="}, {"", "Text"}}));
  BOOST_TEST(reader.skipped().blank == 2);
}

BOOST_AUTO_TEST_CASE(bad_lines_are_skipped_and_counted) {
  const Reading some("a\n\nc\nd d d d\ne\n\xc0 f\ng\n", "A\nB\n\xfe\nD\n\nF\nG\nH\nI\n", {BadLines::skip, 3});
  BOOST_TEST((some.pairs == Pairs{{"a", "A"}, {"g", "G"}}));
  BOOST_TEST(some.skipped.no_text == 2);
  BOOST_TEST(some.skipped.blank == 2);
  BOOST_TEST(some.skipped.too_long == 1);
  BOOST_TEST(some.skipped.unpaired == 2);
  BOOST_TEST(
      describe(some.skipped) ==
      "7 pairs skipped: 2 not UTF-8 text, 2 blank, 1 too long, 2 without a partner; the first: s:2: a blank line");
  BOOST_TEST(describe(Reading("a\n\n", "b\nc\n", skip).skipped) ==
             "1 pair skipped: 1 blank; the first: s:2: a blank line");
  BOOST_TEST(Reading("\n\n", "a\nb\n", skip).pairs.empty());
}

BOOST_AUTO_TEST_CASE(a_directory_has_its_parts_by_name) {
  Folder folder;
  write_corpus(folder, "train.lc.norm", 5);
  write_corpus(folder, "val", 3, ".txt");
  write_corpus(folder, "test_2016", 2);
  write(folder / "train.lc.norm.en.vocab", "no text of the corpus");
  write(folder / "training.de", "no part\n");
  write(folder / "test_2016.align", "0-1\n1-0\n");
  const ParallelCorpus corpus(options_of(folder));
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
  ParallelCorpusOptions options = options_of(folder);
  BOOST_TEST(contains(refusal(options), "several test sets: choose one with --test-set: test_2016 or test_2017"));
  options.test_set = "test_2017";
  BOOST_TEST(visited(ParallelCorpus(options), Part::test).size() == 4u);
  options.test_set = "test_2018";
  BOOST_TEST(contains(refusal(options), "--test-set test_2018: "));
  options.test_set = "val";     // on purpose
  options.train_set = "train";  // of train.lc.norm
  BOOST_TEST(visited(ParallelCorpus(options), Part::train).size() == 5u);
  BOOST_TEST(visited(ParallelCorpus(options), Part::test).size() == 3u);
}

BOOST_AUTO_TEST_CASE(missing_parts_are_split_off_by_hash) {
  Folder folder;
  write_corpus(folder, "train", 1000);
  const ParallelCorpus corpus(options_of(folder));
  const Pairs train = visited(corpus, Part::train), dev = visited(corpus, Part::dev),
              test = visited(corpus, Part::test);
  BOOST_TEST(train.size() + dev.size() + test.size() == 1000u);
  for (const Pairs& part : {dev, test}) {
    BOOST_TEST(part.size() > 70u);
    BOOST_TEST(part.size() < 130u);
  }
  for (const auto& pair : dev) BOOST_TEST(std::count(train.begin(), train.end(), pair) == 0);
  BOOST_TEST(contains(corpus.description(), "dev 10 % of train by hash"));

  ParallelCorpusOptions alone = options_of(folder);  // a language model's
  alone.source = "";
  BOOST_TEST(visited(ParallelCorpus(alone), Part::train).at(0).first == "");
}

BOOST_AUTO_TEST_CASE(one_file_has_its_parts_in_order) {
  Folder folder;
  std::string text;
  for (int i = 1; i <= 40; ++i) text += std::to_string(i) + "\n";
  ParallelCorpusOptions options;
  options.data = write(folder / "input.txt", text).string();
  const ParallelCorpus corpus(options);
  BOOST_TEST(visited(corpus, Part::train).size() == 32u);
  BOOST_TEST((visited(corpus, Part::dev) == Pairs{{"", "33"}, {"", "34"}, {"", "35"}, {"", "36"}}));
  BOOST_TEST((visited(corpus, Part::test) == Pairs{{"", "37"}, {"", "38"}, {"", "39"}, {"", "40"}}));
  options.source = "en";
  BOOST_TEST(contains(refusal(options), "is one file of lines; --source and --target name files of a directory"));
}

BOOST_AUTO_TEST_CASE(texts_alone_need_no_target) {
  using Names = std::vector<std::string>;
  for (const Names& names : {Names{"train.txt", "valid.txt", "test.txt"}, Names{"train", "dev", "test"},
                             Names{"ptb.train.txt", "ptb.valid.txt", "ptb.test.txt"},
                             Names{"wiki.train.tokens", "wiki.valid.tokens", "wiki.test.tokens"}}) {
    Folder folder;
    for (std::size_t k = 0; k < 3; ++k) write(folder / names[k], "text " + std::to_string(k) + "\n");
    write(folder / "README", "about these texts");
    ParallelCorpusOptions directory, file;
    directory.data = folder.path.string();
    file.data = (folder / names[0]).string();  // brings the others along
    for (const ParallelCorpusOptions& options : {directory, file}) {
      const ParallelCorpus corpus(options);
      BOOST_TEST((visited(corpus, Part::train) == Pairs{{"", "text 0"}}));
      BOOST_TEST((visited(corpus, Part::dev) == Pairs{{"", "text 1"}}));
      BOOST_TEST((visited(corpus, Part::test) == Pairs{{"", "text 2"}}));
      BOOST_TEST(corpus.description() ==
                 fmt::format("{}: train {}; dev {}; test {}", options.data, names[0], names[1], names[2]));
    }
  }
}

BOOST_AUTO_TEST_CASE(sets_belong_together_by_their_names) {
  Folder folder;
  for (const char* name : {"wiki.train.tokens", "wiki.valid.tokens", "wiki.test.tokens", "ptb.train.txt"})
    write(folder / name, std::string(name) + "\n");
  ParallelCorpusOptions options;
  options.data = folder.path.string();
  BOOST_TEST(
      contains(refusal(options), "several train sets: choose one with --train-set: ptb.train or wiki.train.tokens"));
  options.train_set = "wiki.train";
  const ParallelCorpus wiki(options);
  write(folder / "wiki.test.tokens", "wiki.test.tokens\n\n");
  write(folder / "wiki.valid.tokens", "\nwiki.valid.tokens\n");
  visited(wiki, Part::dev);
  BOOST_TEST((visited(wiki, Part::test) == Pairs{{"", "wiki.test.tokens"}}));
  BOOST_TEST(contains(wiki.left_out(), "dev: 1 line skipped: 1 blank; the first: "));
  BOOST_TEST(contains(wiki.left_out(), "wiki.valid.tokens:1: a blank line; test: 1 line skipped: "));
  BOOST_TEST(contains(wiki.description(), "dev wiki.valid.tokens; test wiki.test.tokens; not used: ptb.train.txt"));
  options.train_set = "ptb.train.txt";
  const ParallelCorpus ptb(options);
  BOOST_TEST(contains(ptb.description(),
                      "train ptb.train.txt; dev 10 % of train by hash; test 10 % of train by hash; not used: "
                      "wiki.test.tokens, wiki.train.tokens, wiki.valid.tokens"));
  options.train_set = "wiki.valid";  // the set that is trained on is not the development set, too
  BOOST_TEST(contains(ParallelCorpus(options).description(),
                      "train wiki.valid.tokens; dev 10 % of train by hash; test "
                      "wiki.test.tokens;"));
  options.train_set = "books";
  BOOST_TEST(contains(refusal(options), "has no such set; it has ptb.train, wiki.test.tokens, wiki.train.tokens, "));
  options.target = "de";
  BOOST_TEST(contains(refusal(options), "has no such set; it has ptb.train.txt, wiki.test.tokens, "));
}

BOOST_AUTO_TEST_CASE(pairs_are_fields_of_records) {
  Folder folder;
  const Pairs expected = {{"a b", "A B"}, {"c, \"d\"", "C"}};
  const auto pairs_of = [&](const std::string& name, const std::string& text, const std::string& columns) {
    ParallelCorpusOptions options;
    options.data = write(folder / name, text).string();
    options.columns = columns;
    options.needs_source = true;
    const ParallelCorpus corpus(options);
    Pairs pairs = visited(corpus, Part::train);
    for (const Part part : {Part::dev, Part::test}) {
      const Pairs others = visited(corpus, part);
      pairs.insert(pairs.end(), others.begin(), others.end());
    }
    std::sort(pairs.begin(), pairs.end());
    return pairs;
  };
  BOOST_TEST((pairs_of("a.tsv", "a b\tA B\n\nc, \"d\"\tC\n", "") == expected));
  BOOST_TEST((pairs_of("b.tsv", "1\tA B\ta b\n2\tC\tc, \"d\"\n", "3,2") == expected));
  BOOST_TEST((pairs_of("c.txt", "de\ten\nA B\ta b\nC\tc, \"d\"\n", "en,de") == expected));
  BOOST_TEST((pairs_of("d.csv", "en,de\na b,A B\n\"c, \"\"d\"\"\",C\n", "en, de") == expected));
  BOOST_TEST((pairs_of("e.jsonl",
                       R"({"de": "A B", "en": "a b", "id": 1})"
                       "\n"
                       R"({"en": "c, \"d\"", "de": "C"})",
                       "en,de") == expected));
  BOOST_TEST((pairs_of("f.jsonl",
                       R"({"t": {"en": "a b", "de": "A B"}})"
                       "\n"
                       R"({"t": {"en": "c, \"d\"", "de": "C"}})",
                       "t.en,t.de") == expected));
  BOOST_TEST((pairs_of("g.csv", "\"a\r\nb\",A B\n\"c, \"\"d\"\"\",C\n", "1,2") == expected));  // on one line
}

BOOST_AUTO_TEST_CASE(records_are_found_in_a_directory) {
  Folder folder;
  for (const char* part : {"train", "valid", "test"})
    write(folder / (std::string(part) + ".jsonl"),
          fmt::format(R"({{"text": "text of {}", "title": "{}"}})", part, part));
  ParallelCorpusOptions options;
  options.data = folder.path.string();
  options.source = "text";
  options.target = "title";
  options.needs_source = true;
  for (const std::string& data : {folder.path.string(), (folder / "train.jsonl").string()}) {
    options.data = data;
    const ParallelCorpus corpus(options);
    BOOST_TEST((visited(corpus, Part::test) == Pairs{{"text of test", "test"}}));
    BOOST_TEST(corpus.description() ==
               data + ": train train.jsonl; dev valid.jsonl; test test.jsonl; keys text, title");
  }
  ParallelCorpusOptions alone;
  alone.data = folder.path.string();
  BOOST_TEST((visited(ParallelCorpus(alone), Part::dev) == Pairs{{"", "text of valid"}}));  // the key text by itself
  alone.columns = "title";
  BOOST_TEST((visited(ParallelCorpus(alone), Part::dev) == Pairs{{"", "valid"}}));
  options.source = options.target = "";
  BOOST_TEST(
      contains(refusal(options), "train.jsonl: --columns SOURCE,TARGET must choose two of the 2 keys: text, title"));
  options.columns = "text";
  BOOST_TEST(contains(refusal(options), "--columns text: 1 field, expected 2 (source, target)"));
  options.data = write(folder / "list.txt", "a\n").string();
  options.columns = "";
  BOOST_TEST(contains(refusal(options), "list.txt' is one file of lines; "));
}

BOOST_AUTO_TEST_CASE(broken_records_are_skipped_where_bad_lines_are) {
  Folder folder;
  ParallelCorpusOptions options;
  options.data =
      write(folder / "x.jsonl", "{\"text\": \"a\"}\n{\"txt\": \"b\"}\nnonsense\n{\"text\": \"\"}\n").string();
  BOOST_TEST(
      contains(message_of([&] { visited(ParallelCorpus(options), Part::train); }),
               "x.jsonl:2: there is no key 'text'; the keys are txt; did you mean 'txt'? (--bad-lines skip leaves"));
  options.lines = skip;
  const ParallelCorpus corpus(options);
  BOOST_TEST((visited(corpus, Part::train) == Pairs{{"", "a"}}));
  BOOST_TEST(corpus.skipped(Part::train).broken == 2);
  BOOST_TEST(corpus.skipped(Part::train).blank == 1);
}

BOOST_AUTO_TEST_CASE(what_is_missing_is_said) {
  Folder folder;
  ParallelCorpusOptions options = options_of(folder);
  BOOST_TEST(contains(refusal(options), "no training set train.de (.txt and .gz too); found nothing"));
  write(folder / "train.de", "x\n");
  BOOST_TEST(contains(refusal(options), "there is train.de, but no train.en"));
  write(folder / "train.en", "x\n");
  write(folder / "train.de.gz", "x\n");
  BOOST_TEST(contains(refusal(options), "are train.de"));
  options.target = "";
  BOOST_TEST(contains(refusal(options), "--target is missing"));
  Folder empty;
  ParallelCorpusOptions alone;
  alone.data = empty.path.string();
  BOOST_TEST(contains(refusal(alone), "no training set: the name of a file must have the word train in it"));
  options.target = "en";
  BOOST_TEST(contains(refusal(options), "--source and --target are both 'en'"));
  options.data = (folder / "nowhere").string();
  options.target = "de";
  BOOST_TEST(contains(refusal(options), "does not exist"));
}

BOOST_AUTO_TEST_CASE(a_visit_skips_what_it_may) {
  Folder folder;
  write_corpus(folder, "train", 20);
  std::ofstream(folder / "train.en", std::ios::app) << "\nlast\n";
  std::ofstream(folder / "train.de", std::ios::app) << "leer\nletzte\n";
  ParallelCorpusOptions options = options_of(folder);
  BOOST_TEST(contains(message_of([&] { visited(ParallelCorpus(options), Part::train); }), "train.en:21: a blank line"));
  options.lines.bad_lines = BadLines::skip;
  const ParallelCorpus corpus(options);
  visited(corpus, Part::train);
  BOOST_TEST(corpus.skipped(Part::train).blank == 1);
  BOOST_TEST(contains(corpus.left_out(), "train: 1 pair skipped: 1 blank; the first: "));
  visited(corpus, Part::train);  // counted anew
  BOOST_TEST(corpus.skipped(Part::train).blank == 1);
}

BOOST_AUTO_TEST_CASE(a_corpus_may_be_larger_than_memory) {
  Folder folder;
  {
    std::ofstream source(folder / "s"), target(folder / "t");
    const std::string line(1000, 'x');
    for (int i = 0; i < 100'000; ++i) source << line << '\n', target << "y\n";
  }
  const int status = status_in_child([&] {
    const auto size = std::filesystem::file_size(folder / "s");
    std::ifstream statistics("/proc/self/statm");
    rlim_t pages = 0;
    statistics >> pages;
    const rlimit limit{pages * 4096 + size / 4, RLIM_INFINITY};  // a quarter of the file beyond what is used now
    if (::setrlimit(RLIMIT_AS, &limit) != 0) return 9;
    PairReader reader({folder / "s", folder / "t", {}}, {});
    int pairs = 0;
    for (TextPair pair; reader.next(pair);) ++pairs;
    return pairs == 100'000 ? 0 : 1;
  });
  BOOST_TEST(status == 0);
}

BOOST_AUTO_TEST_CASE(a_sample_is_even_and_bounded) {
  TextSample all(1000), few(1000);
  for (int i = 0; i < 20; ++i) all.add(std::string(10, 'a'));
  BOOST_TEST(all.texts().size() == 20u);
  for (int i = 0; i < 10'000; ++i) few.add(std::to_string(100'000 + i));
  BOOST_TEST(few.texts().size() * 6 <= 1000u);
  BOOST_TEST(few.texts().size() * 6 > 400u);
  const int step = std::stoi(few.texts()[1]) - std::stoi(few.texts()[0]);
  for (std::size_t i = 1; i < few.texts().size(); ++i) {
    BOOST_TEST(std::stoi(few.texts()[i]) - std::stoi(few.texts()[i - 1]) == step);
  }
}

BOOST_AUTO_TEST_CASE(a_vocabulary_is_joint_or_one_for_each_side) {
  Folder folder, saved;
  write_corpus(folder, "train", 300);
  const ParallelCorpus corpus(options_of(folder));
  PairTextOptions options;
  options.text.min_count = 1;
  const PairTokenizers joint = train_tokenizers(corpus, options);
  BOOST_TEST(joint.joint());
  BOOST_TEST(joint.source->encode("number nummer").at(0) != unknown_id);
  BOOST_TEST(joint.source->encode("number nummer").at(1) != unknown_id);
  joint.save(saved.path);
  BOOST_TEST(load_tokenizers(saved.path).joint());
  BOOST_TEST(load_tokenizers(saved.path).target->encode("nummer") == joint.target->encode("nummer"));

  options.target_vocabulary_size = 50;
  BOOST_TEST(contains(message_of([&] { train_tokenizers(corpus, options); }), "are for --no-joint-vocabulary"));
  options.joint = false;
  Folder both;
  for (const Units units : {Units::words, Units::bpe, Units::characters}) {
    options.text.units = units;
    options.text.vocabulary_size = 60;
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

BOOST_AUTO_TEST_SUITE_END()
