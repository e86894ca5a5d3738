#include "experiments/support/analysis/analyzed_run.h"

#include <set>

#include <fmt/core.h>

#include "attention/engine/attend.h"
#include "experiments/support/models/sequence_testing.h"
#include "experiments/support/report/run_collection.h"
#include "experiments/support/text/words.h"

namespace fovea {

std::string SentenceView::text() const {
  std::string to = pair.target;
  if (!predicted.empty()) to = (to.empty() ? "" : "label " + to + ", ") + "predicted " + predicted;
  return pair.source + (pair.source.empty() || to.empty() ? "" : " → ") + to;
}

const AttentionView& SentenceView::chosen(const AttentionChoice& choice) const {
  const auto find = [&](const std::string& place, bool plain) -> const AttentionView* {
    for (const AttentionView& view : attentions)
      if (name_of(view.place) == place && view.layer == choice.layer && view.number == choice.number &&
          (plain || view.method != "global"))
        return &view;
    return nullptr;
  };
  for (bool plain : {false, true})
    for (const char* place : {"cross", "encoder", "decoder"})
      if (choice.place == "any" || choice.place == place)
        if (const AttentionView* view = find(place, plain)) return *view;
  std::string titles;
  for (const AttentionView& view : attentions) titles += (titles.empty() ? "" : "; ") + view.title();
  std::string flags;  // those that are not at their defaults
  if (choice.place != "any") flags += " --place " + choice.place;
  if (choice.layer != 1) flags += fmt::format(" --layer {}", choice.layer);
  if (choice.number != 1) flags += fmt::format(" --sub-layer {}", choice.number);
  fail("{}: the model has no such attention; it has {}", flags.empty() ? "--layer 1" : flags.substr(1), titles);
}

std::string title_of_run(const std::filesystem::path& run) {
  const RunResult result = load_result(run).value_or(RunResult{.directory = run});
  return title_of(result) + (result.trial.empty() ? "" : " " + result.trial);
}

std::unique_ptr<AnalyzedRun> AnalyzedRun::open(const std::filesystem::path& run, Part part,
                                               const std::vector<std::string>& flags) {
  const Task& task = task_of(run);
  load_result(run, true);  // throws if a file has changed since the run was finished
  return task.open(run, part, flags);
}

const PairSet& AnalyzedRun::set() {
  static std::set<std::filesystem::path> warned;
  if (data_) return data_->tests.front();
  data_.emplace(read(part_));
  const std::string changes =
      std::filesystem::exists(run_ / "data.json") ? data_changes(run_, data_->fingerprint()) : "";
  if (!changes.empty() && warned.insert(run_).second)
    fmt::print(stderr, "warning: {}: the data have changed since the training: {}\n", run_.string(), changes);
  return data_->tests.front();
}

TextPair AnalyzedRun::texts(std::size_t k) {
  // with --block, a language model's texts are blocks of several lines
  return set().texts.size() == set().pairs.size() ? set().texts[k] : TextPair{};
}

void AnalyzedRun::name_methods(SentenceView& sentence) const {
  for (AttentionView& view : sentence.attentions) {
    int number = view.number;
    for (const SpecifiedSubLayer& layer : sub_layers(view.place == Place::encoder ? Place::encoder : Place::decoder))
      if (!layer.specification.empty() && (layer.kind == SubLayer::Kind::cross) == (view.place == Place::cross) &&
          --number == 0)
        view.method = layer.specification;
  }
}

void AnalyzedRun::check_text(const std::string& flag, const std::string& text, const Tokenizer& tokenizer) {
  const std::size_t invalid = invalid_utf8(text);
  require(invalid == std::string::npos, "{}: not UTF-8: byte {}", flag, invalid + 1);
  require(!split_words(text).empty(), "{}: has no words", flag);
  note_unknown_words(flag, text, tokenizer);
}

void AnalyzedRun::begin_again(Module& model) const {
  const std::optional<RunResult> result = load_result(run_);
  require(result.has_value(), "{}: the run is not finished; its seed is not known", run_.string());
  model.initialise(result->seed);
  if (const std::string given = text_at(result->configuration, "init"); !given.empty()) load_parameters(model, given);
}

SentenceView AnalyzedRun::sentence(std::size_t k) {
  require(k < size(), "--sentence {}: there are {} sentences, counted from 0", k, size());
  return view(set().pairs, k, texts(k));
}

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
  void restart() override { begin_again(*encoder_.model); }
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
  void restart() override { begin_again(*model_); }

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
