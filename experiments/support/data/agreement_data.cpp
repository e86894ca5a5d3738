#include "experiments/support/data/agreement_data.h"

#include <algorithm>
#include <span>

#include "experiments/support/data/file_sets.h"
#include "experiments/support/data/generated.h"
#include "experiments/support/data/records.h"
#include "experiments/support/program/cli.h"
#include "experiments/support/text/number.h"
#include "experiments/support/text/split_mix.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"

namespace fovea {

namespace fs = std::filesystem;

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
                       {"NOUNS", {"n_intervening"}, false, true}});
  require(reader.has_header(),
          "{}: expected a header with sentence, verb_index (from 1) and verb_pos, as in agr_50_mostcommon_10K.tsv, or "
          "sentence, verb_idx (from 0) and label, as in sva_train.tsv",
          path.string());
  const std::vector<std::string>& names = reader.fields();
  const bool is_linzens = names[verb] == "verb_index";
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
