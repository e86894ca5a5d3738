/// The Stanford Sentiment Treebank.
/// Socher et al. 2013, "Recursive Deep Models for Semantic Compositionality Over a Sentiment Treebank".
#pragma once
#include "experiments/support/data/sentiment_data.h"
#include "experiments/support/text/lines.h"

namespace fovea {

/// Reads trees (options.format = trees: a label 0-4 on every node) or lines `label ||| sentence`. `train` is the
/// content of files.train. With two classes neutral texts are dropped; a file of lines whose labels are only 0 and 1
/// is binary already. Parts without a file stay empty.
ClassificationData load_treebank(const SentimentOptions& options, const SplitFiles& files, const TextFile& train);

}  // namespace fovea
