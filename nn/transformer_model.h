/// The Transformer (Vaswani et al. 2017), as an encoder-decoder or, with a decoder alone, as a language model.
#pragma once
#include <memory>
#include <optional>

#include "nn/embedding.h"
#include "nn/sequence_model.h"
#include "nn/transformer.h"

namespace fovea {

/// Which of three weights share their parameters: the source embedding, the target embedding and the output layer.
///   none:    no sharing
///   decoder: target embedding and output layer share one table
///   all:     all three share one table; source and target must then have one vocabulary
enum class Tied { none, decoder, all };

struct TransformerModelOptions {
  std::int64_t source_vocabulary = 0;  ///< number of source tokens; 0 for a language model, which has no encoder
  std::int64_t vocabulary = 0;         ///< V, number of target tokens
  TransformerOptions encoder = {}, decoder = {};
  Tied tied = Tied::all;
  Positions positions = Positions::sinusoidal;
  std::int64_t longest = 512;   ///< number of positions, if they are learned
  bool embedding_norm = false;  ///< whether to apply a norm, of the decoder's kind, to embedding + position
  Embedding::Options embedding = {.padding = 0, .scale = true};
  bool output_bias = false;  ///< whether a bias, which starts at 0, is added to the logits
};

/// Encoder and decoder read dropout(sqrt(d) · embedding + position), without the factor sqrt(d) if the embedding is not
/// scaled. logits = states · outputᵀ, plus output_bias [V] if there is one. Parts (sub-modules): source_embedding
/// (unless tied), target_embedding, encoder, decoder, output (unless tied), and for source and target positions, norm
/// and dropout.
class TransformerModel : public SequenceModel {
 public:
  /// Throws Error if source and target share a table but have vocabularies of different sizes, or if encoder and
  /// decoder have different widths.
  TransformerModel(const TransformerModelOptions& options, const SubLayers& encoder, const SubLayers& decoder);
  /// Constructs a language model. options.source_vocabulary should be 0.
  TransformerModel(const TransformerModelOptions& options, const SubLayers& decoder)
      : TransformerModel(options, {}, decoder) {}

  std::int64_t vocabulary() const override { return target_.table.weight().size(0); }
  bool has_source() const override { return encoder_ != nullptr; }
  DecoderState start(const Tensor& source, const Tensor& lengths, std::vector<AttentionTrace>* traces) override;
  Variable step(DecoderState& state, const Tensor& tokens, std::vector<AttentionTrace>* traces) override;

 private:
  /// The input layer of a stack: embedding, position encoding, norm and dropout.
  struct InputLayer {
    InputLayer(const TransformerModelOptions& options, std::int64_t vocabulary, std::int64_t dim, double dropout);
    Variable states(const Embedding& table, const Tensor& tokens, std::int64_t begin);

    Embedding table;
    PositionEncoding positions;
    std::unique_ptr<NormLayer> norm;
    Dropout dropout;
  };

  void register_input(const std::string& name, InputLayer& input, bool own_table);
  Variable encode(const Tensor& source, const Tensor& lengths, std::vector<AttentionTrace>* traces);
  Variable states(const SequenceBatch& batch, SequenceTrace* trace) override;
  Output output() const override;

  Tied tied_;
  std::unique_ptr<InputLayer> source_;
  std::unique_ptr<TransformerStack> encoder_;
  InputLayer target_;
  TransformerStack decoder_;
  std::optional<Linear> output_;
  Variable output_bias_;  ///< [V]; undefined without TransformerModelOptions::output_bias
};

}  // namespace fovea
