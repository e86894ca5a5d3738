/// The data of the sequence programs as token numbers.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "experiments/support/data/pair_vocabulary.h"
#include "experiments/support/data/parallel_corpus.h"
#include "experiments/support/metrics/alignment.h"
#include "experiments/support/program/json_file.h"
#include "experiments/support/program/run_directory.h"
#include "experiments/support/training/pair_batches.h"
#include "experiments/support/training/same_data.h"

namespace fovea {

/// The flags of the data.
struct PairDataOptions {
  ParallelCorpusOptions corpus;
  PairTextOptions text;
  std::int64_t block =
      0;  ///< language models: lines are joined to texts of about this many tokens; 0: each line is a text
  /// Makes the pairs of --data generated[:...].
  std::function<std::unique_ptr<PairSource>(const std::string& specification)> generate;
  bool has_source = true;

  /// Declares the flags of the corpus and of the text. `description` is that of --data.
  void add_to(Cli& cli, const std::string& description);
  /// Opens the data with one of the test sets. `trains`: whether the training set must exist.
  std::unique_ptr<PairSource> open(const std::string& test_set, bool trains) const;
  /// The names in --test-set; "test" without it.
  std::vector<std::string> test_sets() const;
};

/// Pairs with the texts they were made from.
struct PairSet {
  std::string name;
  EncodedPairs pairs;
  std::vector<TextPair> texts;  ///< as read from the files
  DataHash hash;                ///< of the texts
};

class PairData {
 public:
  PairTokenizers tokenizers;
  EncodedPairs train;
  PairSet dev;
  std::vector<PairSet> tests;

  /// Reads training, development and test sets and prints a line about each. Learns the vocabulary and saves it in
  /// `directory`; if a run continues there, reads it from there. Throws Error if a set is empty, if a text does not fit
  /// into a batch, and if the data of a run have changed.
  PairData(const PairDataOptions& options, const BatchOptions& batches, const RunDirectory& directory);
  /// Reads one part of the data as the test set (or sets), with the vocabulary of a trained model.
  PairData(const PairDataOptions& options, const BatchOptions& batches, PairTokenizers tokenizers, Part part,
           bool prints);

  const std::string& description() const { return description_; }
  /// Writes the vocabulary and the fingerprint of the data into a run's directory.
  void save(const std::filesystem::path& directory) const;
  /// Throws Error, with the pair, unless every target has as many tokens as its source: one tag for each word.
  void require_word_by_word() const;
  /// The length of the longest pair, in tokens.
  std::int64_t longest() const;
  /// The numbers of tokens of source and target; 0 for the source of a language model.
  std::int64_t source_size() const { return has_source_ ? tokenizers.source->size() : 0; }
  std::int64_t target_size() const { return tokenizers.target->size(); }

  /// The content of data.json: the numbers of pairs and hashes of all texts and tokens. If only one part was read, its
  /// entry alone.
  Json fingerprint() const;

 private:
  bool has_source_;
  Part part_ = Part::test;  ///< the part of `tests`
  DataHash train_texts_;
  std::string description_;
};

/// The first `max_length` tokens of the text; 0: all.
std::vector<int> tokens_of(const Tokenizer& tokenizer, const std::string& text, std::int64_t max_length);

/// The gold links of each pair; empty if no pair has any. Throws Error for links to words that the texts do not have.
std::vector<GoldAlignment> gold_alignments(const std::vector<TextPair>& pairs);

}  // namespace fovea
