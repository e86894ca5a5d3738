#include "experiments/support/sequence/sequence_experiment.h"

#include <algorithm>
#include <cstdio>

#include <fmt/core.h>

#include "experiments/support/data/generated_options.h"
#include "experiments/support/data/parallel_corpus.h"
#include "experiments/support/metrics/bleu.h"
#include "experiments/support/program/program.h"
#include "experiments/support/training/same_data.h"
#include "nn/shapes_only.h"
#include "tensor/random.h"
#include "tensor/support/atomic_file.h"

namespace fovea {

namespace {

constexpr const char* data_file = "data.json";

void write_lines(const std::filesystem::path& path, const std::vector<std::string>& lines) {
  AtomicFile file(path);
  for (const std::string& line : lines) file.write(line + "\n");
  file.commit();
}

std::vector<std::vector<std::string>> references_of(const std::vector<TextPair>& pairs) {
  std::vector<std::vector<std::string>> references;
  for (const TextPair& pair : pairs) references.push_back({pair.target});
  return references;
}

bool has_learned_positions(const SequenceModelOptions& model) {
  return model.architecture == Architecture::transformer && model.positions == Positions::learned;
}

/// Batches and learned positions end somewhere; better to say so now than when the longest text's turn comes.
void require_room(const SequenceModelOptions& model, const SequenceData& data, const BatchOptions& batches,
                  bool decodes) {
  std::int64_t longest = 0;
  for (const EncodedPairs* pairs : {&data.train, &data.dev, &data.test})
    for (std::int64_t length : pairs->lengths) longest = std::max(longest, length);
  require(fits(longest, batches), "--batch-tokens {}: the longest text has {} tokens: raise it, or make texts shorter",
          batches.tokens, longest);
  const std::int64_t padded = std::max(padded_length(longest, batches), decodes ? decoded_length(longest) : 0);
  require(!has_learned_positions(model) || padded <= model.longest,
          "--max-positions {}: the longest text has {} tokens with its padding: raise it, or set --max-length or "
          "--max-words",
          model.longest, padded);
}

/// Embeddings are worth nothing for other tokens, even for as many.
void require_same_tokens(const std::filesystem::path& run, const PairTokenizers& ours) {
  const PairTokenizers theirs = load_tokenizers(run);
  for (auto side : {&PairTokenizers::source, &PairTokenizers::target}) {
    const Tokenizer &a = *(theirs.*side), &b = *(ours.*side);
    bool same = a.size() == b.size();
    for (int id = 0; same && id < a.size(); ++id) same = a.token(id) == b.token(id);
    require(same, "--init {}: its vocabulary ({}) is not that of these data ({})", run.string(), theirs.description(),
            ours.description());
  }
}

/// What may be said has a shortest and a longest length, and a place for every token.
void require_lengths(const SequenceModelOptions& model, const DecodingOptions& decoding) {
  require(decoding.min_length <= decoding.max_length, "--min-length {}: is more than --longest, {}",
          decoding.min_length, decoding.max_length);
  require(!has_learned_positions(model) || decoding.max_length < model.longest,
          "--longest {}: <s> and so many tokens are more than --max-positions, {}", decoding.max_length, model.longest);
}

}  // namespace

SequenceExperiment::SequenceExperiment(SequenceProgram program) : program_(std::move(program)) {
  if (decodes()) selection_ = Selection::bleu;
  // right for generated texts, of which there are as many as one likes; presets are for others
  training.updates = 3000;
  training.schedule = "cosine(rate=4e-3, warmup=300)";
  batches.tokens = 1024;
  loss.label_smoothing = 0;
}

void SequenceExperiment::add_to(Cli& cli) {
  cli.group("Text");
  cli.add(text);
  if (!decodes())
    cli.option("--block", block, "lines are joined to texts of about so many tokens; 0: each line is a text")
        .at_least(0)
        .unit("tokens");
  cli.comparable(true);
  cli.add(model);
  cli.add(training);
  cli.add(batches);
  cli.add(loss);
  if (decodes()) {
    cli.group("Decoding");
    cli.add(beam);
    cli.choice("--select", selection_,
               {{"loss", Selection::loss}, {"bleu", Selection::bleu}, {"smoothed-bleu", Selection::smoothed_bleu}},
               "what the best model is best in, on the development set; BLEU of greedy decoding");
  }
  cli.option("--init", initial_, "begin with the parameters of this .safetensors file, or of this run's best model")
      .saved_as(lasting_path);
  cli.comparable(false);
  cli.group("Comparison");
  cli.add(comparison_);
  cli.add(directory_);
  cli.group("Testing");
  cli.option("--spread", spread_,
             "measure how much attention lies within as many tokens of the query's own position, or over the source of "
             "the one it looks at most; in percent")
      .range(0, 1e6)
      .unsaved();
  cli.group("Instead of training");
  cli.option("--parameters", parameters_, "print the parameters of each part of the model, and end").unsaved();
  trained_.add_to(cli, decodes());
}

std::unique_ptr<SequenceModel> SequenceExperiment::make_model(const PairTokenizers& tokenizers) const {
  model.require_memory(tokenizers.target->size(), 1);
  return model.make(decodes() ? tokenizers.source->size() : 0, tokenizers.target->size());
}

void SequenceExperiment::check_flags(Cli& cli) const {
  comparison_.check(cli, [&] {
    ShapesOnly instead_of_models;
    loss.require_gates(*model.make(decodes() ? special_tokens : 0, special_tokens));
    if (decodes()) require_lengths(model, beam.beam);
    require(!begins() || initial_.empty() || std::filesystem::exists(initial_),
            "--init {}: there is no such file or directory", initial_.string());
  });
}

/// What some row would be refused for in its turn, when those before it are trained.
void SequenceExperiment::check_with_data(Cli& cli, const SequenceData& data) const {
  comparison_.check(cli, [&] {
    model.require_memory(data.tokenizers.target->size(), 4);
    require_room(model, data, batches, decodes());
    if (initial_.empty() || !begins()) {
      ShapesOnly instead_of_models;
      make_model(data.tokenizers);
    } else {
      if (std::filesystem::is_directory(initial_)) require_same_tokens(initial_, data.tokenizers);
      load_parameters(*make_model(data.tokenizers), initial_);
    }
  });
}

void SequenceExperiment::prepare(SequenceData& data, const PairSource& pairs, const RunDirectory& directory) const {
  fmt::print("{}\n", pairs.description());
  const bool is_known = std::filesystem::exists(directory.file(data_file));
  data.tokenizers = is_known ? load_tokenizers(directory.path()) : train_tokenizers(pairs, text);
  fmt::print("{}\n", data.tokenizers.description());
  encode_parts(data, pairs, {.max_length = text.text.max_length, .block = block}, batches);
  if (const std::string left_out = pairs.left_out(); !left_out.empty()) fmt::print("{}\n", left_out);
  fmt::print("{} pairs to train on, {} to select models, {} to test\n", data.train.size(), data.dev.size(),
             data.test.size());
  std::fflush(stdout);
  if (is_known) {
    require_same_data(directory.file(data_file), data.fingerprint());
  } else {
    data.tokenizers.save(directory.path());
    save_json(directory.file(data_file), data.fingerprint());
  }
}

const char* SequenceExperiment::dev_score_name() const {
  const char* names[] = {"log p", "BLEU", "smoothed BLEU"};
  return names[static_cast<std::size_t>(selection_)];
}

double SequenceExperiment::dev_score(SequenceModel& model, const SequenceData& data) const {
  if (selection_ == Selection::loss) {
    const Likelihood dev = total(likelihoods(model, data.dev, batches));
    return -dev.negative_log / static_cast<double>(dev.tokens);
  }
  BeamFlags greedy = beam;
  greedy.beam.beam = 1;
  std::vector<BleuStatistics> sentences =
      bleu_statistics(best_texts(decode(model, data.dev, data.tokenizers, greedy)), references_of(data.dev_texts));
  return selection_ == Selection::bleu ? bleu(sum(sentences)) : smoothed_sentence_bleu(sentences);
}

/// Leaves the decoded texts in the directory, if there is one.
SequenceTest SequenceExperiment::tested(SequenceModel& model, const SequenceData& data, const RunDirectory* directory,
                                        std::string when_stopped) const {
  SequenceTest test = test_model(model, data,
                                 {.metrics = program_.metrics,
                                  .beam = beam,
                                  .batches = batches,
                                  .max_length = text.text.max_length,
                                  .spread = spread_,
                                  .when_stopped = std::move(when_stopped)});
  if (!directory || !decodes()) return test;
  std::vector<std::string> references;
  for (const TextPair& pair : data.test_texts) references.push_back(pair.target);
  write_lines(directory->file("hypotheses.txt"), test.hypotheses);
  write_lines(directory->file("references.txt"), references);
  return test;
}

SequenceOutcome SequenceExperiment::train_one(const SequenceData& data, const Comparison::Training& which) const {
  std::unique_ptr<SequenceModel> model = make_model(data.tokenizers);
  model->initialise(which.seed);
  if (!initial_.empty() && !std::filesystem::exists(which.run.directory.checkpoint()))
    load_parameters(*model, initial_);
  SequenceTask task(*model, data.train, batches, loss, which.seed, dev_score_name(),
                    [&] { return dev_score(*model, data); });
  SequenceOutcome outcome{.directory = which.run.directory.path(),
                          .seed = which.seed,
                          .parameters = model->parameter_count(),
                          .dev_score = dev_score_name()};
  outcome.training = train(*model, task, training, which.run);
  outcome.test =
      tested(*model, data, &which.run.directory,
             fmt::format("stopped while it was tested; --resume {} tests it again", which.run.resume.string()));
  save_json(which.run.directory.file("result.json"), to_json(which.row.title, outcome));
  return outcome;
}

ReportedSequences SequenceExperiment::reported(Cli& cli, const std::string& description, const SequenceData& data,
                                               const std::vector<ComparedModel>& compared) const {
  ReportedSequences reported{program_.name,      description, data, sequence_table(compared), dev_score_name(), {},
                             cli.configuration()};
  for (const ComparedModel& each : compared) {
    ReportedModel model{.title = each.title};
    for (const SequenceOutcome& run : each.runs) {
      if (run.training->best_score > each.runs[model.best].training->best_score) model.best = model.runs.size();
      model.runs.push_back(run.directory);
      model.scores.push_back(run.test.scores);
      model.scores.back().push_back({"perplexity", perplexity_metric(run.test.sentences, &Likelihood::tokens), 3});
    }
    model.load = [this, &cli, &data, arguments = each.arguments, from = model.runs[model.best]] {
      std::unique_ptr<SequenceModel> trained;
      cli.with(arguments, [&] { trained = make_model(data.tokenizers); });
      load_parameters(*trained, from);
      return trained;
    };
    reported.models.push_back(std::move(model));
  }
  return reported;
}

/// With vocabularies of the sizes that the flags say, for there is no text to learn one from.
void SequenceExperiment::print_parameters() const {
  const std::int64_t source = text.text.vocabulary_size;
  const std::int64_t target = text.joint || text.target_vocabulary_size == 0 ? source : text.target_vocabulary_size;
  require(source > 0, "--parameters: needs --vocabulary-size, and a --target-vocabulary-size where it is another");
  ShapesOnly instead_of_a_model;
  fmt::print("{}", parameter_table(*model.make(decodes() ? source : 0, target)));
}

void SequenceExperiment::train_all(Cli& cli, const Load& load) {
  comparison_.check(cli, [&] { model.require_memory(0, 4); });
  std::unique_ptr<PairSource> pairs = load(true);
  RunDirectory directory = RunDirectory::open(program_.name, directory_, cli.configuration());
  SequenceData data;
  try {
    prepare(data, *pairs, directory);
    check_with_data(cli, data);
  } catch (const Error&) {
    if (directory_.resume.empty()) directory.discard();  // what is refused before the first update leaves nothing
    throw;
  }
  auto fill_part = [&](const RunDirectory& part) {
    data.tokenizers.save(part.path());
    save_json(part.file(data_file), data.fingerprint());
  };
  std::vector<ComparedModel> compared;
  comparison_.run(cli, training.seed, directory, fill_part, [&](const Comparison::Training& which) {
    if (compared.empty() || compared.back().title != which.row.title)
      compared.push_back({which.row.title, which.row.arguments, {}});
    compared.back().runs.push_back(train_one(data, which));
  });
  ReportedSequences reported = this->reported(cli, pairs->description(), data, compared);
  fmt::print("\n{}", reported.table.text());
  write_report(directory.report(), reported);
  fmt::print("report: {}\nrun directory: {}\n", directory.report().string(), directory.path().string());
}

void SequenceExperiment::evaluate(Cli& cli, const Load& load) const {
  require(comparison_.seeds() == 1, "--seeds: is for training; --evaluate tests one model");
  const Part part = trained_.evaluated == "train" ? Part::train : trained_.evaluated == "dev" ? Part::dev : Part::test;
  SequenceData data;
  data.tokenizers = load_tokenizers(trained_.directory);
  std::unique_ptr<PairSource> pairs = load(false);
  encode_as_test(data, *pairs, part, {.max_length = text.text.max_length, .block = block}, batches);
  if (!trained_.json) {
    fmt::print("{}\n", pairs->description());
    if (const std::string left_out = pairs->left_out(); !left_out.empty()) fmt::print("{}\n", left_out);
    fmt::print("{} pairs to test on\n", data.test.size());
    std::fflush(stdout);
  }
  std::optional<RunDirectory> directory;
  if (!directory_.out.empty()) directory = RunDirectory::create(program_.name, directory_.out);
  std::vector<ComparedModel> compared;
  for (const Comparison::Row& row : comparison_.rows(cli))
    cli.with(row.arguments, [&] {
      std::unique_ptr<SequenceModel> model = make_model(data.tokenizers);
      load_parameters(*model, trained_.directory);
      std::optional<RunDirectory> own;
      if (directory && !comparison_.is_alone()) own = directory->part(row.title);
      const RunDirectory* to = own ? &*own : directory ? &*directory : nullptr;
      SequenceOutcome outcome{.seed = training.seed, .parameters = model->parameter_count()};
      outcome.test = tested(*model, data, to, "stopped");
      if (to) save_json(to->file("result.json"), to_json(row.title, outcome));
      compared.push_back({row.title, row.arguments, {std::move(outcome)}});
    });
  if (!trained_.json) return fmt::print("\n{}", sequence_table(compared).text());
  for (const ComparedModel& row : compared) fmt::print("{}\n", to_json(row.title, row.runs.front()).dump());
}

void SequenceExperiment::use_trained(Use use) const {
  if (use == Use::decoding)
    require_lengths(model, beam.beam);
  else
    require_lengths(model, trained_.sampling);
  PairTokenizers tokenizers = load_tokenizers(trained_.directory);
  std::unique_ptr<SequenceModel> model = make_model(tokenizers);
  load_parameters(*model, trained_.directory);
  if (use == Use::decoding)
    decode_texts(*model, tokenizers, trained_, beam,
                 {.cut = text.text.max_length, .most = has_learned_positions(this->model) ? this->model.longest : 0});
  else
    sample_texts(*model, *tokenizers.target, trained_, training.seed);
}

void SequenceExperiment::run(Cli& cli, const Load& load) {
  training.apply();
  const Use use = trained_.use(cli);
  if (use != Use::training) require_trained(trained_.directory);
  if (use == Use::decoding || use == Use::sampling) return use_trained(use);
  check_flags(cli);
  if (parameters_) return print_parameters();
  use == Use::training ? train_all(cli, load) : evaluate(cli, load);
}

int run_sequence_program(int argc, const char* const* argv, const SequenceProgram& program) {
  return fovea::run(program.name, argc, argv, [&](Cli& cli) {
    cli.describe(program.about);
    ParallelCorpusOptions corpus;
    corpus.data = "generated";
    SequenceExperiment experiment(program);
    cli.group("Data");
    cli.option("--data", corpus.data, program.data).saved_as(lasting_data);
    cli.add(corpus);
    cli.add(experiment);
    cli.parse();
    experiment.run(cli, [&](bool trains) -> std::unique_ptr<PairSource> {
      if (is_generated(corpus.data)) return program.generate(corpus.data);
      corpus.needs_source = !program.metrics.empty();
      corpus.needs_training_set = trains;
      return std::make_unique<ParallelCorpus>(corpus);
    });
  });
}

}  // namespace fovea
