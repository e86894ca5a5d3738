#include "experiments/support/analysis/analyzed_run.h"

#include <algorithm>
#include <set>

#include "attention/engine/attend.h"
#include "autograd/operations.h"
#include "experiments/support/classification/classification_testing.h"
#include "experiments/support/metrics/alignment.h"
#include "experiments/support/program/cli.h"
#include "experiments/support/program/terminal.h"
#include "experiments/support/report/program_options.h"
#include "experiments/support/report/run_collection.h"
#include "experiments/support/sequence/sequence_pictures.h"
#include "experiments/support/text/number.h"
#include "experiments/support/text/words.h"

namespace fovea {

namespace {

/// Parses the run's config.json, and then `flags`, into the options.
template <class Options>
void read_options(Options& options, const std::string& program, const std::filesystem::path& run,
                  const std::vector<std::string>& flags) {
  std::vector<std::string> arguments{"--config", run.string(), "--device", "cpu"};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  parse(options, program, arguments);
  options.training.apply();
}

/// Sets the method of every view: the specification of its place and number.
void name_methods(SentenceView& sentence, const AnalyzedRun& run) {
  for (AttentionView& view : sentence.attentions) {
    int number = view.number;
    for (const AnalyzedRun::SubLayer& part : run.parts(view.place == Place::encoder ? Place::encoder : Place::decoder))
      if (!part.method.empty() && part.crosses == (view.place == Place::cross) && --number == 0)
        view.method = part.method;
  }
}

/// Throws Error unless a text of the user's has words and is UTF-8. Prints a note with the words that the vocabulary
/// does not have.
void check_text(const std::string& flag, const std::string& text, const Tokenizer& tokenizer) {
  const std::size_t invalid = invalid_utf8(text);
  require(invalid == std::string::npos, "{}: not UTF-8: byte {}", flag, invalid + 1);
  require(!split_words(text).empty(), "{}: has no words", flag);
  note_unknown_words(flag, text, tokenizer);
}

/// Prints a warning, once for each run, if the data that were read are not those of the run's data.json.
void warn_of_changed_data(const std::filesystem::path& run, const Json& now) {
  static std::set<std::filesystem::path> warned;
  const std::filesystem::path file = run / "data.json";
  if (!std::filesystem::exists(file)) return;
  const std::string changes = data_changes(file, now);
  if (!changes.empty() && warned.insert(run).second)
    fmt::print(stderr, "warning: {}: the data have changed since the training: {}\n", run.string(), changes);
}

/// The seed of a finished run.
std::uint64_t seed_of(const std::filesystem::path& run) {
  const std::optional<RunResult> result = load_result(run);
  require(result.has_value(), "{}: the run is not finished; its seed is not known", run.string());
  return result->seed;
}

/// A run of an encoder-decoder or a language model.
class SequenceRun : public AnalyzedRun {
 public:
  SequenceRun(const std::filesystem::path& run, Part part)
      : options_(sequence_options(run)), tokenizers_(load_tokenizers(run)), part_(part) {
    options_.trained.directory = run;
    model_ = options_.load_model(tokenizers_);
  }

  std::size_t size() override { return set().pairs.size(); }

  TextPair texts(std::size_t k) override {
    // with --block, a language model's texts are blocks of several lines
    return set().texts.size() == set().pairs.size() ? set().texts[k] : TextPair{};
  }
  SentenceView sentence(std::size_t k) override { return view(set().pairs, k, texts(k)); }

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
  void restart() override { model_->initialise(seed_of(options_.trained.directory)); }

  std::vector<SubLayer> parts(Place stack) const override {
    const SequenceModelOptions& model = options_.model;
    const bool decoder = stack == Place::decoder, translates = model_->has_source();
    const auto or_plain = [](const std::string& method, const char* plain) { return method.empty() ? plain : method; };
    if (model.architecture == Architecture::recurrent)
      return decoder ? std::vector<SubLayer>{{or_plain(model.attention, "classic(additive)"), true}}
                     : std::vector<SubLayer>{};
    if (!decoder && !translates) return {};
    const bool own = decoder && (translates || !model.decoder_attention.empty());
    const std::string method = or_plain(own ? model.decoder_attention : model.attention, "global");
    const SubLayer cross{or_plain(model.cross_attention, "global"), true};
    const bool is_ordered =
        model.block_order_in == Stacks::both || (model.block_order_in == Stacks::decoder) == decoder;
    std::vector<SubLayer> parts;
    for (const std::string& part : parts_of_order(is_ordered ? model.block_order : "attention > feed-forward")) {
      if (part == "cross" && decoder && translates) parts.push_back(cross);
      if (part != "cross") parts.push_back({part == "attention" ? method : part == "feed-forward" ? "" : part});
    }
    const bool crosses = std::any_of(parts.begin(), parts.end(), [](const SubLayer& part) { return part.crosses; });
    if (!decoder || !translates || crosses) return parts;
    // an order that does not name it has it before the last feed-forward layer
    const auto last = std::find_if(parts.rbegin(), parts.rend(), [](const auto& part) { return part.method.empty(); });
    parts.insert(last == parts.rend() ? parts.end() : last.base() - 1, cross);
    return parts;
  }

 private:
  const PairSet& set() {
    if (!data_) {
      data_.emplace(options_.data, options_.batches, tokenizers_, part_, false);
      warn_of_changed_data(options_.trained.directory, data_->fingerprint());
    }
    return data_->tests.front();
  }

  SentenceView view(const EncodedPairs& pairs, std::size_t k, const TextPair& pair) {
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
    name_methods(view, *this);
    return view;
  }

  SequenceOptions options_;
  PairTokenizers tokenizers_;
  Part part_;
  std::unique_ptr<SequenceModel> model_;
  std::optional<PairData> data_;
};

/// A run of `sentiment` or `agreement`.
template <class Data>
class ClassifierRun : public AnalyzedRun {
 public:
  ClassifierRun(const std::string& program, const std::filesystem::path& run, Part part)
      : run_(run), tokenizer_(load_tokenizer(run)), classes_(classes_of(run)), part_(part) {
    read_options(options_, program, run, {});
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
  void restart() override { model_->initialise(seed_of(run_)); }
  std::vector<SubLayer> parts(Place stack) const override {
    return stack == Place::encoder ? std::vector<SubLayer>{{options_.model.attention}, {}} : std::vector<SubLayer>{};
  }

 private:
  const std::vector<Example>& examples() {
    const bool is_new = !data_;
    if (is_new) data_ = load(options_.data);
    const std::vector<Example>& read = part_ == Part::train ? data_->train
                                       : part_ == Part::dev ? data_->dev
                                                            : data_->test;
    if (is_new)
      warn_of_changed_data(run_, {{part_ == Part::train ? "train"
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
    name_methods(view, *this);
    return view;
  }

  std::filesystem::path run_;
  ClassifierOptions<Data> options_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::vector<std::string> classes_;
  Part part_;
  std::unique_ptr<EncoderClassifier> model_;
  std::optional<ClassificationData> data_;
};

}  // namespace

std::string program_of(const std::filesystem::path& run) {
  require(std::filesystem::is_directory(run), "{}: {}", run.string(),
          std::filesystem::exists(run) ? "is a file, expected the directory of a run"
                                       : "there is no such directory of a run");
  require_trained(run, "");
  std::string program;
  const std::filesystem::path file = run / "config.json";
  reading_json(file.string(), [&] { program = load_json(file).at("program").get<std::string>(); });
  return program;
}

SequenceOptions sequence_options(const std::filesystem::path& run, const std::vector<std::string>& flags) {
  const std::string program = program_of(run);
  SequenceOptions options;
  with_flag(run.string(), [&] { options = sequence_defaults(program); });
  read_options(options, program, run, flags);
  return options;
}

std::string title_of_run(const std::filesystem::path& run) {
  const RunResult result = load_result(run).value_or(RunResult{.directory = run});
  return title_of(result) + (result.trial.empty() ? "" : " " + result.trial);
}

std::unique_ptr<AnalyzedRun> AnalyzedRun::open(const std::filesystem::path& run, Part part) {
  const std::string program = program_of(run);
  load_result(run, true);  // throws if a file has changed since the run was finished
  if (program == "sentiment") return std::make_unique<ClassifierRun<SentimentOptions>>(program, run, part);
  if (program == "agreement") return std::make_unique<ClassifierRun<AgreementOptions>>(program, run, part);
  require(program != "tagging",
          "{}: is a run of tagging, whose model is in tagging.cpp; only the models of the other "
          "programs can be opened here",
          run.string());
  return std::make_unique<SequenceRun>(run, part);
}

namespace {

/// Whether two gold links cross: the first word of one side is linked with a later word of the other.
bool has_crossing_links(const TextPair& pair) {
  const std::set<Link> links = parse_alignment(pair.alignment).possible;
  return std::any_of(links.begin(), links.end(), [&](const Link& one) {
    return std::any_of(links.begin(), links.end(),
                       [&](const Link& other) { return one.source < other.source && one.target > other.target; });
  });
}

}  // namespace

std::size_t AnalyzedRun::number_of(const std::string& choice) {
  std::vector<std::pair<std::size_t, std::size_t>> lengths;  // in words, with the number of the sentence
  if (const auto given = number<std::int64_t>(choice)) {
    require(*given >= 0 && *given < static_cast<std::int64_t>(size()),
            "--sentence {}: there are {} sentences, counted from 0", choice, size());
    return static_cast<std::size_t>(*given);
  }
  require(choice == "crossing" || choice == "median" || choice == "longest",
          "--sentence '{}': expected a number from 0, crossing, median or longest", choice);
  for (std::size_t k = 0; k < size(); ++k) {
    const TextPair pair = texts(k);
    if (choice == "crossing" && has_crossing_links(pair)) return k;
    lengths.emplace_back(split_words(pair.source.empty() ? pair.target : pair.source).size(), k);
  }
  require(choice != "crossing" && !lengths.empty(),
          "--sentence {}: none of the {} sentences has gold links that cross; expected another choice", choice, size());
  const auto chosen = choice == "longest" ? lengths.end() - 1 : lengths.begin() + std::ssize(lengths) / 2;
  std::nth_element(lengths.begin(), chosen, lengths.end());
  return chosen->second;
}

}  // namespace fovea
