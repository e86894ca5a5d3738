/// Uses of a trained sequence model: decoding, scoring of given texts, sampling.
#pragma once
#include <filesystem>
#include <memory>
#include <string>

#include "experiments/support/sequence/text_decoding.h"

namespace fovea {

class Cli;
struct SequenceOptions;

enum class Use { training, evaluation, decoding, sampling };

struct TrainedModelOptions {
  std::filesystem::path directory;   ///< --model: a run's
  std::int64_t average = 0;          ///< --average-kept
  std::string evaluated;             ///< the part of the data that it is tested on; empty: none
  std::string decoded, forced;       ///< files of sources, and of what is to be said of them
  std::filesystem::path alignments;  ///< where the links of what is decoded go
  int n_best = 1;
  bool json = false;  ///< results as objects, in place of tables and lines

  std::int64_t samples = 0;
  std::string prompt;  ///< "-": each line of standard input
  SamplingOptions sampling = {};

  /// Declares --model, --evaluate, --json; --decode, --force, --n-best, --alignments for models that translate,
  /// --sample,
  /// --prompt, ... for language models.
  void add_to(Cli& cli, bool translates);
  /// What the flags ask for. Throws Error where some are there without the one that they belong to.
  Use use(const Cli& cli) const;
  /// The part of the data that --evaluate names.
  Part part() const;

 private:
  bool translates_ = true;
};

/// Prints what beam search finds for each line of --decode; lines that are typed are decoded one by one. With --force,
/// prints instead the log-probability and the number of tokens, </s> among them, of each line's given translation. The
/// time goes to standard error.
void decode_texts(const SequenceOptions& options);

/// Prints --sample texts that begin with --prompt, or with each line of standard input.
void sample_texts(const SequenceOptions& options);

}  // namespace fovea
