/// The kinds of tokenizers; vocabulary.h chooses one of them.
#pragma once
#include "experiments/support/data/vocabulary.h"

namespace fovea {

/// The words of the texts that occur min_count times, the most frequent ones if there are more than vocabulary_size.
std::unique_ptr<Tokenizer> train_words(const TextOptions& options, std::span<const std::string_view> texts);

/// Reads the content of a vocabulary.txt, which errors call `name`.
std::unique_ptr<Tokenizer> word_tokenizer(std::string_view content, bool lower_case, const std::string& name);

/// SentencePiece's Unicode normalisation is off: decoded text equals the text that was encoded, with one space between
/// words. Text without spaces (Chinese, Japanese) comes back without spaces.
std::unique_ptr<Tokenizer> train_subwords(const TextOptions& options, std::span<const std::string_view> texts);

/// Reads a serialised SentencePiece model, which errors call `name`.
std::unique_ptr<Tokenizer> subword_tokenizer(std::string model, Units units, bool lower_case, const std::string& name);

}  // namespace fovea
