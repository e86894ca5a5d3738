/// What is done with a trained sequence model in place of training: texts are decoded, forced, sampled.
#pragma once
#include <filesystem>
#include <memory>
#include <string>

#include "experiments/support/sequence/sequence_models.h"
#include "experiments/support/sequence/text_decoding.h"

namespace fovea {

class Cli;

enum class Use { training, evaluation, decoding, sampling };

struct TrainedModelOptions {
  std::filesystem::path directory;   ///< --model: a run's
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

 private:
  bool translates_ = true;
};

/// The parameters of a .safetensors file, or of the best model in a run's directory.
void load_parameters(Module& model, const std::filesystem::path& from);

/// How much of a text a model reads, in tokens.
struct ReadingLimits {
  std::int64_t cut = 0;   ///< the first ones of a source; 0: all
  std::int64_t most = 0;  ///< there are positions for, of any text with padding and </s>; 0: for all
};

/// Prints what beam search finds for each line of options.decoded; lines that are typed are decoded one by one. Or,
/// with options.forced, the log-probability and the number of tokens, </s> among them, of each line's translation
/// there. What it took goes to standard error.
void decode_texts(SequenceModel& model, const PairTokenizers& tokenizers, const TrainedModelOptions& options,
                  const BeamFlags& flags, const ReadingLimits& limits);

/// Prints options.samples lines that begin with the prompt, or with each line of standard input.
void sample_texts(SequenceModel& model, const Tokenizer& tokenizer, const TrainedModelOptions& options,
                  std::uint64_t seed);

}  // namespace fovea
