#include "experiments/support/data/agreement_data.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>

#include "experiments/support/data/generated.h"
#include "experiments/support/data/records.h"
#include "experiments/support/data/split_mix.h"
#include "experiments/support/program/program.h"
#include "experiments/support/text/lines.h"
#include "experiments/support/text/number.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"

namespace fovea {

namespace fs = std::filesystem;

namespace {

/// The columns of a line as Python's csv module writes them: a field may stand between quotes, with quotes doubled.
/// A field that starts with a quote that is not closed before a tab is taken as it stands.
std::vector<std::string> quoted_columns(std::string_view line) {
  std::vector<std::string> columns;
  for (std::size_t at = 0; at <= line.size();) {
    std::string field;
    std::size_t end = std::string_view::npos;
    if (at < line.size() && line[at] == '"') {
      std::size_t i = at + 1;
      while (i < line.size() && (line[i] != '"' || (i + 1 < line.size() && line[i + 1] == '"'))) {
        field += line[i];
        i += line[i] == '"' ? 2 : 1;
      }
      if (i < line.size() && (i + 1 == line.size() || line[i + 1] == '\t')) end = i + 1;
    }
    if (end == std::string_view::npos) {
      end = std::min(line.find('\t', at), line.size());
      field = line.substr(at, end - at);
    }
    columns.push_back(std::move(field));
    at = end + 1;
  }
  return columns;
}

std::vector<std::string> plain_columns(std::string_view line) {
  const auto columns = split_columns(line);
  return {columns.begin(), columns.end()};
}

/// The positions of the columns that are read.
struct AgreementColumns {
  bool linzen = false;  ///< Linzen's file: quoted fields, verb positions from 1
  std::size_t count = 0, sentence = 0, verb = 0, number = 0;
  std::optional<std::size_t> attractors, intervening;
};

AgreementColumns columns_of(const LineReader& reader, std::string_view header) {
  const auto names = plain_columns(header);
  const auto position = [&](std::string_view name) -> std::optional<std::size_t> {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) return std::nullopt;
    return static_cast<std::size_t>(found - names.begin());
  };
  AgreementColumns columns;
  columns.count = names.size();
  columns.linzen = position("verb_index").has_value();
  const auto sentence = position("sentence"), verb = position(columns.linzen ? "verb_index" : "verb_idx"),
             number = position(position("label") ? "label" : "verb_pos");
  if (!sentence || !verb || !number) {
    reader.fail_here(
        "the columns are '{}', expected a header with sentence, verb_index (from 1) and verb_pos, as in "
        "agr_50_mostcommon_10K.tsv, or sentence, verb_idx (from 0) and label, as in sva_train.tsv",
        header.substr(0, 80));
  }
  const std::string repeated = repeated_name(names);
  reader.require_here(repeated.empty(), "{}", repeated);
  columns.sentence = *sentence;
  columns.verb = *verb;
  columns.number = *number;
  columns.attractors = position(columns.linzen ? "n_diff_intervening" : "n_attractors");
  columns.intervening = position("n_intervening");
  return columns;
}

std::int64_t integer(const LineReader& reader, const std::string& text, const char* column) {
  const auto value = number<std::int64_t>(text);
  reader.require_here(value.has_value(), "{} '{}', expected an integer", column, text);
  return *value;
}

int number_label(const LineReader& reader, const std::string& text) {
  if (text == "SING" || text == "VBZ") return 0;
  if (text == "PLUR" || text == "VBP") return 1;
  reader.fail_here("number '{}', expected SING or VBZ (singular), PLUR or VBP (plural)", text);
}

/// The words before the verb.
std::string prefix(const LineReader& reader, std::string_view sentence, std::int64_t verb) {
  const auto words = split_words(sentence);
  reader.require_here(verb >= 1 && verb < static_cast<std::int64_t>(words.size()),
                      "the verb is word {} (from 0) of a sentence of {} words, expected 1 to {}", verb, words.size(),
                      static_cast<std::int64_t>(words.size()) - 1);
  return join_words(std::span(words).first(static_cast<std::size_t>(verb)));
}

struct AgreementFile {
  std::vector<Example> sentences;
  bool linzen = false, counts_intervening = false;
};

AgreementFile read_agreement(const fs::path& path) {
  constexpr std::int64_t most_attractors = 4;
  LineReader reader(path);
  std::string line;
  require(reader.next(line), "{}: the file is empty", reader.name());
  const AgreementColumns columns = columns_of(reader, line);
  AgreementFile file{
      .sentences = {}, .linzen = columns.linzen, .counts_intervening = columns.intervening && columns.attractors};
  while (reader.next(line)) {
    if (line.empty()) continue;
    const auto fields = columns.linzen ? quoted_columns(line) : plain_columns(line);
    reader.require_here(fields.size() == columns.count, "{}, expected {} as the header has",
                        counted(fields.size(), "column"), columns.count);
    const std::int64_t verb = integer(reader, fields[columns.verb], "verb position") - (columns.linzen ? 1 : 0);
    const std::int64_t attractors =
        columns.attractors ? integer(reader, fields[*columns.attractors], "number of attractors") : -1;
    const bool reported = attractors >= 0 && attractors <= most_attractors;
    const bool hard = file.counts_intervening
                          ? integer(reader, fields[*columns.intervening], "n_intervening") == attractors
                          : attractors > 0;
    file.sentences.push_back({.text = prefix(reader, fields[columns.sentence], verb),
                              .label = number_label(reader, fields[columns.number]),
                              .group = reported ? static_cast<int>(attractors) : -1,
                              .is_hard = hard});
  }
  return file;
}

/// Adds the sentence to the test part; with `hard_subset`, only if it belongs to that subset.
void add_test(ClassificationData& data, Example& sentence, bool hard_subset) {
  if (sentence.is_hard || !hard_subset) data.test.push_back(std::move(sentence));
}

std::string hard_subset_note(const AgreementFile& file) {
  return file.counts_intervening ? " (test: hard subset, n_intervening = n_diff_intervening)"
                                 : " (test: hard subset, at least one attractor)";
}

/// Linzen's file, shuffled: 9 % train, 1 % dev, the rest test.
void share_out_shuffled(ClassificationData& data, std::vector<Example> sentences, const AgreementOptions& options) {
  SplitMix(static_cast<std::uint64_t>(options.split_seed)).shuffle(std::span(sentences));
  const std::size_t train = sentences.size() * 9 / 100, dev = sentences.size() / 100;
  for (std::size_t i = 0; i < sentences.size(); ++i) {
    if (i < train) data.train.push_back(std::move(sentences[i]));
    if (i >= train && i < train + dev) data.dev.push_back(std::move(sentences[i]));
    if (i >= train + dev) add_test(data, sentences[i], options.hard_subset);
  }
  data.source += fmt::format(" (9 % train, 1 % dev, 90 % test, split seed {})", options.split_seed);
}

/// Files of other layouts without a test file: the test part is the tenth that split_off_missing_parts would take.
void share_out_by_hash(ClassificationData& data, std::vector<Example> sentences, const AgreementOptions& options) {
  for (Example& sentence : sentences) {
    if (split_place(sentence.text) < 0.1) {
      add_test(data, sentence, options.hard_subset);
    } else {
      data.train.push_back(std::move(sentence));
    }
  }
  data.source += " (10 % test split off by hash)";
}

/// sva_{train,dev,test}.tsv, or Linzen's file, in a directory.
SplitFiles files_in(const fs::path& directory) {
  const SplitFiles files = find_split_files(directory);
  if (!files.train.empty()) return files;
  for (const char* name : {"agr_50_mostcommon_10K.tsv", "agr_50_mostcommon_10K.tsv.gz"}) {
    if (fs::exists(directory / name)) return {.train = directory / name, .dev = {}, .test = {}};
  }
  fail("{}: no agreement data found; looked for *train.tsv[.gz] and agr_50_mostcommon_10K.tsv[.gz]; found {}",
       directory.string(), contents_of(directory));
}

ClassificationData load_files(const AgreementOptions& options, const fs::path& path) {
  const SplitFiles files = fs::is_directory(path) ? files_in(path) : with_siblings(path);
  ClassificationData data;
  data.classes = {"singular", "plural"};
  data.group = "attractors";
  data.source = named(files);
  AgreementFile train = read_agreement(files.train);
  std::string note = options.hard_subset ? hard_subset_note(train) : "";
  if (!files.test.empty()) {
    AgreementFile test = read_agreement(files.test);
    if (options.hard_subset) note = hard_subset_note(test);
    for (Example& sentence : test.sentences) add_test(data, sentence, options.hard_subset);
    for (Example& sentence : train.sentences) data.train.push_back(std::move(sentence));
  } else if (train.linzen) {
    share_out_shuffled(data, std::move(train.sentences), options);
  } else {
    share_out_by_hash(data, std::move(train.sentences), options);
  }
  if (!files.dev.empty()) {
    data.dev.clear();
    for (Example& sentence : read_agreement(files.dev).sentences) data.dev.push_back(std::move(sentence));
  }
  data.source += note;
  return data;
}

}  // namespace

void add_options(Cli& cli, AgreementOptions& options) {
  cli.option("--data", options.data,
             "directory or file: sva_{train,dev,test}.tsv, agr_50_mostcommon_10K.tsv (.gz too); or "
             "generated[:train=20000,dev=500,test=2000,seed=1,attractors=4,nouns=150]")
      .saved_as(lasting_data);
  cli.option("--hard-subset", options.hard_subset,
             "test on hard sentences only; those with n_intervening = n_diff_intervening (no noun between subject and "
             "verb, or attractors only); in files without n_intervening: those with an attractor");
  cli.option("--split-seed", options.split_seed,
             "the seed that shuffles Linzen's file before its 9 % / 1 % / 90 % split")
      .at_least(0)
      .rare();
  add_limits(cli, options);
}

ClassificationData load(const AgreementOptions& options) {
  ClassificationData data = is_generated(options.data) ? generate_agreement(options.data, options.hard_subset)
                                                       : load_files(options, existing_data(options.data));
  require(!data.test.empty(), "{}: no test example", data.source);
  data = completed(std::move(data), options);
  add_test_sets(data, options.also_test, [&](const fs::path& path) { return load_files(options, path); });
  return data;
}

}  // namespace fovea
