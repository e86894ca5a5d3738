/// Models that say what the next token may be: encoder-decoders, and language models, which have no source. Their loss
/// is that of teacher forcing; a decoder asks them step by step.
#pragma once
#include <vector>

#include "nn/attention.h"
#include "nn/loss.h"

namespace fovea {

/// Sentences side by side, padded on the right with token 0.
struct SequenceBatch {
  Tensor source = {}, source_lengths = {};  ///< i32 [B, J] and [B]; undefined for a language model
  Tensor input = {};                        ///< what the decoder reads, i32 [B, T]: <s> and the target but its last
  Tensor lengths = {};                      ///< real tokens of each row of `input`, i32 [B]; undefined: all
};

/// What every attention of one forward pass computed.
struct SequenceTrace {
  std::vector<AttentionTrace> encoder, decoder;
};

/// Whether it is of a decoder's attention that looks at the source: "2.cross", or the one of a recurrent model.
bool looks_at_source(const AttentionTrace& trace);

/// Where decoding stands, for each of R hypotheses: what their sources are, and what has been read so far.
struct DecoderState {
  std::int64_t position = 0;  ///< tokens that every hypothesis has read
  DecoderMemory memory;       ///< whose reorder() re-orders the hypotheses
};

class SequenceModel : public Module {
 public:
  virtual std::int64_t vocabulary() const = 0;  ///< V, of the target
  virtual bool has_source() const = 0;

  /// Teacher forcing: the logits of the token after each of the input's, [B, T, V].
  Variable logits(const SequenceBatch& batch, SequenceTrace* trace = nullptr);

  /// Teacher forcing: Σ of the cross-entropy of the targets [B, T] that are not ignored, without all logits at a time.
  Variable loss(const SequenceBatch& batch, const Tensor& targets, const CrossEntropyOptions& options,
                SequenceTrace* trace = nullptr);

  /// Before the first token, one hypothesis for each source. source i32 [B, J], lengths i32 [B]; both undefined for a
  /// language model, whose first step() says how many hypotheses there are.
  virtual DecoderState start(const Tensor& source, const Tensor& lengths,
                             std::vector<AttentionTrace>* traces = nullptr) = 0;

  /// Reads one token of each hypothesis, i32 [R] → the logits of the next, [R, V].
  virtual Variable step(DecoderState& state, const Tensor& tokens, std::vector<AttentionTrace>* traces = nullptr) = 0;

 protected:
  /// logits = states · weight [n, V] + bias [V], if there is one.
  struct Output {
    Variable weight, bias = {};
  };
  virtual Output output() const = 0;
  /// Teacher forcing: what the output reads, [B, T, n].
  virtual Variable states(const SequenceBatch& batch, SequenceTrace* trace) = 0;
  Variable logits_of(const Variable& states) const;
};

/// Throws unless tokens are [rows, T] and there is a length for each row, or none.
void check_tokens(const char* what, const Tensor& tokens, const Tensor& lengths);

}  // namespace fovea
