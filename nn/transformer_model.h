/// The Transformer as a whole: an encoder-decoder, or a decoder alone (a language model).
#pragma once
#include <memory>
#include <optional>

#include "nn/embedding.h"
#include "nn/sequence_model.h"
#include "nn/transformer.h"

namespace fovea {

/// Which tables of the source's tokens, the target's tokens and the output are one: none; the target's and the
/// output's; all three (one vocabulary).
enum class Tied { none, decoder, all };

struct TransformerModelOptions {
  std::int64_t source_vocabulary = 0;  ///< 0: a language model, without an encoder
  std::int64_t vocabulary = 0;         ///< of the target
  TransformerOptions encoder = {}, decoder = {};
  Tied tied = Tied::all;
  Positions positions = Positions::sinusoidal;
  std::int64_t longest = 512;   ///< learned positions
  bool embedding_norm = false;  ///< a norm of embeddings and positions
  Embedding::Options embedding = {.padding = 0, .scale = true};
};

/// embedding · sqrt(d) + positions, dropout, the stacks; logits = states · the output's table, without a bias. Parts:
/// source_embedding (unless tied), target_embedding, encoder, decoder, output (unless tied).
class TransformerModel : public SequenceModel {
 public:
  TransformerModel(const TransformerModelOptions& options, const SubLayers& encoder, const SubLayers& decoder);
  /// A language model.
  TransformerModel(const TransformerModelOptions& options, const SubLayers& decoder)
      : TransformerModel(options, {}, decoder) {}

  std::int64_t vocabulary() const override { return target_.table.weight().size(0); }
  bool has_source() const override { return encoder_ != nullptr; }
  DecoderState start(const Tensor& source, const Tensor& lengths, std::vector<AttentionTrace>* traces) override;
  Variable step(DecoderState& state, const Tensor& tokens, std::vector<AttentionTrace>* traces) override;

 private:
  /// Tokens and their positions as the states that a stack reads.
  struct Side {
    Side(const TransformerModelOptions& options, std::int64_t vocabulary, std::int64_t dim, double dropout);
    Variable states(const Embedding& table, const Tensor& tokens, std::int64_t begin);

    Embedding table;
    PositionEncoding positions;
    std::unique_ptr<LayerNorm> norm;
    Dropout dropout;
  };

  void register_side(const std::string& name, Side& side, bool own_table);
  Variable encode(const Tensor& source, const Tensor& lengths, std::vector<AttentionTrace>* traces);
  Variable states(const SequenceBatch& batch, SequenceTrace* trace) override;
  Output output() const override;

  Tied tied_;
  std::unique_ptr<Side> source_;
  std::unique_ptr<TransformerStack> encoder_;
  Side target_;
  TransformerStack decoder_;
  std::optional<Linear> output_;
};

}  // namespace fovea
