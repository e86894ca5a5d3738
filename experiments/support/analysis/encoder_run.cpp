#include "experiments/support/analysis/encoder_run.h"

#include "attention/engine/attend.h"

namespace fovea {

namespace {

class EncoderRun : public AnalyzedRun {
 public:
  EncoderRun(const std::filesystem::path& run, AnalyzedEncoder encoder, Part part)
      : AnalyzedRun(run, part), encoder_(std::move(encoder)) {
    load_parameters(*encoder_.model, run);
    encoder_.model->train(false);
  }

  SentenceView text(const std::string& text, const std::optional<std::string>& target) override {
    require(!target, "--target: only with --text of an encoder-decoder");
    check_text("--text", text, *tokenizers_.source);
    EncodedPairs pairs{.has_labels = !encoder_.has_end};
    pairs.append(tokens_of(*tokenizers_.source, text, encoder_.max_length), {});
    return view(pairs, 0, {.source = text});
  }
  const Module& model() const override { return *encoder_.model; }
  void restart() override { encoder_.model->initialise(seed()); }
  std::vector<SpecifiedSubLayer> sub_layers(Place stack) const override {
    if (stack != Place::encoder) return {};
    return {{SubLayer::Kind::attention, encoder_.attention, "--attention"}, {}};
  }

 private:
  PairData read(Part part) override { return encoder_.data(tokenizers_, part); }

  SentenceView view(const EncodedPairs& pairs, std::size_t k, const TextPair& pair) override {
    const std::vector<int> tokens = tokens_at(pairs.source, k);
    const auto length = static_cast<std::int32_t>(tokens.size());
    NoGrad off;
    TracedEquationScope parts;
    std::vector<AttentionTrace> traces;
    SentenceView view{.pair = pair, .attentions = {}};
    view.predicted = encoder_.predict(Tensor::from(tokens, {1, length}),
                                      Tensor::from(std::vector<std::int32_t>{length}, {1}), &traces);
    std::vector<std::string> words;
    for (int token : tokens) words.push_back(tokenizers_.source->token(token));
    for (const AttentionTrace& trace : traces) view.attentions.push_back(view_of(trace, Place::encoder, words, words));
    name_methods(view);
    return view;
  }

  AnalyzedEncoder encoder_;
};

}  // namespace

std::unique_ptr<AnalyzedRun> open_encoder_run(const std::filesystem::path& run, AnalyzedEncoder encoder, Part part) {
  return std::make_unique<EncoderRun>(run, std::move(encoder), part);
}

}  // namespace fovea
