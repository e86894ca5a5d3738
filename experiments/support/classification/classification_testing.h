/// What trained classifiers say about texts.
#pragma once
#include <vector>

#include "experiments/support/classification/classification_options.h"
#include "experiments/support/data/sentiment_data.h"
#include "experiments/support/training/record.h"

namespace fovea {

/// The probability of each class for each example, in their order: [examples][classes].
std::vector<std::vector<double>> class_probabilities(EncoderClassifier& model, const EncodedExamples& examples,
                                                     const BatchOptions& batches);

/// The percentage of examples whose most probable class is their label.
double accuracy(EncoderClassifier& model, const EncodedExamples& examples, const BatchOptions& batches);

/// Tests on the test set. Leaves pictures of the attentions in the run's directory.
RunResult test_model(EncoderClassifier& model, const LabelledData& data, const ClassificationOptions& options,
                     const Run& run);

/// Prints the most probable class of each text in the file --label, and with --probabilities those of all classes.
/// `columns` says which column of a table has the texts (TextsToLabel).
void label_texts(const ClassificationOptions& options, const std::string& columns = automatic_columns);

}  // namespace fovea
