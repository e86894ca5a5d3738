/// Uses of a trained sequence model: decoding, scoring of given texts, sampling.
#pragma once
#include <filesystem>
#include <string>

#include "experiments/support/models/text_decoding.h"

namespace fovea {

class Cli;
struct SequenceOptions;

enum class Use { training, evaluation, decoding, sampling };

struct TrainedModelOptions {
  std::filesystem::path directory;   ///< --model: the directory of a run
  std::int64_t average = 0;          ///< --average-kept
  std::string evaluated;             ///< --evaluate: the part of the data to test on; empty: none
  std::string decoded, forced;       ///< --decode, --force: files of sources, and of their given translations
  std::filesystem::path alignments;  ///< --alignments: the file for the links of decoded texts
  int n_best = 1;
  bool json = false;     ///< print results as JSON objects instead of tables and lines
  bool profile = false;  ///< --decode: print processor times by Scope

  std::int64_t samples = 0;
  std::string prompt;  ///< "-": each line of standard input
  SamplingOptions sampling = {};

  /// Declares --model, --evaluate, --json; for models that translate --decode, --force, --n-best, --alignments; for
  /// language models --sample, --prompt, ...
  void add_to(Cli& cli, bool translates);
  /// The use that the flags choose. Throws Error for flags that belong to another use.
  Use use(const Cli& cli) const;
  /// The part of the data that --evaluate names.
  Part part() const;

 private:
  bool translates_ = true;
};

/// Warns of flags on the command line that have no effect because nothing is trained. `evaluates`: the model is tested
/// instead, which reads some of them.
void warn_of_training_flags(const Cli& cli, bool evaluates);

/// Decodes each line of --decode by beam search and prints the result; lines that a person types are decoded one by
/// one. With --force, prints instead the log-probability and the number of tokens, </s> included, of each line's given
/// translation. Prints the time to standard error.
void decode_texts(const SequenceOptions& options);

/// Prints --sample texts that begin with --prompt, or, if that is "-", with each line of standard input.
void sample_texts(const SequenceOptions& options);

}  // namespace fovea
