/// LSTM encoder-decoders with any attention.
///
/// query = previous (Bahdanau et al. 2015; Shu & Nakayama 2017, section 5.1): the query is the previous step's state.
///   c_t = attend(h_{t−1})    h_t = LSTM([c_t; i_t], h_{t−1})           logits = (h_t W_1 + b_1) W_2 + b_2
///   h_{−1} = tanh(b W_0 + b_0), where b is the encoder's backward state at the first word. The first cell is 0.
///
/// query = current (Luong et al. 2015): the query is the present step's state. Its read-out r_t is also fed to the next
/// step ("input feeding").
///   h_t = LSTM([r_{t−1}; i_t], h_{t−1})    r_t = tanh([attend(h_t); h_t] W_c + b_c)    logits = r_t W_s + b_s
///   h_{−1} and the first cell are the encoder's final state and cell; r_{−1} = 0.
///
/// h_t is the hidden state of the decoder at step t, c_t the context: the attention's result. i_t is the embedding of
/// the decoder's input token. The formulas show one layer. With several layers, the query is the state of the top
/// layer, and each layer's state is the next layer's input.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "nn/embedding.h"
#include "nn/lstm.h"
#include "nn/sequence_model.h"

namespace fovea {

/// The decoder state that is the attention's query.
enum class QueryState { previous, current };

struct RecurrentModelOptions {
  std::int64_t source_vocabulary = 0, vocabulary = 0;
  std::int64_t embedding_dim = 1000;
  /// n, the width of the decoder's states. With query = previous each direction of the encoder has width n; with
  /// query = current both directions together have width n.
  std::int64_t dim = 1000;
  int layers = 1;
  int heads = 1;  ///< number of attention heads, for multi-head attention only
  QueryState query = QueryState::previous;
  bool bidirectional = true;       ///< the encoder reads in both directions; if false, forward only
  bool input_feeding = true;       ///< with query = current: the decoder's input contains r_{t−1}
  std::int64_t readout_dim = 600;  ///< with query = previous: width of h_t W_1; if 0, logits = h_t W_2 + b_2
  double dropout = 0;              ///< probability, on embeddings, between layers and before the output
  double attention_dropout = 0;    ///< probability, on attention weights
};

/// Parts (sub-modules): source_embedding, encoder, target_embedding, attention, decoder_0, decoder_1, ..., bridge_0,
/// ... (W_0), combine (W_c), readout (W_1), output (W_2 or W_s), dropout.
class RecurrentModel : public SequenceModel {
 public:
  /// Throws Error if options.dim is odd and two directions of the encoder have to share it.
  RecurrentModel(const RecurrentModelOptions& options, const AttentionFactory& attention);

  std::int64_t vocabulary() const override { return options_.vocabulary; }
  bool has_source() const override { return true; }
  DecoderState start(const Tensor& source, const Tensor& lengths, std::vector<AttentionTrace>* traces) override;
  Variable step(DecoderState& state, const Tensor& tokens, std::vector<AttentionTrace>* traces) override;

 private:
  std::int64_t encoder_dim() const;  ///< width of one direction of the encoder
  std::int64_t source_dim() const;   ///< width of the encoder's states
  std::int64_t feed_dim() const;     ///< width of c_t or r_{t−1} in the first layer's input; 0 if it has none

  /// The input weight of the decoder's first layer, split by rows.
  struct InputWeights {
    Variable feed;       ///< rows for c_t or r_{t−1}, [feed_dim, 4 n]; undefined if feed_dim is 0
    Variable embedding;  ///< rows for i_t, [e, 4 n], where e is the width of the embedding
  };
  InputWeights input_weights() const;

  /// Sets h_{−1}, the first cells and r_{−1} in `state`, from the encoder's final states `last`.
  void set_first_states(DecoderState& state, const std::vector<LstmState>& last);
  /// Runs T decoder steps for R hypotheses, with the embedded input tokens `embedded` [R, T, e]. Returns for each step
  /// h_t (query = previous) or r_t (query = current), [R, T, n].
  Variable run(DecoderState& state, const Variable& embedded, std::vector<AttentionTrace>* traces);
  /// Runs one step of all decoder layers. `input_gates` [R, 4 n] is the part of the first layer's gates that depends on
  /// its input. Returns the hidden state of the top layer, [R, n].
  Variable advance(DecoderState& state, const Variable& input_gates);
  /// The attention's result for one query per hypothesis, `query` [R, n]. `embedded` [R, 1, e] is the embedded input
  /// token of the step.
  Variable attend(DecoderState& state, const Variable& query, const Variable& embedded, AttentionTrace* trace);
  /// Computes the output layer's input from the results of run(): dropout, then W_1 if there is one.
  Variable before_output(const Variable& results) const;
  /// SequenceModel::states(). Fills `trace` with one attention, whose dimension of queries counts the decoder's steps.
  Variable states(const SequenceBatch& batch, SequenceTrace* trace) override;
  Output output() const override { return {output_.weight(), output_.bias()}; }

  RecurrentModelOptions options_;
  Embedding source_embedding_, target_embedding_;
  Lstm encoder_;
  std::unique_ptr<Attention> attention_;
  std::vector<std::unique_ptr<Linear>> bridges_;  // W_0 of each layer
  std::vector<std::unique_ptr<LstmCell>> cells_;
  std::optional<Linear> combine_;  // W_c
  std::optional<Linear> readout_;  // W_1
  Linear output_;
  Dropout dropout_;
};

}  // namespace fovea
