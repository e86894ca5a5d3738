/// Generated pairs and small models for tests that call them without a program.
#pragma once
#include <memory>
#include <string>

#include "experiments/support/data/generated.h"
#include "experiments/support/models/sequence_options.h"

namespace fovea {

/// Options of nine pairs to train on, five to test on, and a recurrent model.
inline SequenceOptions small_options(const std::string& attention = "classic(additive)", double dropout = 0) {
  SequenceOptions options;
  options.data.generate = generate_translation;
  options.data.corpus.data = "generated:train=9,dev=5,test=5,phrases=1-2,words=4";
  options.data.text.min_count = 1;
  options.model.architecture = Architecture::recurrent;
  options.model.attention = attention;
  options.model.layers = 1;
  options.model.dropout = dropout;
  options.model.model_dim = 4;
  options.model.embedding_dim = 5;
  options.model.readout_dim = 3;
  return options;
}

/// One part of the pairs: data.tests.front().
inline PairData small_data(const SequenceOptions& options, Part part) {
  return {options.data, train_tokenizers(*options.data.open(true), options.data.text), part, false};
}

inline std::unique_ptr<SequenceModel> small_model(const SequenceOptions& options, const PairTokenizers& tokenizers) {
  auto model = options.model.make(tokenizers.source->size(), tokenizers.target->size());
  model->initialise(3);
  return model;
}

}  // namespace fovea
