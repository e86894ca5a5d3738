/// The vocabularies of models of Hugging Face (program/hugging_face.h).
#pragma once
#include <filesystem>
#include <memory>
#include <vector>

#include "experiments/support/data/vocabulary.h"

namespace fovea {

/// A vocabulary in our order, which has the four special tokens first.
struct HuggingFaceVocabulary {
  std::unique_ptr<Tokenizer> tokenizer;
  /// For each of our tokens the row of the model's tables; -1: it has none. <s> can have the row of another special
  /// token: T5 begins with its padding, GPT-2 with the token that ends texts.
  std::vector<std::int64_t> rows;
};

/// Reads the vocabulary in a model's folder: vocab.txt of BERT, vocab.json with merges.txt of GPT-2, or a
/// tokenizer.json of them; spiece.model of T5. Throws Error, with the file, where it is missing, and where it does not
/// fit config.json.
HuggingFaceVocabulary hugging_face_vocabulary(const std::filesystem::path& folder);

}  // namespace fovea
