/// Recurrent encoder-decoders around any attention.
///
/// query = previous (Bahdanau et al. 2015; Shu & Nakayama 2017, section 5.1): the last step's state asks
///   c_t = attend(h_{t−1})    h_t = LSTM([c_t; i_t], h_{t−1})           logits = (h_t W_1 + b_1) W_2 + b_2
///   h_{−1} = tanh(b W_0 + b_0), b: the encoder's backward state at the first word; the first cell is 0
///
/// query = current (Luong et al. 2015): this step's state asks, and what is read out is also fed to the next input
///   h_t = LSTM([r_{t−1}; i_t], h_{t−1})    r_t = tanh([attend(h_t); h_t] W_c + b_c)    logits = r_t W_s + b_s
///   h_{−1} and the first cell are the encoder's last ones, r_{−1} = 0
///
/// i_t: embedding of the token read. With several layers the top one asks, and the others go from layer to layer.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "nn/embedding.h"
#include "nn/lstm.h"
#include "nn/sequence_model.h"

namespace fovea {

enum class QueryState { previous, current };

struct RecurrentModelOptions {
  std::int64_t source_vocabulary = 0, vocabulary = 0;
  std::int64_t embedding_dim = 1000;
  /// n: width of the decoder's states. Of the encoder's each direction has n (query = previous), or both together.
  std::int64_t dim = 1000;
  int layers = 1;
  int heads = 1;  ///< of attentions that have heads
  QueryState query = QueryState::previous;
  bool bidirectional = true;       ///< the encoder
  bool input_feeding = true;       ///< query = current: r_{t−1} in the input
  std::int64_t readout_dim = 600;  ///< query = previous: width of h_t W_1; 0: none, logits = h_t W_2 + b_2
  double dropout = 0;              ///< of embeddings, between layers, and before the read-out
  double attention_dropout = 0;
};

class RecurrentModel : public SequenceModel {
 public:
  RecurrentModel(const RecurrentModelOptions& options, const AttentionFactory& attention);

  std::int64_t vocabulary() const override { return options_.vocabulary; }
  bool has_source() const override { return true; }
  DecoderState start(const Tensor& source, const Tensor& lengths, std::vector<AttentionTrace>* traces) override;
  Variable step(DecoderState& state, const Tensor& tokens, std::vector<AttentionTrace>* traces) override;

 private:
  std::int64_t encoder_dim() const;  ///< of one direction
  std::int64_t source_dim() const;   ///< of the encoder's states
  std::int64_t fed_dim() const;      ///< of what the first layer reads beside the embedding

  /// The weights of the first layer's input by what they multiply, [c_t; i_t] or [r_{t−1}; i_t].
  struct InputWeights {
    Variable fed, embedded;
  };
  InputWeights input_weights() const;

  void set_first_states(DecoderState& state, const std::vector<LstmState>& last);
  /// Goes on by the T steps that read embedded [R, T, e] → what is read out of each, [R, T, n].
  Variable run(DecoderState& state, const Variable& embedded, std::vector<AttentionTrace>* traces);
  /// The top state after a step whose first layer's gates are these but for the state's part.
  Variable advance(DecoderState& state, const Variable& input_gates);
  Variable attend(DecoderState& state, const Variable& query, const Variable& embedded, AttentionTrace* trace);
  /// What the output reads of what run() has read out.
  Variable before_output(const Variable& read_out) const;
  /// The trace has one attention, whose queries are the steps.
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
