/// Is a file a SentencePiece model that can be trusted? SentencePiece trusts every one: on a hostile or damaged model
/// it may end the program or read out of bounds.
#pragma once
#include <string>
#include <string_view>

#include "experiments/support/text/vocabulary.h"

namespace fovea {

/// What a model must be for SentencePiece to be trusted with it.
struct CheckedModel {
  Units units = Units::unigram;
  int size = 0;  ///< pieces
};

/// Walks the serialised model (a protocol buffer) and checks lengths, the special pieces, that every other piece is a
/// normal one, not empty, not twice, with a finite score, and that there is no character map. Throws Error, starting
/// with `name`.
CheckedModel check_sentencepiece_model(std::string_view model, const std::string& name);

}  // namespace fovea
