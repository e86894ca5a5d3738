/// Where the attentions of trained models look: pictures of a few sentences.
#pragma once
#include <string>
#include <vector>

#include "experiments/support/report/html.h"
#include "experiments/support/text/vocabulary.h"
#include "experiments/support/training/batches.h"
#include "nn/encoder_classifier.h"

namespace fovea {

/// How many tokens a text has too few or too many for a small map; 0: it fits.
std::int64_t misfit_of_map(std::int64_t tokens);

/// Examples worth a picture, at most `count`: one of each class in turn, of a length that fits a small map, with a
/// large group (many attractors) before a small one.
std::vector<std::size_t> sentences_to_show(const EncodedExamples& examples, std::size_t count);

/// The first layer, counted from 0, on which a method of the specification acts: what layers=FIRST-LAST says.
int first_layer_of(const std::string& attention);

/// What attentions computed for one sentence.
struct SentencePictures {
  std::vector<HeadMaps> maps;     ///< the weights, with a method's centre and width in them; then its matrices
  std::vector<LineChart> curves;  ///< a method's other numbers, by query
};

/// Of the first sentence that the trace has, with a word for each query and key; the first ones of many are shown. The
/// titles begin with `place` if there is one, "decoder, layer 1".
SentencePictures pictures_of(const AttentionTrace& trace, const std::string& place, std::vector<std::string> queries,
                             std::vector<std::string> keys);

/// Runs the model, which is in evaluation mode, on one sentence.
SentencePictures pictures_of(EncoderClassifier& model, const std::vector<int>& tokens, const Tokenizer& tokenizer,
                             int layer);

/// What a page shows of one model.
struct ModelPictures {
  struct Sentence {
    std::string text;
    SentencePictures pictures;
  };
  std::string title, note;
  std::vector<Sentence> sentences;
};

/// A section with the first sentence of every model, then the second ones, and so on, while they take less than
/// `most_bytes`.
void add_attention_section(Report& report, const std::string& explanation, const std::vector<ModelPictures>& models,
                           std::size_t most_bytes);

}  // namespace fovea
