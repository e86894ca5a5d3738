/// The data of a training as token numbers: pairs of texts, texts alone, or texts with labels.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "experiments/support/data/batches.h"
#include "experiments/support/data/parallel_corpus.h"
#include "experiments/support/data/vocabulary.h"
#include "experiments/support/program/json_file.h"
#include "experiments/support/program/run_directory.h"
#include "experiments/support/text/split_mix.h"

namespace fovea {

/// The flags of the data of sequence models.
struct PairDataOptions {
  ParallelCorpusOptions corpus;
  TextOptions text;
  /// Makes the pairs of --data generated[:...].
  std::function<std::unique_ptr<PairSource>(const std::string& specification)> generate;
  bool has_source = true;

  /// Declares the flags of the corpus and of the text. `description` is that of --data.
  void add_to(Cli& cli, const std::string& description);
  /// Opens the data. `trains`: whether the training set must exist.
  std::unique_ptr<PairSource> open(bool trains) const;
};

/// The hash of a part of the data. It depends on the order in which values are added.
class DataHash {
 public:
  void add(std::int64_t value) { hash_ = mix_bits(hash_ * 3 + std::uint64_t(value)); }
  void add(std::string_view text) {
    for (unsigned char byte : text) add(std::int64_t{byte});
  }
  /// {"examples": 20, "hash": "..."}
  Json part(std::size_t examples) const;

 private:
  std::uint64_t hash_ = 0;
};

/// Pairs with the texts they were made from.
struct PairSet {
  std::string name = {};
  EncodedPairs pairs = {};
  std::vector<TextPair> texts = {};  ///< as read from the files
  DataHash hash = {};                ///< of the texts; of labelled texts also of tokens and labels
};

class PairData {
 public:
  PairTokenizers tokenizers;
  EncodedPairs train;
  PairSet dev{"dev"};
  std::vector<PairSet> tests;
  std::vector<std::string> classes;  ///< the labels; empty: the targets are texts
  std::string group;                 ///< what TextPair::group counts

  /// Reads training, development and test sets and prints a line about each. Learns the vocabulary and saves it in
  /// `directory`; if a run continues there, reads it from there. Throws Error if a set is empty, and if the data of a
  /// run have changed.
  PairData(const PairSource& source, const TextOptions& options, const RunDirectory& directory);
  PairData(const PairDataOptions& options, const RunDirectory& directory)
      : PairData(*options.open(true), options.text, directory) {}
  /// Reads one part of the data as the test set (or sets), with the vocabulary of a trained model.
  PairData(const PairSource& source, const TextOptions& options, PairTokenizers tokenizers, Part part, bool prints);
  PairData(const PairDataOptions& options, PairTokenizers tokenizers, Part part, bool prints)
      : PairData(*options.open(false), options.text, std::move(tokenizers), part, prints) {}

  const std::string& description() const { return description_; }
  /// Writes the vocabulary and the fingerprint of the data into a run's directory.
  void save(const std::filesystem::path& directory) const;
  /// Throws Error unless every text fits into a batch.
  void require_fitting(const BatchOptions& batches) const;
  /// The length of the longest pair, in tokens.
  std::int64_t longest() const;
  /// The numbers of tokens of source and target; 0 for the source of a language model.
  std::int64_t source_size() const { return has_source_ ? tokenizers.source->size() : 0; }
  std::int64_t target_size() const { return tokenizers.target->size(); }

  /// The content of data.json: the numbers of pairs and hashes of all texts, tokens and labels. If only one part was
  /// read, its entry alone.
  Json fingerprint() const;

 private:
  bool has_source_ = false;
  Part part_ = Part::test;  ///< the part of `tests`
  DataHash train_hash_;
  std::string description_;
};

/// The differences between the data.json of a run and the parts in `now`, separated by semicolons; empty if there are
/// none.
std::string data_changes(const std::filesystem::path& run, const Json& now);

/// The classes of the data that a run was trained on.
std::vector<std::string> classes_of(const std::filesystem::path& run);

}  // namespace fovea
