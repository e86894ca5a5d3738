/// Opens trained models: encoders (classifiers, taggers), encoder-decoders and language models.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "experiments/support/analysis/analyzed_run.h"
#include "experiments/support/data/pair_data.h"
#include "experiments/support/models/sequence_options.h"

namespace fovea {

/// A trained model that reads a text with one encoder.
struct AnalyzedEncoder {
  std::unique_ptr<Module> model;
  std::string attention;        ///< the specification of its layers' attentions
  std::int64_t max_length = 0;  ///< a text's first tokens that the model reads; 0: all
  bool has_end = false;         ///< whether </s> is the last token of a text
  /// Reads the tokens of a text, i32 [1, T], with their number, i32 [1], and fills the traces of the layers. Returns
  /// what the model predicts, for readers: a class, or tags.
  std::function<std::string(const Tensor& tokens, const Tensor& lengths, std::vector<AttentionTrace>* traces)> predict;
  /// Reads a part of the run's data; called when one of its sentences is needed.
  std::function<PairData(const PairTokenizers& tokenizers, Part part)> data;
};

std::unique_ptr<AnalyzedRun> open_encoder_run(const std::filesystem::path& run, AnalyzedEncoder encoder, Part part);

/// Opens a run with these options, those of its config.json.
std::unique_ptr<AnalyzedRun> open_sequence_run(const std::filesystem::path& run, SequenceOptions options, Part part);

}  // namespace fovea
