#include "experiments/support/data/sentiment_data.h"

#include <algorithm>

#include "experiments/support/data/file_sets.h"
#include "experiments/support/data/generated.h"
#include "experiments/support/data/treebank.h"
#include "experiments/support/program/cli.h"
#include "experiments/support/text/lines.h"
#include "experiments/support/text/number.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"

namespace fovea {

namespace fs = std::filesystem;

namespace {

const std::vector<std::string> review_labels = {"negative", "positive"};

/// The reviews of IMDB's {pos,neg}/*.txt, ordered by the number that starts the name ("12_8.txt"), which no file system
/// changes.
std::vector<TextPair> reviews_in(const fs::path& directory) {
  std::vector<TextPair> pairs;
  for (const int label : {0, 1}) {
    const fs::path folder = directory / (label == 0 ? "neg" : "pos");
    require(fs::is_directory(folder), "{}: no such directory; expected {{train,test}}/{{pos,neg}}/*.txt",
            folder.string());
    std::vector<std::pair<std::int64_t, fs::path>> names;
    for (const auto& entry : fs::directory_iterator(folder)) {
      const fs::path name = entry.path().filename();
      if ((name.extension() == ".gz" ? name.stem() : name).extension() == ".txt")
        names.emplace_back(leading_number<std::int64_t>(name.string()).value_or(0), entry.path());
    }
    require(!names.empty(), "{}: no .txt file; it has {}", folder.string(), contents_of(folder));
    std::sort(names.begin(), names.end());
    for (const auto& [number, path] : names) {
      std::string text = tidy_text(read_text(path, " "));
      require(!text.empty(), "{}: the review is empty", path.string());
      pairs.push_back({.source = std::move(text), .target = review_labels[static_cast<std::size_t>(label)]});
    }
  }
  return pairs;
}

LabelledTexts reviews_of(const fs::path& directory) {
  LabelledTexts data;
  data.labels = review_labels;
  data.source = fmt::format("{}/{{train,test}}/{{pos,neg}}: IMDB", directory.string());
  for (const auto& [name, part] : {std::pair("train", Part::train), std::pair("val", Part::dev),
                                   std::pair("dev", Part::dev), std::pair("test", Part::test)})
    if (data[part].empty() && fs::is_directory(directory / name)) data[part] = reviews_in(directory / name);
  return data;
}

/// The files in the directory itself, or in the part of a distribution that holds them.
SplitFiles files_at(const fs::path& path) {
  if (!fs::is_directory(path)) return split_files(path);
  for (const fs::path& place : {path, path / "trees", path / "classes"}) {
    if (!fs::is_directory(place)) continue;
    if (const SplitFiles files = split_files(place); !files.train.empty()) return files;
  }
  fail(
      "{}: no data set found; looked for train.{{txt,tsv,csv,jsonl}}[.gz] (also *_train.*, trees/, classes/) and for "
      "train/{{pos,neg}}/*.txt; found {}",
      path.string(), contents_of(path));
}

enum class Layout { table, trees, lines };

/// Files whose ending says nothing are known by their first line.
Layout layout_of(const fs::path& file) {
  if (record_format(file) != RecordFormat::lines) return Layout::table;
  LineReader reader(file);
  std::string line;
  while (is_blank(line)) require(reader.next(line), "{}: the file is empty", reader.name());
  const bool is_table = line.find('\t') != std::string::npos, is_line = line.find("|||") != std::string::npos;
  reader.require_here(is_table || line.starts_with('(') || is_line,
                      "neither an SST tree '(3 ...)', nor 'label ||| sentence', nor columns separated by tabs");
  return is_table ? Layout::table : line.starts_with('(') ? Layout::trees : Layout::lines;
}

/// Tables with a column `subset` and labels 0 and 1 are IMDB's.
void name_reviews(LabelledTexts& data, const fs::path& file) {
  const std::vector<std::string> names = first_fields(file, table_format(file));
  if (data.labels != std::vector<std::string>{"0", "1"} || std::ranges::count(names, "subset") == 0) return;
  for (std::vector<TextPair>& part : data.parts)
    for (TextPair& pair : part) pair.target = review_labels[pair.target == "1"];
  data.labels = review_labels;
}

LabelledTexts load_files(const SentimentOptions& options, bool all_phrases, const fs::path& path) {
  for (const fs::path& place : {path, path / "aclImdb"})
    if (fs::is_directory(place / "train" / "pos") && fs::is_directory(place / "train" / "neg"))
      return reviews_of(place);
  const SplitFiles files = files_at(path);
  const Layout layout = layout_of(files.train);
  if (layout != Layout::table) return read_treebank(files, layout == Layout::trees, options.classes == 5, all_phrases);
  const bool is_found = options.columns == automatic_columns;
  LabelledTexts data = read_tables(
      files,
      {.names = is_found ? std::vector<std::string>() : split_fields(options.columns), .header = options.header});
  name_reviews(data, files.train);
  return data;
}

}  // namespace

void add_options(Cli& cli, SentimentOptions& options) {
  cli.option("--data", options.data,
             "file or directory: SST trees or lines, IMDB, texts and labels as .tsv, .csv or .jsonl (.gz too); or "
             "generated[:train=20000,dev=500,test=2000,seed=1,length=10-20,polar=0.3,not=0.3]")
      .saved_as(lasting_data);
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
             "lines (.jsonl); auto: found out");
  cli.choice("--header", options.header, header_names, "whether the first line of a table names the columns").rare();
  cli.add(static_cast<ExampleLimits&>(options));
}

LabelledTexts load(const SentimentOptions& options) {
  const bool all_phrases = options.phrases == Phrases::all;
  LabelledTexts data = is_generated(options.data) ? generate_sentiment(options.data)
                                                  : load_files(options, all_phrases, existing_data(options.data));
  require(options.classes == 0 || static_cast<std::size_t>(options.classes) == data.labels.size(),
          "{}: {} different labels ({}), --classes asks for {}", data.source, data.labels.size(),
          first_few(data.labels), options.classes);
  return completed(std::move(data), options, [&](const fs::path& path) { return load_files(options, false, path); });
}

}  // namespace fovea
