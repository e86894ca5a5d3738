#include "experiments/support/analysis/sequence_run.h"

#include "attention/engine/attend.h"
#include "experiments/support/models/sequence_pictures.h"
#include "experiments/support/program/terminal.h"

namespace fovea {

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
    const std::int64_t longest = options_.data.text.text.max_length;
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
