#include "experiments/support/data/sentiment_data.h"

#include <algorithm>

#include "experiments/support/data/generated.h"
#include "experiments/support/data/labelled_table.h"
#include "experiments/support/data/reviews.h"
#include "experiments/support/data/treebank.h"
#include "experiments/support/program/program.h"
#include "experiments/support/text/lines.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"

namespace fovea {

namespace fs = std::filesystem;

namespace {

SentimentFormat format_of(const TextFile& train) {
  const std::size_t first = train.first_line();
  const std::string& line = train.lines[first];
  if (line.find('\t') != std::string::npos) {
    const auto columns = split_columns(line);
    const auto has = [&](std::string_view name) {
      return std::find(columns.begin(), columns.end(), name) != columns.end();
    };
    return has("label") && has("subset") && has("text") ? SentimentFormat::imdb : SentimentFormat::table;
  }
  if (line.starts_with('(')) return SentimentFormat::trees;
  if (line.find("|||") != std::string::npos) return SentimentFormat::lines;
  train.fail_at(first, "neither an SST tree '(3 ...)', nor 'label ||| sentence', nor columns separated by tabs");
}

/// The directory itself, or the part of a distribution inside it that holds the files.
SplitFiles files_in(const fs::path& directory, SentimentFormat format) {
  std::vector<fs::path> places = {directory};
  if (format != SentimentFormat::lines) places.push_back(directory / "trees");
  if (format != SentimentFormat::trees) places.push_back(directory / "classes");
  for (const fs::path& place : places) {
    if (!fs::is_directory(place)) continue;
    const SplitFiles files = find_split_files(place);
    if (!files.train.empty()) return files;
  }
  fail(
      "{}: no data set found; looked for train.{{txt,tsv,csv,jsonl}}[.gz] (also *_train.*, trees/, classes/) "
      "and for "
      "train/{{pos,neg}}/*.txt; found {}",
      directory.string(), contents_of(directory));
}

ClassificationData load_files(SentimentOptions options, const fs::path& path) {
  const bool reviews = options.format == SentimentFormat::automatic || options.format == SentimentFormat::imdb;
  if (fs::is_directory(path) && reviews) {
    if (is_review_tree(path)) return load_review_tree(path);
    if (is_review_tree(path / "aclImdb")) return load_review_tree(path / "aclImdb");
  }
  const SplitFiles files = fs::is_directory(path) ? files_in(path, options.format) : with_siblings(path);
  const bool may_be_table = options.format == SentimentFormat::automatic || options.format == SentimentFormat::table;
  const RecordFormat format = record_format(files.train);
  if (may_be_table && (format == RecordFormat::csv || format == RecordFormat::jsonl)) {
    return load_records(options, files);
  }
  const TextFile train = read_lines(files.train);
  if (options.format == SentimentFormat::automatic) options.format = format_of(train);
  switch (options.format) {
    case SentimentFormat::trees:
    case SentimentFormat::lines:
      return load_treebank(options, files, train);
    case SentimentFormat::imdb:
      return load_packed_reviews(files, train);
    default:
      return load_table(options, files, train);
  }
}

}  // namespace

void add_options(Cli& cli, SentimentOptions& options) {
  cli.option("--data", options.data,
             "file or directory: SST trees or lines, IMDB, sentences and labels as .tsv, .csv or .jsonl (.gz too); or "
             "generated[:train=20000,dev=500,test=2000,seed=1,length=10-20,polar=0.3,not=0.3]")
      .saved_as(lasting_data);
  cli.choice("--format", options.format,
             {{"auto", SentimentFormat::automatic},
              {"trees", SentimentFormat::trees},
              {"lines", SentimentFormat::lines},
              {"table", SentimentFormat::table},
              {"imdb", SentimentFormat::imdb}},
             "the layout of --data; auto: found out from the path and the first line")
      .rare();
  cli.option("--classes", options.classes,
             "the number of classes of SST; 5, or 2 without the neutral texts; default: 2 for SST, otherwise all "
             "labels of the data")
      .at_least(0)
      .rare();
  cli.choice("--phrases", options.phrases, {{"all", Phrases::all}, {"sentences", Phrases::sentences}},
             "SST trees: train on all phrases (each once) or on sentences")
      .rare();
  cli.option("--columns", options.columns,
             "the columns of text and label in a table; by number from 1 or by name: sentence,label, or keys of JSON "
             "lines (.jsonl); text-label and label-text give the order of two columns; auto: found out");
  cli.choice("--header", options.header, {{"auto", Header::automatic}, {"yes", Header::yes}, {"no", Header::no}},
             "whether the first line of a table names the columns")
      .rare();
  add_limits(cli, options);
}

ClassificationData load(const SentimentOptions& options) {
  ClassificationData data =
      is_generated(options.data) ? generate_sentiment(options.data) : load_files(options, existing_data(options.data));
  require(options.classes == 0 || static_cast<std::size_t>(options.classes) == data.classes.size(),
          "{}: {} classes, --classes asks for {}", data.source, data.classes.size(), options.classes);
  data = completed(std::move(data), options);
  SentimentOptions of_tests = options;
  of_tests.phrases = Phrases::sentences;
  add_test_sets(data, options.also_test, [&](const fs::path& path) { return load_files(of_tests, path); });
  return data;
}

}  // namespace fovea
