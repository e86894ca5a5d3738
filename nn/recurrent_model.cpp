#include "nn/recurrent_model.h"

#include "autograd/operations.h"

namespace fovea {

namespace {

LstmOptions encoder_options(const RecurrentModelOptions& options, std::int64_t dim) {
  return {.input_dim = options.embedding_dim,
          .dim = dim,
          .layers = options.layers,
          .bidirectional = options.bidirectional,
          .dropout = options.dropout};
}

/// Joins the traces of T single steps to one trace: the tensors [B, H, 1, ...] of the steps are concatenated to
/// [B, H, T, ...]. For a quantity without a dimension of queries the trace has the tensor of the last step.
AttentionTrace joined_trace(const std::vector<AttentionTrace>& steps, const std::string& name) {
  auto all = [&](auto&& of) {
    std::vector<Variable> pieces;
    for (const AttentionTrace& step : steps) pieces.push_back(of(step));
    const Variable& last = pieces.back();
    return last.rank() >= 3 && last.size(2) == 1 ? concat(pieces, 2) : last;
  };
  AttentionTrace trace;
  trace.name = name;
  trace.place = Place::cross;
  trace.weights = all([](const AttentionTrace& step) { return step.weights; });
  trace.quantities = steps.back().quantities;
  for (std::size_t k = 0; k < trace.quantities.size(); ++k)
    trace.quantities[k].value = all([k](const AttentionTrace& step) { return step.quantities[k].value; });
  return trace;
}

}  // namespace

std::int64_t RecurrentModel::encoder_dim() const {
  bool share_width = options_.query == QueryState::current && options_.bidirectional;
  return share_width ? options_.dim / 2 : options_.dim;
}

std::int64_t RecurrentModel::source_dim() const { return (options_.bidirectional ? 2 : 1) * encoder_dim(); }

std::int64_t RecurrentModel::feed_dim() const {
  if (options_.query == QueryState::previous) return attention_->output_dim();
  return options_.input_feeding ? options_.dim : 0;
}

RecurrentModel::RecurrentModel(const RecurrentModelOptions& options, const AttentionFactory& attention)
    : options_(options),
      source_embedding_(options.source_vocabulary, options.embedding_dim),
      target_embedding_(options.vocabulary, options.embedding_dim),
      encoder_(encoder_options(options, encoder_dim())),
      attention_(attention({.model_dim = options.dim,
                            .heads = options.heads,
                            .place = Place::cross,
                            .dropout = options.attention_dropout,
                            .query_dim = options.dim,
                            .key_dim = source_dim(),
                            .value_dim = source_dim(),
                            .step_dim = options.embedding_dim})),
      output_(options.query == QueryState::previous && options.readout_dim > 0 ? options.readout_dim : options.dim,
              options.vocabulary),
      dropout_(options.dropout) {
  require(options.query == QueryState::previous || !options.bidirectional || options.dim % 2 == 0,
          "RecurrentModel: the two directions of the encoder share its width, {}; it must be even", options.dim);
  child("source_embedding", source_embedding_);
  child("encoder", encoder_);
  child("target_embedding", target_embedding_);
  child("attention", *attention_);
  for (int layer = 0; layer < options.layers; ++layer) {
    std::int64_t in = layer == 0 ? feed_dim() + options.embedding_dim : options.dim;
    cells_.push_back(std::make_unique<LstmCell>(in, options.dim));
    child(fmt::format("decoder_{}", layer), *cells_.back());
    if (options.query == QueryState::current) continue;
    bridges_.push_back(std::make_unique<Linear>(encoder_dim(), options.dim));
    child(fmt::format("bridge_{}", layer), *bridges_.back());
  }
  if (options.query == QueryState::current)
    child("combine", combine_.emplace(attention_->output_dim() + options.dim, options.dim));
  else if (options.readout_dim > 0)
    child("readout", readout_.emplace(options.dim, options.readout_dim));
  child("output", output_);
  child("dropout", dropout_);
}

RecurrentModel::InputWeights RecurrentModel::input_weights() const {
  const Variable& weight = cells_[0]->input_weight();
  std::int64_t feed = feed_dim();
  if (feed == 0) return {{}, weight};
  return {slice(weight, 0, 0, feed), slice(weight, 0, feed, weight.size(0))};
}

void RecurrentModel::set_first_states(DecoderState& state, const std::vector<LstmState>& last) {
  std::size_t directions = options_.bidirectional ? 2 : 1;
  for (std::size_t layer = 0; layer < cells_.size(); ++layer) {
    const LstmState &first = last[layer * directions], &backward = last[(layer + 1) * directions - 1];
    Variable hidden = first.hidden, cell = first.cell;
    if (options_.query == QueryState::previous) {
      hidden = tanh(bridges_[layer]->forward(backward.hidden));
      cell = cells_[layer]->zero_state(hidden.size(0)).cell;
    } else if (options_.bidirectional) {
      hidden = concat({first.hidden, backward.hidden}, 1);
      cell = concat({first.cell, backward.cell}, 1);
    }
    state.memory.step_state(cells_[layer].get()) = hidden;
    state.memory.step_state({cells_[layer].get(), 1}) = cell;
  }
  if (combine_ && options_.input_feeding)
    state.memory.step_state(&combine_) = cells_[0]->zero_state(last[0].hidden.size(0)).hidden;
}

DecoderState RecurrentModel::start(const Tensor& source, const Tensor& lengths, std::vector<AttentionTrace>*) {
  Scope scope = enter();
  check_tokens("encoder", source, lengths);
  LstmOutput encoded = encoder_.forward(dropout_.forward(source_embedding_.forward(source)), lengths);
  DecoderState state;
  state.memory.source_rows(&encoder_, [&] { return dropout_.forward(encoded.states); });
  if (lengths.defined())
    state.memory.source_rows({&encoder_, 1}, [&] { return Variable(lengths.to(encoded.states.device())); });
  set_first_states(state, encoded.last);
  return state;
}

Variable RecurrentModel::attend(DecoderState& state, const Variable& query, const Variable& embedded,
                                AttentionTrace* trace) {
  AttentionInput in;
  in.query = unsqueeze(query, 1);
  in.key = in.value = state.memory.source_rows(&encoder_);
  if (Variable lengths = state.memory.source_rows({&encoder_, 1}); lengths.defined()) in.key_lengths = lengths.value();
  in.key_lengths_are_checked = true;  // the encoder has checked them
  in.query_offset = state.position;
  in.trace = trace;
  in.step_input = embedded;
  in.memory = &state.memory;
  return squeeze(attention_->forward(in), 1);
}

Variable RecurrentModel::advance(DecoderState& state, const Variable& input_gates) {
  Variable below = input_gates;
  for (std::size_t layer = 0; layer < cells_.size(); ++layer) {
    const LstmCell& cell = *cells_[layer];
    Variable &hidden = state.memory.step_state(&cell), &memory_cell = state.memory.step_state({&cell, 1});
    Variable gates = layer == 0 ? below : cell.input_gates(dropout_.forward(below));
    LstmState next = cell.step(gates, {hidden, memory_cell});
    hidden = next.hidden;
    memory_cell = next.cell;
    below = next.hidden;
  }
  return below;
}

Variable RecurrentModel::run(DecoderState& state, const Variable& embedded, std::vector<AttentionTrace>* traces) {
  const InputWeights weights = input_weights();
  std::vector<Variable> words = slices(embedded, 1);
  std::vector<Variable> gates = slices(linear(embedded, weights.embedding, cells_[0]->bias()), 1);
  std::vector<Variable> results;
  std::vector<AttentionTrace> steps(traces ? words.size() : 0);
  for (std::size_t t = 0; t < words.size(); ++t) {
    AttentionTrace* trace = traces ? &steps[t] : nullptr;
    Variable input = squeeze(gates[t], 1), result;
    if (options_.query == QueryState::previous) {
      Variable context = attend(state, state.memory.step_state(cells_.back().get()), words[t], trace);
      result = advance(state, input + matmul(context, weights.feed));
    } else {
      if (weights.feed.defined()) input = input + matmul(state.memory.step_state(&combine_), weights.feed);
      Variable top = advance(state, input);
      result = tanh(combine_->forward(concat({attend(state, top, words[t], trace), top}, 1)));
      if (weights.feed.defined()) state.memory.step_state(&combine_) = result;
    }
    ++state.position;
    results.push_back(unsqueeze(result, 1));
  }
  const Variable all = concat(results, 1);  // throws if there are no steps
  if (traces) *traces = {joined_trace(steps, attention_->name())};
  return all;
}

Variable RecurrentModel::before_output(const Variable& results) const {
  Variable dropped = dropout_.forward(results);
  return readout_ ? readout_->forward(dropped) : dropped;
}

Variable RecurrentModel::states(const SequenceBatch& batch, SequenceTrace* trace) {
  check_tokens("decoder", batch.input, batch.lengths);
  DecoderState state = start(batch.source, batch.source_lengths, nullptr);
  Variable embedded = dropout_.forward(target_embedding_.forward(batch.input));
  return before_output(run(state, embedded, trace ? &trace->decoder : nullptr));
}

Variable RecurrentModel::step(DecoderState& state, const Tensor& tokens, std::vector<AttentionTrace>* traces) {
  require(tokens.rank() == 1, "decoder: the tokens of a step are {}; expected one for each hypothesis, [R]", tokens);
  Scope scope = enter();
  return squeeze(logits_of(before_output(run(state, target_embedding_.forward(tokens.unsqueeze(1)), traces))), 1);
}

}  // namespace fovea
