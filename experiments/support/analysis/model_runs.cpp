#include "experiments/support/analysis/model_runs.h"

#include "attention/engine/attend.h"
#include "experiments/support/models/sequence_testing.h"

namespace fovea {

namespace {

class EncoderRun : public AnalyzedRun {
 public:
  EncoderRun(const std::filesystem::path& run, AnalyzedEncoder encoder, Part part)
      : AnalyzedRun(run, part), encoder_(std::move(encoder)) {
    encoder_.model->initialise(1);
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
    const std::vector<int> tokens(pairs.source[k].begin(), pairs.source[k].end());
    const auto length = std::int32_t(tokens.size());
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

namespace {

/// A run of an encoder-decoder or a language model.
class SequenceRun : public AnalyzedRun {
 public:
  SequenceRun(const std::filesystem::path& run, SequenceOptions options, Part part)
      : AnalyzedRun(run, part), options_(std::move(options)) {
    options_.trained.directory = run;
    model_ = options_.load_model(tokenizers_);
  }

  SentenceView text(const std::string& text, const std::optional<std::string>& target) override {
    TextPair pair{.source = text, .target = target.value_or(""), .alignment = {}};
    if (!model_->has_source()) pair = {.source = "", .target = text, .alignment = {}};
    check_text("--text", text, model_->has_source() ? *tokenizers_.source : *tokenizers_.target);
    if (target && !target->empty()) check_text("--target", *target, *tokenizers_.target);
    const std::int64_t longest = options_.data.text.max_length;
    EncodedPairs pairs;
    const auto source = model_->has_source() ? tokens_of(*tokenizers_.source, text, longest) : std::vector<int>();
    if (model_->has_source() && !target) {
      EncodedPairs alone;
      alone.append(source, {});
      pair.target = decode(*model_, alone, tokenizers_, options_.beam).front().texts.front();
    }
    pairs.append(source, tokenizers_.target->encode(pair.target));
    return view(pairs, 0, pair);
  }

  const Module& model() const override { return *model_; }
  void restart() override { model_->initialise(seed()); }

  std::vector<SpecifiedSubLayer> sub_layers(Place stack) const override {
    return options_.model.sub_layers(stack, model_->has_source());
  }

 private:
  PairData read(Part part) override { return {options_.data, tokenizers_, part, false}; }

  SentenceView view(const EncodedPairs& pairs, std::size_t k, const TextPair& pair) override {
    const ShownPair shown = shown_pair(pairs, tokenizers_, k, model_->has_source());
    NoGrad off;
    TracedEquationScope parts;
    SequenceTrace trace;
    model_->logits(shown.batch, &trace);
    SentenceView view{.pair = pair, .attentions = {}};
    for (const AttentionTrace& each : trace.encoder)
      view.attentions.push_back(view_of(each, Place::encoder, shown.source, shown.source));
    for (const AttentionTrace& each : trace.decoder) {
      const bool crosses = looks_at_source(each);
      view.attentions.push_back(view_of(each, crosses ? Place::cross : Place::decoder,
                                        crosses ? shown.output : shown.input, crosses ? shown.source : shown.input));
    }
    name_methods(view);
    return view;
  }

  SequenceOptions options_;
  std::unique_ptr<SequenceModel> model_;
};

}  // namespace

std::unique_ptr<AnalyzedRun> open_sequence_run(const std::filesystem::path& run, SequenceOptions options, Part part) {
  return std::make_unique<SequenceRun>(run, std::move(options), part);
}

}  // namespace fovea
