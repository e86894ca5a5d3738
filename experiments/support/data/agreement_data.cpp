#include "experiments/support/data/agreement_data.h"

#include <algorithm>
#include <span>

#include "experiments/support/data/file_sets.h"
#include "experiments/support/data/generated.h"
#include "experiments/support/program/cli.h"
#include "experiments/support/text/number.h"
#include "experiments/support/text/split_mix.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"

namespace fovea {

namespace fs = std::filesystem;

namespace {

const std::vector<std::string> number_labels = {"singular", "plural"};

struct AgreementFile {
  std::vector<TextPair> sentences = {};
  bool is_linzens = false, counts_intervening = false;
};

std::int64_t integer(const RecordReader& at, const std::string& text, const char* what) {
  const auto value = number<std::int64_t>(text);
  at.require_here(value.has_value(), "{} '{}', expected an integer", what, text);
  return *value;
}

AgreementFile read_agreement(const fs::path& path) {
  constexpr std::int64_t most_attractors = 4;
  enum { sentence, verb, label, attractors, intervening };  // the roles
  const std::vector<std::string> names = first_fields(path, RecordFormat::tsv);
  require(names.empty() || std::ranges::count(names, "sentence") > 0,
          "{}: the columns are {}; expected a header with sentence, verb_index (from 1) and verb_pos, as in "
          "agr_50_mostcommon_10K.tsv, or sentence, verb_idx (from 0) and label, as in sva_train.tsv",
          path.string(), shown(names));
  RecordReader reader(path, RecordFormat::tsv,
                      {{"SENTENCE", {"sentence"}},
                       {"VERB", {"verb_index", "verb_idx"}},  // counted from 1, from 0
                       {"NUMBER", {"label", "verb_pos"}},
                       {"ATTRACTORS", {"n_diff_intervening", "n_attractors"}, false, true},
                       {"NOUNS", {"n_intervening"}, false, true}});
  AgreementFile file{
      .is_linzens = reader.fields()[verb] == "verb_index",
      .counts_intervening = !reader.fields()[attractors].empty() && !reader.fields()[intervening].empty()};
  if (file.is_linzens) reader.read_quotes();
  for (std::vector<std::string> row; reader.next(row);) {
    const auto words = split_words(row[sentence]);
    const std::int64_t place = integer(reader, row[verb], "verb position") - (file.is_linzens ? 1 : 0);
    reader.require_here(place >= 1 && place < std::ssize(words),
                        "the verb is word {} (from 0) of a sentence of {} words, expected 1 to {}", place, words.size(),
                        std::ssize(words) - 1);
    const bool is_plural = row[label] == "PLUR" || row[label] == "VBP";
    reader.require_here(is_plural || row[label] == "SING" || row[label] == "VBZ",
                        "number '{}', expected SING or VBZ (singular), PLUR or VBP (plural)", row[label]);
    const std::int64_t count =
        reader.fields()[attractors].empty() ? -1 : integer(reader, row[attractors], "number of attractors");
    const bool is_reported = count >= 0 && count <= most_attractors;
    file.sentences.push_back(
        {.source = join_words(std::span(words).first(static_cast<std::size_t>(place))),
         .target = number_labels[is_plural],
         .group = is_reported ? static_cast<int>(count) : -1,
         .is_hard = file.counts_intervening ? integer(reader, row[intervening], "n_intervening") == count : count > 0});
  }
  return file;
}

/// sva_{train,dev,test}.tsv, or Linzen's file, in a directory.
SplitFiles files_at(const fs::path& path) {
  SplitFiles files = split_files(path);
  for (const char* name : {"agr_50_mostcommon_10K.tsv", "agr_50_mostcommon_10K.tsv.gz"})
    if (files.train.empty() && fs::exists(path / name)) files.train = path / name;
  if (files.train.empty())
    fail("{}: no agreement data found; looked for *train.tsv[.gz] and agr_50_mostcommon_10K.tsv[.gz]; found {}",
         path.string(), contents_of(path));
  return files;
}

/// Reads all files. A part without one is split off, if that is asked for.
LabelledTexts load_files(const AgreementOptions& options, const fs::path& path, bool splits) {
  const SplitFiles files = files_at(path);
  LabelledTexts data;
  data.labels = number_labels;
  data.groups = "attractors";
  data.source = files.description();
  AgreementFile train = read_agreement(files.train), test;
  if (!files.dev.empty()) data[Part::dev] = read_agreement(files.dev).sentences;
  if (!files.test.empty()) test = read_agreement(files.test);
  if (splits && files.test.empty() && train.is_linzens) {
    SplitMix(static_cast<std::uint64_t>(options.split_seed)).shuffle(std::span(train.sentences));
    const std::size_t size = train.sentences.size(), end_of_train = size * 9 / 100,
                      end_of_dev = end_of_train + size / 100;
    for (std::size_t i = 0; i < size; ++i) {
      const Part part = i < end_of_train ? Part::train : i < end_of_dev ? Part::dev : Part::test;
      if (part != Part::dev || files.dev.empty()) data[part].push_back(std::move(train.sentences[i]));
    }
    data.source += fmt::format(" (9 % train, 1 % dev, 90 % test, split seed {})", options.split_seed);
  } else {
    data[Part::train] = std::move(train.sentences);
    data[Part::test] = std::move(test.sentences);
    if (splits) split_off_missing_parts(data);
  }
  if (!options.hard_subset) return data;
  for (const Part part : all_parts)
    if (part == Part::test || !splits) std::erase_if(data[part], [](const TextPair& pair) { return !pair.is_hard; });
  data.source += (files.test.empty() ? train : test).counts_intervening
                     ? " (test: hard subset, n_intervening = n_diff_intervening)"
                     : " (test: hard subset, at least one attractor)";
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
  cli.add(static_cast<ExampleLimits&>(options));
}

LabelledTexts load(const AgreementOptions& options) {
  LabelledTexts data = is_generated(options.data) ? generate_agreement(options.data, options.hard_subset)
                                                  : load_files(options, existing_data(options.data), true);
  require(!data[Part::test].empty(), "{}: no test example", data.source);
  return completed(std::move(data), options, [&](const fs::path& path) { return load_files(options, path, false); });
}

}  // namespace fovea
