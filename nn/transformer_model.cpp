#include "nn/transformer_model.h"

#include <cmath>

#include "autograd/operations.h"

namespace fovea {

TransformerModel::InputLayer::InputLayer(const TransformerModelOptions& options, std::int64_t vocabulary,
                                         std::int64_t dim, double dropout_probability)
    : table(vocabulary, dim, options.embedding),
      positions(options.positions, dim, options.longest),
      norm(options.embedding_norm ? make_norm(options.decoder.norm_kind, dim, options.decoder.norm_epsilon) : nullptr),
      dropout(dropout_probability) {}

Variable TransformerModel::InputLayer::states(const Embedding& embedding, const Tensor& tokens, std::int64_t begin) {
  Variable embedded = positions.forward(embedding.forward(tokens), begin);
  return dropout.forward(norm ? norm->forward(embedded) : embedded);
}

TransformerModel::TransformerModel(const TransformerModelOptions& options, const SubLayers& encoder,
                                   const SubLayers& decoder)
    : tied_(options.tied),
      target_(options, options.vocabulary, options.decoder.model_dim, options.decoder.dropout),
      decoder_(options.decoder, Place::decoder, decoder) {
  if (options.source_vocabulary > 0) {
    require(tied_ != Tied::all || options.source_vocabulary == options.vocabulary,
            "TransformerModel: the source vocabulary has {} tokens, the target's {}; tied=all needs one vocabulary",
            options.source_vocabulary, options.vocabulary);
    require(options.encoder.model_dim == options.decoder.model_dim,
            "TransformerModel: the encoder's states are {} wide, the decoder's {}; they must be equally wide",
            options.encoder.model_dim, options.decoder.model_dim);
    // With tied=all the source uses the target's table. Its own table has one row, and is not registered as a part.
    source_ = std::make_unique<InputLayer>(options, tied_ == Tied::all ? 1 : options.source_vocabulary,
                                           options.encoder.model_dim, options.encoder.dropout);
    encoder_ = std::make_unique<TransformerStack>(options.encoder, Place::encoder, encoder);
    register_input("source", *source_, tied_ != Tied::all);
    child("encoder", *encoder_);
  }
  register_input("target", target_, true);
  child("decoder", decoder_);
  if (tied_ == Tied::none) {
    double deviation = 1 / std::sqrt(static_cast<double>(options.decoder.model_dim));
    child("output", output_.emplace(options.decoder.model_dim, options.vocabulary,
                                    Linear::Options{.bias = false, .initializer = Initializer::normal(deviation)}));
  }
  if (options.output_bias) output_bias_ = parameter("output_bias", {options.vocabulary}, Initializer::zeros());
}

void TransformerModel::register_input(const std::string& name, InputLayer& input, bool own_table) {
  if (own_table) child(name + "_embedding", input.table);
  child(name + "_positions", input.positions);
  if (input.norm) child(name + "_norm", *input.norm);
  child(name + "_dropout", input.dropout);
}

Variable TransformerModel::encode(const Tensor& source, const Tensor& lengths, std::vector<AttentionTrace>* traces) {
  check_tokens("encoder", source, lengths);
  const Embedding& table = tied_ == Tied::all ? target_.table : source_->table;
  return encoder_->forward({.states = source_->states(table, source, 0), .lengths = lengths, .traces = traces});
}

SequenceModel::Output TransformerModel::output() const {
  return {output_ ? output_->weight() : transpose(target_.table.weight(), 0, 1), output_bias_};
}

Variable TransformerModel::states(const SequenceBatch& batch, SequenceTrace* trace) {
  check_tokens("decoder", batch.input, batch.lengths);
  StackInput in{.states = target_.states(target_.table, batch.input, 0), .lengths = batch.lengths};
  if (encoder_) {
    in.source = encode(batch.source, batch.source_lengths, trace ? &trace->encoder : nullptr);
    in.source_lengths = batch.source_lengths;
  }
  if (trace) in.traces = &trace->decoder;
  return decoder_.forward(in);
}

DecoderState TransformerModel::start(const Tensor& source, const Tensor& lengths, std::vector<AttentionTrace>* traces) {
  DecoderState state;
  if (!encoder_) return state;
  state.memory.source_rows(&encoder_, [&] { return encode(source, lengths, traces); });
  if (lengths.defined())
    state.memory.source_rows({&encoder_, 1}, [&] { return Variable(lengths.to(target_.table.weight().device())); });
  return state;
}

Variable TransformerModel::step(DecoderState& state, const Tensor& tokens, std::vector<AttentionTrace>* traces) {
  require(tokens.rank() == 1, "decoder: the tokens of a step are {}; expected one for each hypothesis, [R]", tokens);
  StackInput in{.states = target_.states(target_.table, tokens.unsqueeze(1), state.position),
                .position = state.position,
                .memory = &state.memory,
                .traces = traces};
  DecoderMemory::GroupBySource group(state.memory, !traces && decoder_.has_independent_queries());
  if (encoder_) {
    in.source = state.memory.source_rows(&encoder_);
    if (Variable lengths = state.memory.source_rows({&encoder_, 1}); lengths.defined())
      in.source_lengths = lengths.value();
  }
  ++state.position;
  return logits_of(squeeze(decoder_.forward(in), 1));
}

}  // namespace fovea
