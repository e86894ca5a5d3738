#include "experiments/support/analysis/classifier_run.h"

#include <algorithm>

#include "attention/engine/attend.h"
#include "autograd/operations.h"
#include "experiments/support/classification/classification_testing.h"

namespace fovea {

namespace {

class ClassifierRun : public AnalyzedRun {
 public:
  ClassifierRun(const std::filesystem::path& run, const ClassificationOptions& options,
                std::function<LabelledTexts()> load, Part part)
      : AnalyzedRun(run),
        options_(options),
        load_(std::move(load)),
        tokenizers_(load_tokenizers(run)),
        classes_(classes_of(run)),
        part_(part) {
    model_ = options_.model.make(options_.model.attention, tokenizers_.source->size(), std::ssize(classes_));
    load_parameters(*model_, run);
    model_->train(false);
  }

  std::size_t size() override { return examples().size(); }
  TextPair texts(std::size_t k) override { return {.source = examples()[k].source, .target = examples()[k].target}; }
  SentenceView sentence(std::size_t k) override { return view(texts(k)); }
  SentenceView text(const std::string& text, const std::optional<std::string>& target) override {
    require(!target, "--target: only with --text of an encoder-decoder");
    check_text("--text", text, *tokenizers_.source);
    return view({.source = text, .target = "", .alignment = {}});
  }
  const Module& model() const override { return *model_; }
  void restart() override { model_->initialise(seed()); }
  std::vector<SpecifiedSubLayer> sub_layers(Place stack) const override {
    if (stack != Place::encoder) return {};
    return {{SubLayer::Kind::attention, options_.model.attention, "--attention"}, {}};
  }

 private:
  const std::vector<TextPair>& examples() {
    if (!data_) {
      data_.emplace(load_(), PairTextOptions{.text = options_.text}, tokenizers_, part_, false);
      warn_of_changed_data(data_->fingerprint());
    }
    return data_->tests.front().texts;
  }

  SentenceView view(const TextPair& pair) {
    EncodedPairs text{.has_labels = true};
    text.append(tokens_of(*tokenizers_.source, pair.source, options_.text.max_length), {});
    const std::vector<int> tokens = tokens_at(text.source, 0);
    const auto length = static_cast<std::int32_t>(tokens.size());
    NoGrad off;
    TracedEquationScope parts;
    std::vector<AttentionTrace> traces;
    const std::vector<double> logits =
        model_
            ->forward(Tensor::from(tokens, {1, length}), Tensor::from(std::vector<std::int32_t>{length}, {1}), &traces)
            .value()
            .to_vector<double>();
    std::vector<std::string> words;
    for (int token : tokens) words.push_back(tokenizers_.source->token(token));
    const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
    SentenceView view{.pair = pair, .attentions = {}, .predicted = classes_.at(static_cast<std::size_t>(best))};
    for (const AttentionTrace& trace : traces) view.attentions.push_back(view_of(trace, Place::encoder, words, words));
    name_methods(view);
    return view;
  }

  ClassificationOptions options_;
  std::function<LabelledTexts()> load_;
  PairTokenizers tokenizers_;
  std::vector<std::string> classes_;
  Part part_;
  std::unique_ptr<EncoderClassifier> model_;
  std::optional<PairData> data_;
};

}  // namespace

std::unique_ptr<AnalyzedRun> open_classifier_run(const std::filesystem::path& run, const ClassificationOptions& options,
                                                 std::function<LabelledTexts()> load, Part part) {
  return std::make_unique<ClassifierRun>(run, options, std::move(load), part);
}

}  // namespace fovea
