/// Pairs of texts as a sequence model is trained and tested on them.
#pragma once
#include <vector>

#include "experiments/support/data/pair_vocabulary.h"
#include "experiments/support/data/text_pairs.h"
#include "experiments/support/metrics/alignment.h"
#include "experiments/support/program/json_file.h"
#include "experiments/support/training/pair_batches.h"

namespace fovea {

struct SequenceData {
  PairTokenizers tokenizers;
  EncodedPairs train, dev, test;
  std::vector<TextPair> dev_texts, test_texts;  ///< as they are read

  /// Numbers of pairs and a hash of all tokens: what tells these data from others.
  Json fingerprint() const;
};

struct SequenceLimits {
  std::int64_t max_length = 0;  ///< tokens that are kept of a text, its first ones; 0: all
  std::int64_t block = 0;       ///< language models: lines are joined to texts of about so many tokens; 0: each is one
};

/// The first `max_length` tokens of the text; 0: all.
std::vector<int> tokens_of(const Tokenizer& tokenizer, const std::string& text, std::int64_t max_length);

/// The links of the pairs' words that are known to be right, a set for each; empty where none are known.
std::vector<GoldAlignment> gold_alignments(const std::vector<TextPair>& pairs);

/// Encodes all parts into `data`, whose tokenizers are there. Throws Error where a part is empty, and where a training
/// pair does not fit into a batch.
void encode_parts(SequenceData& data, const PairSource& pairs, const SequenceLimits& limits,
                  const BatchOptions& batches);

/// Encodes one part alone, as the test part. Throws Error where it is empty.
void encode_as_test(SequenceData& data, const PairSource& pairs, Part part, const SequenceLimits& limits,
                    const BatchOptions& batches);

}  // namespace fovea
