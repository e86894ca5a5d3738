/// Tables of sentences and labels, separated by tabs or commas, and JSON lines.
#pragma once
#include "experiments/support/data/sentiment_data.h"
#include "experiments/support/text/lines.h"

namespace fovea {

/// Two columns, or more under a header that names one column of sentences and one of labels, or the two that
/// options.columns says. Where options.columns and options.header leave it open, the label is the column with fewer
/// different and shorter values, and the first line is a header if its label occurs nowhere else and it names a column
/// (sentence, label, ...) or is the only one that is not a whole number. Labels are any strings; classes are those of
/// the training file, in the order of their numbers or bytes. `train` is the content of files.train, columns between
/// tabs; parts without a file stay empty.
ClassificationData load_table(const SentimentOptions& options, const SplitFiles& files, const TextFile& train);

/// The same for files of any format of records (records.h). Labels in JSON may also be numbers, true and false.
ClassificationData load_records(const SentimentOptions& options, const SplitFiles& files);

/// Whether a column of this name has sentences ("sentence", "Text"), or labels ("label").
bool names_texts(std::string_view column);
bool names_labels(std::string_view column);

}  // namespace fovea
