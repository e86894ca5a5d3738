/// A table of sentences and labels, separated by tabs.
#pragma once
#include "experiments/support/data/sentiment_data.h"
#include "experiments/support/text/lines.h"

namespace fovea {

/// Two columns, or more under a header that names one column of sentences and one of labels. Where options.columns and
/// options.header leave it open, the label is the column with fewer different and shorter values, and the first line is
/// a header if its label occurs nowhere else and it names a column (sentence, label, ...) or is the only one that is no
/// integer. Labels are any strings; classes are those of the training file, in the order of their numbers or bytes.
/// `train` is the content of files.train; parts without a file stay empty.
ClassificationData load_table(const SentimentOptions& options, const SplitFiles& files, const TextFile& train);

}  // namespace fovea
