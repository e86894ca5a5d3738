/// The Stanford Sentiment Treebank.
/// Socher et al. 2013, "Recursive Deep Models for Semantic Compositionality Over a Sentiment Treebank".
#pragma once
#include "experiments/support/data/labelled_texts.h"

namespace fovea {

/// Reads a tree with a label 0-4 on every node a line, `(3 (2 The) (4 ...))`, or lines `label ||| sentence`. There are
/// five classes, or two without the neutral texts. With `all_phrases` the training part has each phrase of the trees
/// once; the other parts have whole sentences. Parts without a file stay empty.
LabelledTexts read_treebank(const SplitFiles& files, bool has_trees, bool five_classes, bool all_phrases);

}  // namespace fovea
