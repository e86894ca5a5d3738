#include "nn/sequence_model.h"

namespace fovea {

bool looks_at_source(const AttentionTrace& trace) {
  return trace.name == "attention" || trace.name.find(".cross") != std::string::npos;
}

void check_tokens(const char* what, const Tensor& tokens, const Tensor& lengths) {
  require(tokens.defined() && tokens.rank() == 2, "{}: the tokens are {}, not [B, T]", what, tokens);
  require(!lengths.defined() || (lengths.rank() == 1 && lengths.size(0) == tokens.size(0)),
          "{}: the lengths are {}, the tokens {}; there must be one for each of the {} sentences", what, lengths,
          tokens, tokens.size(0));
}

}  // namespace fovea
