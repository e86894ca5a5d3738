#include "experiments/support/data/sentiment_data.h"

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
#include "experiments/support/text/number.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"

namespace fovea {

namespace fs = std::filesystem;

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

/// Rows of a `subset` val or dev are the development part if it has no file.
void read_table(LabelledTexts& data, Part part, const fs::path& file, const RecordFields& fields, bool has_dev) {
  constexpr std::size_t most_labels = 1000, few_rows = 10;
  const RecordFormat format = record_format(file);
  RecordReader reader(file, format == RecordFormat::lines ? RecordFormat::tsv : format,
                      {text_role, label_role, {.what = "SUBSET", .names = {"subset"}, .is_optional = true}}, fields);
  const std::vector<std::string>& names = reader.fields();
  require(names[0] != names[1], "--columns {}: one column cannot be text and label", listed(fields.names, ","));
  std::set<std::string> labels(data.labels.begin(), data.labels.end());
  std::vector<TextPair>& pairs = data[part];
  std::vector<TextPair>& dev = part == Part::train && !has_dev ? data[Part::dev] : pairs;
  for (std::vector<std::string> row; reader.next(row);) {
    TextPair pair{.source = tidy_text(row[0]), .target = trimmed(row[1])};
    reader.require_here(!pair.target.empty(), "the label is empty");
    reader.require_here(!pair.source.empty(), "the text is empty");
    if (part == Part::train) labels.insert(pair.target);
    reader.require_here(labels.contains(pair.target), "label '{}' does not occur in the training texts ({})",
                        pair.target, first_few(data.labels));
    reader.require_here(labels.size() <= most_labels,
                        "more than {} different labels, the last '{}': is this the column of the texts? (--columns)",
                        most_labels, pair.target.substr(0, 40));
    (row[2] == "val" || row[2] == "dev" ? dev : pairs).push_back(std::move(pair));
  }
  require(!pairs.empty() || !dev.empty(), "{}: the file has a header ({}), but no line below it", reader.name(),
          reader.description());
  require(!pairs.empty(), "{}: all rows have the subset val or dev; there is none to train on", reader.name());
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
        if (fs::is_directory(place / name)) files[part] = place / name;
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
  const RecordFields fields{.names = is_found ? std::vector<std::string>() : split_fields(options.columns),
                            .header = options.header};
  return read_files(files, [&](LabelledTexts& data, Part part, const fs::path& file) {
    read_table(data, part, file, fields, !files[1].empty());
  });
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
  LabelledTexts data =
      is_generated(options.data) ? LabelledTexts(*generate_sentiment(options.data)) : load_files(options);
  require(options.classes == 0 || std::size_t(options.classes) == data.labels.size(),
          "{}: {} different labels ({}), --classes asks for {}", data.source, data.labels.size(),
          first_few(data.labels), options.classes);
  return completed(std::move(data), options);
}

}  // namespace fovea
