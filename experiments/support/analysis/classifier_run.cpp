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
                std::function<ClassificationData()> load, Part part)
      : AnalyzedRun(run),
        options_(options),
        load_(std::move(load)),
        tokenizer_(load_tokenizer(run)),
        classes_(classes_of(run)),
        part_(part) {
    model_ = options_.model.make(options_.model.attention, tokenizer_->size(), std::ssize(classes_));
    load_parameters(*model_, run);
    model_->train(false);
  }

  std::size_t size() override { return examples().size(); }
  TextPair texts(std::size_t k) override {
    return {.source = examples()[k].text,
            .target = data_->classes[static_cast<std::size_t>(examples()[k].label)],
            .alignment = {}};
  }
  SentenceView sentence(std::size_t k) override { return view(texts(k)); }
  SentenceView text(const std::string& text, const std::optional<std::string>& target) override {
    require(!target, "--target: only with --text of an encoder-decoder");
    check_text("--text", text, *tokenizer_);
    return view({.source = text, .target = "", .alignment = {}});
  }
  const Module& model() const override { return *model_; }
  void restart() override { model_->initialise(seed()); }
  std::vector<SpecifiedSubLayer> sub_layers(Place stack) const override {
    if (stack != Place::encoder) return {};
    return {{SubLayer::Kind::attention, options_.model.attention, "--attention"}, {}};
  }

 private:
  const std::vector<Example>& examples() {
    const bool is_new = !data_;
    if (is_new) data_ = load_();
    const std::vector<Example>& read = part_ == Part::train ? data_->train
                                       : part_ == Part::dev ? data_->dev
                                                            : data_->test;
    if (is_new)
      warn_of_changed_data({{part_ == Part::train ? "train"
                             : part_ == Part::dev ? "dev"
                                                  : "test",
                             fingerprint_of(read, encode(read, *tokenizer_, options_.text.max_length))},
                            {"classes", data_->classes}});
    return read;
  }

  SentenceView view(const TextPair& pair) {
    const Example example{.text = pair.source};
    const std::vector<int> tokens = encode({&example, 1}, *tokenizer_, options_.text.max_length).tokens[0];
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
    for (int token : tokens) words.push_back(tokenizer_->token(token));
    const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
    SentenceView view{.pair = pair, .attentions = {}, .predicted = classes_.at(static_cast<std::size_t>(best))};
    for (const AttentionTrace& trace : traces) view.attentions.push_back(view_of(trace, Place::encoder, words, words));
    name_methods(view);
    return view;
  }

  ClassificationOptions options_;
  std::function<ClassificationData()> load_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::vector<std::string> classes_;
  Part part_;
  std::unique_ptr<EncoderClassifier> model_;
  std::optional<ClassificationData> data_;
};

}  // namespace

std::unique_ptr<AnalyzedRun> open_classifier_run(const std::filesystem::path& run, const ClassificationOptions& options,
                                                 std::function<ClassificationData()> load, Part part) {
  return std::make_unique<ClassifierRun>(run, options, std::move(load), part);
}

}  // namespace fovea
