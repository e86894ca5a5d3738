/// Tests and uses of trained classifiers.
#pragma once
#include <vector>

#include "experiments/support/classification/classification_options.h"
#include "experiments/support/data/sentiment_data.h"
#include "experiments/support/training/record.h"

namespace fovea {

/// The probability of each class for each example, in the order of the examples: [examples][classes].
std::vector<std::vector<double>> class_probabilities(EncoderClassifier& model, const EncodedExamples& examples,
                                                     const BatchOptions& batches);

/// The percentage of examples whose most probable class is their label.
double accuracy(EncoderClassifier& model, const EncodedExamples& examples, const BatchOptions& batches);

/// Tests the model on the test set and writes pictures of its attentions into the run's directory.
RunResult test_model(EncoderClassifier& model, const LabelledData& data, const ClassificationOptions& options,
                     const Run& run);

/// Prints the most probable class of each text in the file --label, with --probabilities also the probabilities of all
/// classes. `columns` selects the column of a table that has the texts (TextsToLabel).
void label_texts(const ClassificationOptions& options, const std::string& columns = automatic_columns);

}  // namespace fovea
