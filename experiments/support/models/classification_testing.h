/// Tests and uses of trained classifiers.
#pragma once
#include <vector>

#include "experiments/support/data/sentiment_data.h"
#include "experiments/support/models/classification_options.h"
#include "experiments/support/record/record.h"

namespace fovea {

/// The probability of each class for each text, in their order: [texts][classes].
std::vector<std::vector<double>> class_probabilities(EncoderClassifier& model, const EncodedPairs& texts,
                                                     const BatchOptions& batches);

/// The percentage of texts whose most probable class is their label.
double accuracy(EncoderClassifier& model, const EncodedPairs& texts, const BatchOptions& batches);

/// Tests the model on the test sets and writes pictures of its attentions into the run's directory.
RunResult test_model(EncoderClassifier& model, const PairData& data, const ClassificationOptions& options,
                     const Run& run);

/// Prints the most probable class of each text in the file --label, with --probabilities also the probabilities of all
/// classes. Every line or record is one text, a blank line a blank one; `columns` are those of the training (text and
/// label).
void label_texts(const ClassificationOptions& options, const std::string& columns = automatic_columns);

}  // namespace fovea
