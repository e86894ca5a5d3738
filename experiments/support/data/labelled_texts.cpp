#include "experiments/support/data/labelled_texts.h"

#include <algorithm>
#include <set>
#include <span>
#include <string_view>
#include <unordered_set>

#include <fmt/format.h>

#include "experiments/support/data/file_sets.h"
#include "experiments/support/data/generated.h"
#include "experiments/support/program/cli.h"
#include "experiments/support/text/lines.h"
#include "experiments/support/text/split_mix.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"

namespace fovea {

namespace fs = std::filesystem;

LabelledTexts::LabelledTexts(const PairSource& pairs)
    : labels(pairs.classes()), groups(pairs.group()), source(pairs.description()) {
  for (const Part part : all_parts) pairs.visit(part, [&](const TextPair& pair) { (*this)[part].push_back(pair); });
}

void LabelledTexts::visit(Part part, const PairVisitor& visitor, std::size_t) const {
  for (const TextPair& pair : (*this)[part]) visitor(pair);
}

std::string LabelledTexts::description() const {
  constexpr std::size_t few = 8;
  const std::string count = labels.size() > few ? fmt::format("{} classes:", labels.size()) : "classes";
  return fmt::format("{}: {} train, {} dev, {} test, {} {}", source, parts[0].size(), parts[1].size(), parts[2].size(),
                     count, first_few(labels));
}

void ExampleLimits::add_to(Cli& cli) {
  cli.rare("--train-examples", train_examples, "the number of training examples, chosen by hash; 0: all").at_least(0);
  cli.rare("--test-examples", test_examples, "the number of test examples, chosen by hash; 0: all").at_least(0);
}

namespace {

/// The file, or directory, of each part; empty where there is none.
using SplitFiles = std::array<fs::path, 3>;

/// The tables (.tsv, .csv, .jsonl) and texts (.txt) of a directory, chosen by their names (file_sets.h), or a file with
/// those beside it. There is no training file if the directory has none.
SplitFiles split_files(const fs::path& path) {
  const bool is_directory = fs::is_directory(path);
  FileSets sets = is_directory ? sets_of(path, "") : sets_beside(path);
  std::erase_if(sets, [&](const auto& set) {
    const fs::path name = set.second.extension() == ".gz" ? set.second.stem() : set.second;
    return set.second != path && record_format(name) == RecordFormat::lines && name.extension() != ".txt";
  });
  const ChosenSets chosen = choose_sets(sets, {.train = is_directory ? "" : set_name(path)}, path, false);
  const auto file = [&](const std::string& set) { return set.empty() ? fs::path() : sets.at(set); };
  return {file(chosen.train), file(chosen.dev), file(chosen.tests[0])};
}

/// Adds the pairs of a file of this part to data.
using LabelledReader = std::function<void(LabelledTexts& data, Part part, const fs::path& file)>;

/// Reads all files, the training file first.
LabelledTexts read_files(const SplitFiles& files, const LabelledReader& read) {
  LabelledTexts data;
  data.source = files[0].string();
  for (const Part part : all_parts) {
    const fs::path& file = files[std::size_t(part)];
    if (file.empty()) continue;
    read(data, part, file);
    if (part != Part::train) data.source += ", " + file.filename().string();
  }
  return data;
}

void split_off_missing_parts(LabelledTexts& data) {
  const bool no_dev = data[Part::dev].empty(), no_test = data[Part::test].empty();
  if (!no_dev && !no_test) return;
  std::vector<TextPair> all = std::move(data[Part::train]);
  data[Part::train].clear();
  for (TextPair& pair : all) data[part_by_hash(pair.source, no_dev, no_test)].push_back(std::move(pair));
  data.source += fmt::format(" ({}{}{} split off by hash)", no_dev ? "10 % dev" : "", no_dev && no_test ? " and " : "",
                             no_test ? "10 % test" : "");
}

void keep_some(std::vector<TextPair>& pairs, std::int64_t limit) {
  if (limit <= 0 || limit >= std::ssize(pairs)) return;
  std::vector<std::pair<std::uint64_t, std::size_t>> order(pairs.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = {mix_bits(stable_hash(pairs[i].source)), i};
  std::nth_element(order.begin(), order.begin() + limit, order.end());
  order.resize(std::size_t(limit));
  std::ranges::sort(order, {}, [](const auto& item) { return item.second; });
  std::vector<TextPair> kept;
  for (const auto& [hash, i] : order) kept.push_back(std::move(pairs[i]));
  pairs = std::move(kept);
}

/// The last step of every loader. Splits parts off that have no file of their own, 10 % of the training texts each by
/// hash. Applies the limits: examples with the smallest hash of text stay, so that a smaller selection is part of every
/// larger one. Throws Error for an empty part, and for fewer than two labels in the training part.
LabelledTexts completed(LabelledTexts data, const ExampleLimits& limits) {
  split_off_missing_parts(data);
  if (limits.hard_subset) {
    std::erase_if(data[Part::test], [](const TextPair& pair) { return !pair.is_hard; });
    data.source += " (test: hard subset)";
  }
  keep_some(data[Part::train], limits.train_examples);
  keep_some(data[Part::test], limits.test_examples);
  const std::vector<TextPair>& train = data[Part::train];
  for (const auto& [part, noun] :
       {std::pair(Part::train, "training"), std::pair(Part::dev, "development"), std::pair(Part::test, "test")})
    require(!data[part].empty(), "{}: no {} example ({} for training); more texts are needed, or a file {}.tsv",
            data.source, noun, train.size(), name_of(part));
  require(std::ranges::any_of(train, [&](const TextPair& pair) { return pair.target != train[0].target; }),
          "{}: all {} training examples are of the class '{}': nothing to learn", data.source, train.size(),
          train[0].target);
  return data;
}

}  // namespace

// ---- Sentiment

const Role text_role{.what = "TEXT", .names = {"sentence", "text", "review", "phrase", "document"}};
const Role label_role{
    .what = "LABEL", .names = {"label", "class", "sentiment", "category", "polarity", "target"}, .takes_numbers = true};

namespace {

const std::vector<std::string> two_labels{"negative", "positive"},
    five_labels{"very negative", "negative", "neutral", "positive", "very positive"};

/// The text with one space between words, and for every `<br />` of IMDB, however it is written.
std::string tidy_text(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size();) {
    const bool may_be = text[i] == '<' && lower_case(text.substr(i, 3)) == "<br";
    const std::size_t end = may_be ? text.find_first_not_of(" /", i + 3) : text.npos;
    const bool is_break = end != text.npos && end < i + 8 && text[end] == '>';
    result += is_break ? ' ' : text[i];
    i = is_break ? end + 1 : i + 1;
  }
  return join_words(split_words(result));
}

// ---- IMDB

/// The reviews of {pos,neg}/*.txt, ordered by the number that starts the name ("12_8.txt"), which no file system
/// changes.
void read_reviews(LabelledTexts& data, Part part, const fs::path& directory) {
  require(fs::is_directory(directory), "{}: is a file beside folders of reviews, train/{{pos,neg}}; move it away",
          directory.string());
  data.labels = two_labels;
  for (const std::size_t label : {0, 1}) {
    const fs::path folder = directory / (label == 0 ? "neg" : "pos");
    require(fs::is_directory(folder), "{}: no such directory; expected {{train,test}}/{{pos,neg}}/*.txt",
            folder.string());
    std::set<std::pair<std::int64_t, fs::path>> names;
    for (const auto& entry : fs::directory_iterator(folder)) {
      const fs::path name = entry.path().filename();
      if ((name.extension() == ".gz" ? name.stem() : name).extension() == ".txt")
        names.emplace(leading_number<std::int64_t>(name.string()).value_or(0), entry.path());
    }
    require(!names.empty(), "{}: no .txt file; it has {}", folder.string(), contents_of(folder));
    for (const auto& [number, path] : names) {
      std::string text = tidy_text(read_text(path, " "));
      require(!text.empty(), "{}: the review is empty", path.string());
      data[part].push_back({.source = std::move(text), .target = two_labels[label]});
    }
  }
}

// ---- The Stanford Sentiment Treebank

/// A word with the Penn Treebank's escapes undone: `\/`, -LRB-.
std::string unescaped(std::string_view word) {
  constexpr std::pair<std::string_view, const char*> brackets[] = {{"-lrb-", "("}, {"-rrb-", ")"}, {"-lsb-", "["},
                                                                   {"-rsb-", "]"}, {"-lcb-", "{"}, {"-rcb-", "}"}};
  for (const auto& [name, bracket] : brackets)
    if (word.starts_with('-') && lower_case(word) == name) return bracket;
  std::string result;
  for (std::size_t i = 0; i < word.size(); ++i)
    if (word[i] != '\\' || i + 1 == word.size() || (word[i + 1] != '/' && word[i + 1] != '*')) result += word[i];
  return result;
}

/// The texts of all nodes of a tree, `(label word)` or `(label tree tree ...)`, with their ratings, 0 (very negative)
/// to 4 (very positive); the root's first.
std::vector<std::pair<std::string, std::size_t>> nodes_of(const LineReader& at, std::string_view tree) {
  struct Node {
    std::size_t number, own_words = 0, own_nodes = 0;
  };
  std::vector<std::pair<std::string, std::size_t>> texts;
  std::vector<Node> open;
  for (std::size_t place = 0, end = 0; place < tree.size(); place = end) {
    end = place + 1;
    if (tree[place] == ' ') continue;
    const auto require_tree = [&](bool claim, const char* what) {
      at.require_here(claim, "column {}: {}", place + 1, what);
    };
    require_tree(!open.empty() || (texts.empty() && tree[place] == '('), "text outside the tree (label ...)");
    if (tree[place] == '(') {
      end = std::min(tree.find_first_not_of(' ', end), tree.size());
      const std::size_t behind = std::min(tree.find_first_of(" ()", end), tree.size());
      const auto rating = number<std::size_t>(tree.substr(end, behind - end));
      require_tree(rating && *rating <= 4, "expected a label 0-4 after '('");
      end = behind;
      constexpr std::size_t deepest = 200;  // the words of a node are kept once for each node around it
      require_tree(open.size() < deepest, "more than 200 nodes lie in each other; those of SST are at most 50 deep");
      if (!open.empty()) ++open.back().own_nodes;
      open.push_back({texts.size()});
      texts.emplace_back("", *rating);
    } else if (const Node& node = open.back(); tree[place] == ')') {
      require_tree(node.own_nodes > 0 ? node.own_words == 0 : node.own_words == 1,
                   "the end of a node that is neither one word nor other nodes");
      open.pop_back();
    } else {
      end = std::min(tree.find_first_of(" ()", place), tree.size());
      const std::string word = unescaped(tree.substr(place, end - place));
      for (const Node& around : open) append_word(texts[around.number].first, word);
      ++open.back().own_words;
    }
  }
  at.require_here(open.empty(), "the line ends inside the tree");
  return texts;
}

/// SST had a phrase labelled once, however often it occurs, so its repetitions say nothing about sentiment.
void read_trees(LabelledTexts& data, Part part, const fs::path& file, bool has_five_classes, bool all_phrases) {
  data.labels = has_five_classes ? five_labels : two_labels;
  LineReader reader(file);
  std::unordered_set<std::string> seen;
  for (std::string line; reader.next(line);) {
    if (is_blank(line)) continue;
    auto nodes = nodes_of(reader, line);
    if (!all_phrases) nodes.resize(1);
    for (auto& [text, rating] : nodes) {
      if (all_phrases && !seen.insert(char('0' + rating) + text).second) continue;
      if (!has_five_classes && rating == 2) continue;
      data[part].push_back({.source = std::move(text), .target = data.labels[has_five_classes ? rating : rating / 3]});
    }
  }
}

// ---- Tables

/// The labels in the order of their numbers, or of their bytes where they are not all whole numbers.
std::vector<std::string> in_order(const std::set<std::string>& labels) {
  std::vector<std::string> classes(labels.begin(), labels.end());
  const auto value = [](const std::string& label) { return number<double>(label).value_or(0); };
  if (std::ranges::all_of(classes, is_whole_number)) std::ranges::stable_sort(classes, {}, value);
  return classes;
}

/// The part of a row of the training file, of which its `subset` may say that it is of another part.
Part part_of_row(const RecordReader& at, Part part, const std::string& subset) {
  if (part != Part::train || subset.empty()) return part;
  const auto named = part_called(subset);
  at.require_here(named.has_value(), "subset '{}', expected train, dev (or val, valid, validation) or test", subset);
  return *named;
}

void read_table(LabelledTexts& data, Part part, const fs::path& file, const RecordFields& fields) {
  constexpr std::size_t most_labels = 1000, few_rows = 10;
  const RecordFormat format = record_format(file);
  RecordReader reader(file, format == RecordFormat::lines ? RecordFormat::tsv : format,
                      {text_role, label_role, {.what = "SUBSET", .names = {"subset"}, .is_optional = true}}, fields);
  const std::vector<std::string>& names = reader.fields();
  require(names[0] != names[1], "--columns {}: one column cannot be text and label", listed(fields.names, ","));
  std::set<std::string> labels(data.labels.begin(), data.labels.end());
  std::vector<TextPair>& pairs = data[part];
  const auto rows = [&] { return data[Part::train].size() + data[Part::dev].size() + data[Part::test].size(); };
  const std::size_t before = rows();
  for (std::vector<std::string> row; reader.next(row);) {
    TextPair pair{.source = tidy_text(row[0]), .target = trimmed(row[1])};
    reader.require_here(!pair.target.empty(), "the label is empty");
    reader.require_here(!pair.source.empty(), "the text is empty");
    if (part == Part::train) labels.insert(pair.target);
    reader.require_here(labels.contains(pair.target), "label '{}' does not occur in the training texts ({})",
                        pair.target, first_few(data.labels));
    reader.require_here(labels.size() <= most_labels,
                        "more than {} different labels, the last '{}': is this the column of the texts? (--columns)",
                        most_labels, shortened(pair.target, 40));
    data[part_of_row(reader, part, row[2])].push_back(std::move(pair));
  }
  require(rows() > before, "{}: the file has a header ({}), but no line below it", reader.name(), reader.description());
  require(!pairs.empty(), "{}: no row has the subset train; there is none to train on", reader.name());
  std::set<std::string_view> texts;
  for (const TextPair& pair : pairs) texts.insert(pair.source);
  require(part != Part::train || !fields.names.empty() || reader.has_header() || labels.size() <= texts.size(),
          "{}: column 2 has {} different labels, column 1 only {} different texts; if the label comes first: --columns "
          "2,1",
          reader.name(), labels.size(), texts.size());
  const bool may_be_header = part == Part::train && !reader.has_header() && fields.header == Header::automatic &&
                             format != RecordFormat::jsonl && pairs.size() >= few_rows &&
                             2 * labels.size() < pairs.size();
  require(
      !may_be_header || std::ranges::count(pairs, pairs[0].target, &TextPair::target) > 1,
      "{}: the first line looks like a header ({}, {}): the label is on no other line; give --header yes if the line "
      "names the columns, --header no if it is an example",
      reader.name(), pairs[0].source, pairs[0].target);
  if (part != Part::train) return;
  data.labels = in_order(labels);
  data.source +=
      fmt::format(" ({} as text and label{})", reader.description(), reader.has_header() ? ", under a header" : "");
}

// ---- Any of them

/// The files of the directory itself, or of the part of a distribution that holds them.
SplitFiles files_at(const fs::path& path) {
  if (!fs::is_directory(path)) return split_files(path);
  for (const fs::path& place : {path, path / "aclImdb", path / "trees"}) {
    if (!fs::is_directory(place)) continue;
    SplitFiles files = split_files(place);
    if (fs::is_directory(place / "train" / "pos") && fs::is_directory(place / "train" / "neg"))
      for (const auto& [name, part] : {std::pair("train", 0u), {"dev", 1u}, {"val", 1u}, {"test", 2u}})
        if (fs::is_directory(place / name)) {
          require(files[part].empty(), "{}: both {} and {} are {} sets; move one away", place.string(),
                  files[part].filename().string(), name, name_of(Part(part)));
          files[part] = place / name;
        }
    if (!files[0].empty()) return files;
  }
  fail(
      "{}: no data set found; looked for train.{{txt,tsv,csv,jsonl}}[.gz] (also *_train.*, trees/) and for "
      "train/{{pos,neg}}/*.txt; found {}",
      path.string(), contents_of(path));
}

/// Whether the first line that is not blank is a tree.
bool has_trees(const fs::path& file) {
  if (record_format(file) != RecordFormat::lines) return false;
  LineReader reader(file);
  std::string line;
  while (is_blank(line)) require(reader.next(line), "{}: the file is empty", reader.name());
  return line.starts_with('(') && line.find('\t') == line.npos;
}

LabelledTexts load_files(const SentimentOptions& options) {
  const SplitFiles files = files_at(existing_data(options.data));
  if (fs::is_directory(files[0])) return read_files(files, read_reviews);
  if (has_trees(files[0]))
    return read_files(files, [&](LabelledTexts& data, Part part, const fs::path& file) {
      read_trees(data, part, file, options.classes == 5, options.phrases == Phrases::all && part == Part::train);
    });
  const bool is_found = options.columns == automatic_columns;
  const RecordFields fields{.names = is_found ? std::vector<std::string>() : split_list(options.columns),
                            .header = options.header};
  return read_files(
      files, [&](LabelledTexts& data, Part part, const fs::path& file) { read_table(data, part, file, fields); });
}

}  // namespace

void SentimentOptions::add_to(Cli& cli) {
  cli.option("--data", data,
             "file or directory: SST trees, IMDB, texts and labels as .tsv, .csv or .jsonl (.gz too); or "
             "generated[:train=20000,dev=500,test=2000,seed=1,length=10-20,polar=0.3,not=0.3]")
      .saved_as(lasting_data);
  cli.rare("--classes", classes,
           "the number of classes of SST; 5, or 2 without the neutral texts; default: 2 for SST, otherwise all "
           "labels of the data")
      .at_least(0);
  cli.choice("--phrases", phrases, {{"all", Phrases::all}, {"sentences", Phrases::sentences}},
             "SST: train on all phrases (each once) or on sentences")
      .rare();
  cli.option("--columns", columns,
             "the columns of text and label in a table; by number from 1 or by name: sentence,label, or keys of JSON "
             "lines (.jsonl); auto: by what they are called, or the only two");
  cli.choice("--header", header, header_names, "whether the first line of a table names the columns").rare();
  ExampleLimits::add_to(cli);
}

LabelledTexts load(const SentimentOptions& options) {
  if (is_generated(options.data) && options.columns != automatic_columns)
    warn_without_effect({"--columns"}, data_without_files);
  LabelledTexts data =
      is_generated(options.data) ? LabelledTexts(*generate_sentiment(options.data)) : load_files(options);
  require(options.classes == 0 || std::size_t(options.classes) == data.labels.size(),
          "{}: {} different labels ({}), --classes asks for {}", data.source, data.labels.size(),
          first_few(data.labels), options.classes);
  return completed(std::move(data), options);
}

// ---- Agreement

namespace {

const std::vector<std::string> number_labels = {"singular", "plural"};

std::int64_t integer(const RecordReader& at, const std::string& text, const char* what) {
  const auto value = number<std::int64_t>(text);
  at.require_here(value.has_value(), "{} '{}', expected an integer", what, text);
  return *value;
}

/// Returns whether the file is Linzen's.
bool read_agreement(std::vector<TextPair>& pairs, const fs::path& path) {
  constexpr std::int64_t most_attractors = 4;
  enum { sentence, verb, label, attractors, intervening };  // the roles
  RecordReader reader(path, RecordFormat::tsv,
                      {{"SENTENCE", {"sentence"}},
                       {"VERB", {"verb_index", "verb_idx"}},  // counted from 1, from 0
                       {"NUMBER", {"label", "verb_pos"}},
                       {"ATTRACTORS", {"n_diff_intervening", "n_attractors"}, false, true},
                       {"NOUNS", {"n_intervening"}, false, true}},
                      {.has_flag = false});
  require(reader.has_header(),
          "{}: expected a header with sentence, verb_index (from 1) and verb_pos, as in agr_50_mostcommon_10K.tsv, or "
          "sentence, verb_idx (from 0) and label, as in sva_train.tsv",
          path.string());
  const std::vector<std::string>& names = reader.fields();
  const bool is_linzens = lower_case(names[verb]) == "verb_index";
  if (is_linzens) reader.read_quotes();
  for (std::vector<std::string> row; reader.next(row);) {
    const auto words = split_words(row[sentence]);
    const std::int64_t place = integer(reader, row[verb], "verb position") - is_linzens;
    reader.require_here(place >= 1 && place < std::ssize(words),
                        "the verb is word {} (from 0) of a sentence of {} words, expected 1 to {}", place, words.size(),
                        std::ssize(words) - 1);
    const bool is_plural = row[label] == "PLUR" || row[label] == "VBP";
    reader.require_here(is_plural || row[label] == "SING" || row[label] == "VBZ",
                        "number '{}', expected SING or VBZ (singular), PLUR or VBP (plural)", row[label]);
    const std::int64_t count =
        names[attractors].empty() ? -1 : integer(reader, row[attractors], "number of attractors");
    const bool is_reported = count >= 0 && count <= most_attractors;
    pairs.push_back({.source = join_words(std::span(words).first(std::size_t(place))),
                     .target = number_labels[is_plural],
                     .group = is_reported ? int(count) : -1,
                     .is_hard = names[intervening].empty()
                                    ? count > 0
                                    : integer(reader, row[intervening], "n_intervening") == count});
  }
  return is_linzens;
}

/// sva_{train,dev,test}.tsv, or Linzen's file, in a directory.
SplitFiles agreement_files(const fs::path& path) {
  SplitFiles files = split_files(path);
  for (const char* name : {"agr_50_mostcommon_10K.tsv", "agr_50_mostcommon_10K.tsv.gz"})
    if (files[0].empty() && fs::exists(path / name)) files[0] = path / name;
  if (files[0].empty())
    fail("{}: no agreement data found; looked for *train.tsv[.gz] and agr_50_mostcommon_10K.tsv[.gz]; found {}",
         path.string(), contents_of(path));
  return files;
}

/// Shares Linzen's file out, if there is no test file, as Tensor2Tensor does.
LabelledTexts load_files(const AgreementOptions& options) {
  bool is_linzens = false;
  LabelledTexts data =
      read_files(agreement_files(existing_data(options.data)), [&](LabelledTexts& to, Part part, const fs::path& file) {
        is_linzens = read_agreement(to[part], file) || is_linzens;
      });
  data.labels = number_labels;
  data.groups = "attractors";
  if (is_linzens && data[Part::test].empty()) {
    std::vector<TextPair> all = std::move(data[Part::train]);
    data[Part::train].clear();
    SplitMix(std::uint64_t(options.split_seed)).shuffle(std::span(all));
    const std::size_t end_of_train = all.size() * 9 / 100, end_of_dev = end_of_train + all.size() / 100;
    const bool has_dev = !data[Part::dev].empty();
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Part part = i < end_of_train ? Part::train : i < end_of_dev ? Part::dev : Part::test;
      if (part != Part::dev || !has_dev) data[part].push_back(std::move(all[i]));
    }
    data.source += fmt::format(" (9 % train, 1 % dev, 90 % test, split seed {})", options.split_seed);
  }
  return data;
}

}  // namespace

void AgreementOptions::add_to(Cli& cli) {
  cli.option("--data", data,
             "directory or file: sva_{train,dev,test}.tsv, agr_50_mostcommon_10K.tsv (.gz too); or "
             "generated[:train=20000,dev=500,test=2000,seed=1,attractors=4,nouns=150]")
      .saved_as(lasting_data);
  cli.option("--hard-subset", hard_subset,
             "test on hard sentences only; those with n_intervening = n_diff_intervening (no noun between subject and "
             "verb, or attractors only); in files without n_intervening: those with an attractor");
  cli.rare("--split-seed", split_seed, "the seed that shuffles Linzen's file before its 9 % / 1 % / 90 % split")
      .at_least(0);
  ExampleLimits::add_to(cli);
}

LabelledTexts load(const AgreementOptions& options) {
  return completed(is_generated(options.data) ? LabelledTexts(*generate_agreement(options.data, options.hard_subset))
                                              : load_files(options),
                   options);
}

}  // namespace fovea
