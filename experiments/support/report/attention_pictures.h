/// Where the attentions of a trained classifier look: pictures of a few sentences.
#pragma once
#include <string>
#include <vector>

#include "experiments/support/report/svg.h"
#include "experiments/support/text/vocabulary.h"
#include "experiments/support/training/batches.h"
#include "nn/encoder_classifier.h"

namespace fovea {

/// Examples worth a picture, at most `count`: one of each class in turn, of a length that fits a small map, with a
/// large group (many attractors) before a small one.
std::vector<std::size_t> sentences_to_show(const EncodedExamples& examples, std::size_t count);

/// The first layer, counted from 0, on which a method of the specification acts: what layers=FIRST-LAST says.
int first_layer_of(const std::string& attention);

/// What one layer computed for one sentence.
struct SentencePictures {
  std::vector<HeadMaps> maps;     ///< the weights, with a method's centre and width in them; then its matrices
  std::vector<LineChart> curves;  ///< a method's other numbers, by query
};

/// Runs the model, which is in evaluation mode, on one sentence. The first tokens of a long one are shown.
SentencePictures pictures_of(EncoderClassifier& model, const std::vector<int>& tokens, const Tokenizer& tokenizer,
                             int layer);

}  // namespace fovea
