/// IMDB: Maas et al. 2011, "Learning Word Vectors for Sentiment Analysis". Binary; `<br />` becomes a space.
#pragma once
#include "experiments/support/data/sentiment_data.h"
#include "experiments/support/text/lines.h"

namespace fovea {

/// Does the directory have train/pos and train/neg?
bool is_review_tree(const std::filesystem::path& directory);

/// The official distribution: {train,test}/{pos,neg}/*.txt, and {val,dev}/{pos,neg} if there is one.
/// A missing dev or test part stays empty.
ClassificationData load_review_tree(const std::filesystem::path& directory);

/// One table a part, under a header with at least label (0 or 1) and text. Where there is no development file, training
/// rows whose column subset says val or dev are the development part. `train` is the content of files.train.
ClassificationData load_packed_reviews(const SplitFiles& files, const TextFile& train);

}  // namespace fovea
