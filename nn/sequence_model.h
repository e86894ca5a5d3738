/// The interface of models that predict the next token: encoder-decoders, and language models, which have no source.
/// They are trained by teacher forcing, on all tokens of a sentence at once, and decode step by step.
///
/// Letters of shapes: B sentences, J source tokens, T target tokens, R hypotheses, V vocabulary, n width of states.
#pragma once
#include <vector>

#include "nn/attention.h"
#include "nn/loss.h"

namespace fovea {

/// A batch of sentences, padded on the right with token 0. Its tensors may lie on the CPU while the model is on a GPU.
struct SequenceBatch {
  /// Source tokens, i32 [B, J], and the number of real tokens in each row, i32 [B]; undefined for a language model.
  Tensor source = {}, source_lengths = {};
  Tensor input = {};    ///< the decoder's input, i32 [B, T]: <s>, then the target without </s>
  Tensor lengths = {};  ///< number of real tokens in each row of `input`, i32 [B]; if undefined, T each
};

/// The intermediate results of all attentions of one forward pass.
struct SequenceTrace {
  std::vector<AttentionTrace> encoder, decoder;
};

/// Whether `trace` belongs to an attention over the source.
bool looks_at_source(const AttentionTrace& trace);

/// The state of step-by-step decoding for R hypotheses.
struct DecoderState {
  std::int64_t position = 0;  ///< number of tokens read so far, the same for all hypotheses
  DecoderMemory memory;       ///< memory.reorder() reorders the hypotheses
};

/// The base class of models that predict the next token.
class SequenceModel : public Module {
 public:
  virtual std::int64_t vocabulary() const = 0;  ///< V, the number of target tokens
  virtual bool has_source() const = 0;          ///< false for a language model

  /// The output layer: logits = states · weight + bias. weight [n, V], bias [V] or undefined.
  struct Output {
    Variable weight, bias = {};
  };
  virtual Output output() const = 0;
  /// Teacher forcing: the states that the output layer reads, [B, T, n]. Fills `trace` unless it is null.
  virtual Variable states(const SequenceBatch& batch, SequenceTrace* trace = nullptr) = 0;

  /// Teacher forcing: returns, for each token of the input, the logits of the token after it, [B, T, V]. Fills `trace`
  /// unless it is null.
  Variable logits(const SequenceBatch& batch, SequenceTrace* trace = nullptr);

  /// Teacher forcing: returns the sum of the cross-entropies of the targets [B, T] that are not options.ignored. Needs
  /// less memory than logits(), because it never holds all logits at once (projected_cross_entropy()). `unsmoothed`
  /// gets the same sum without label smoothing, an f64 scalar on the model's device, unless it is null.
  Variable loss(const SequenceBatch& batch, const Tensor& targets, const CrossEntropyOptions& options,
                Tensor* unsmoothed = nullptr);

  /// Runs the encoder, and returns the decoding state before the first token, with one hypothesis per source. `source`
  /// has the source tokens, i32 [B, J], and `lengths` the number of real tokens of each, i32 [B]. For a language model
  /// source and lengths are undefined, and the first step() determines the number of hypotheses. `traces` gets the
  /// traces of the encoder's attentions, unless it is null.
  virtual DecoderState start(const Tensor& source, const Tensor& lengths,
                             std::vector<AttentionTrace>* traces = nullptr) = 0;

  /// Reads one token of each hypothesis, i32 [R], and advances the state. Returns the logits of the next token, [R, V].
  /// `traces` gets the traces of the decoder's attentions, unless it is null. Throws Error if tokens are not of rank 1.
  virtual Variable step(DecoderState& state, const Tensor& tokens, std::vector<AttentionTrace>* traces = nullptr) = 0;

 protected:
  Variable logits_of(const Variable& states) const;
};

/// Throws Error unless tokens are [B, T] and lengths are [B] or undefined. `what` begins the message.
void check_tokens(const char* what, const Tensor& tokens, const Tensor& lengths);

}  // namespace fovea
