#include "experiments/support/analysis/encoder_run.h"

#include "attention/engine/attend.h"

namespace fovea {

namespace {

class EncoderRun : public AnalyzedRun {
 public:
  EncoderRun(const std::filesystem::path& run, AnalyzedEncoder encoder, Part part)
      : AnalyzedRun(run), encoder_(std::move(encoder)), tokenizers_(load_tokenizers(run)), part_(part) {
    load_parameters(*encoder_.model, run);
    encoder_.model->train(false);
  }

  std::size_t size() override { return examples().size(); }
  TextPair texts(std::size_t k) override { return {.source = examples()[k].source, .target = examples()[k].target}; }
  SentenceView sentence(std::size_t k) override { return view(texts(k)); }
  SentenceView text(const std::string& text, const std::optional<std::string>& target) override {
    require(!target, "--target: only with --text of an encoder-decoder");
    check_text("--text", text, *tokenizers_.source);
    return view({.source = text, .target = "", .alignment = {}});
  }
  const Module& model() const override { return *encoder_.model; }
  void restart() override { encoder_.model->initialise(seed()); }
  std::vector<SpecifiedSubLayer> sub_layers(Place stack) const override {
    if (stack != Place::encoder) return {};
    return {{SubLayer::Kind::attention, encoder_.attention, "--attention"}, {}};
  }

 private:
  const std::vector<TextPair>& examples() {
    if (!data_) {
      data_.emplace(encoder_.data(tokenizers_, part_));
      warn_of_changed_data(data_->fingerprint());
    }
    return data_->tests.front().texts;
  }

  SentenceView view(const TextPair& pair) {
    EncodedPairs text{.has_labels = !encoder_.has_end};
    text.append(tokens_of(*tokenizers_.source, pair.source, encoder_.max_length), {});
    const std::vector<int> tokens = tokens_at(text.source, 0);
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
  PairTokenizers tokenizers_;
  Part part_;
  std::optional<PairData> data_;
};

}  // namespace

std::unique_ptr<AnalyzedRun> open_encoder_run(const std::filesystem::path& run, AnalyzedEncoder encoder, Part part) {
  return std::make_unique<EncoderRun>(run, std::move(encoder), part);
}

}  // namespace fovea
