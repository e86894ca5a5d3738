/// Checks SentencePiece models. SentencePiece itself does not: a hostile or damaged model may make it end the program
/// or read out of bounds.
#pragma once
#include <string>
#include <string_view>

#include "experiments/support/data/vocabulary.h"

namespace fovea {

/// The properties of a model that has passed the checks.
struct CheckedModel {
  Units units = Units::unigram;
  int size = 0;  ///< pieces
};

/// Checks a serialised model (a protocol buffer): its lengths, the special pieces, that every other piece is a normal
/// one, is not empty, occurs once and has a finite score, and that there is no character map. Throws Error, starting
/// with `name`.
CheckedModel check_sentencepiece_model(std::string_view model, const std::string& name);

}  // namespace fovea
