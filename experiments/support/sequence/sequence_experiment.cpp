#include "experiments/support/sequence/sequence_experiment.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>

#include <fmt/core.h>
#include <unistd.h>

#include "experiments/support/data/generated_options.h"
#include "experiments/support/data/parallel_corpus.h"
#include "experiments/support/metrics/bleu.h"
#include "experiments/support/metrics/text_metrics.h"
#include "experiments/support/program/program.h"
#include "experiments/support/program/progress.h"
#include "experiments/support/report/table.h"
#include "experiments/support/text/lines.h"
#include "experiments/support/training/same_data.h"
#include "nn/checkpoint.h"
#include "tensor/atomic_file.h"
#include "tensor/random.h"
#include "tensor/safetensors.h"

namespace fovea {

namespace {

constexpr const char* data_file = "data.json";

/// Of a .safetensors file, or of the best model in a run's directory.
void load_parameters(Module& model, const std::filesystem::path& from) {
  std::filesystem::path file = std::filesystem::is_directory(from) ? from / "best.safetensors" : from;
  NamedTensors values;
  for (auto& [name, tensor] : read_safetensors(file).tensors) values[name] = tensor;
  load_state(model, values, file.string());
}

void write_lines(const std::filesystem::path& path, const std::vector<std::string>& lines) {
  AtomicFile file(path);
  for (const std::string& line : lines) file.write(line + "\n");
  file.commit();
}

std::vector<std::string> targets_of(const std::vector<TextPair>& pairs) {
  std::vector<std::string> targets;
  for (const TextPair& pair : pairs) targets.push_back(pair.target);
  return targets;
}

std::vector<std::vector<std::string>> references_of(const std::vector<TextPair>& pairs) {
  std::vector<std::vector<std::string>> references;
  for (const TextPair& pair : pairs) references.push_back({pair.target});
  return references;
}

}  // namespace

struct SequenceExperiment::Outcome {
  double test_perplexity = 0, dev_score = 0, steps_per_second = 0, sentences_per_second = 0;
  std::int64_t parameters = 0, updates = 0;
  std::vector<TextScore> scores;  ///< of the test part, sentence by sentence
  std::filesystem::path directory = {};
};

/// The runs of one row of the table, a seed each.
struct SequenceExperiment::Compared {
  Comparison::Row row;
  std::vector<Outcome> runs;

  template <class Value>
  std::vector<double> of_runs(Value value) const {
    std::vector<double> values;
    for (const Outcome& run : runs) values.push_back(static_cast<double>(value(run)));
    return values;
  }
};

SequenceExperiment::SequenceExperiment(SequenceProgram program) : program_(std::move(program)) {
  if (decodes()) selection_ = Selection::bleu;
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
  cli.option("--init", initial_, "begin with the parameters of this .safetensors file, or of this run's best model");
  cli.comparable(false);
  cli.group("Comparison");
  cli.add(comparison_);
  cli.add(directory_);
  cli.group("Instead of training");
  cli.option("--parameters", parameters_, "print the parameters of each part of the model, and end").unsaved();
  cli.option("--model", trained_, "a trained run's directory, for --decode").unsaved().configures();
  if (decodes()) {
    cli.option("--decode", decoded_, "decode the lines of this file (- for standard input) with --model, and end")
        .unsaved();
    cli.option("--n-best", n_best_, "print as many texts of each, with their scores").range(1, 1000).unsaved();
  }
}

std::unique_ptr<SequenceModel> SequenceExperiment::make_model(const PairTokenizers& tokenizers) const {
  return model.make(decodes() ? tokenizers.source->size() : 0, tokenizers.target->size());
}

void SequenceExperiment::check_flags(Cli& cli) const {
  comparison_.check(cli, [&] {
    model.make(decodes() ? special_tokens : 0, special_tokens);
    require(initial_.empty() || std::filesystem::exists(initial_), "--init {}: there is no such file or directory",
            initial_.string());
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
  if (selection_ == Selection::loss) return -total(sentence_losses(model, data.dev, batches)).mean();
  BeamFlags greedy = beam;
  greedy.beam.beam = 1;
  std::vector<BleuStatistics> sentences =
      bleu_statistics(best_texts(decode(model, data.dev, data.tokenizers, greedy)), references_of(data.dev_texts));
  return selection_ == Selection::bleu ? bleu(sum(sentences)) : smoothed_sentence_bleu(sentences);
}

SequenceExperiment::Outcome SequenceExperiment::train_one(const SequenceData& data,
                                                          const Comparison::Training& which) const {
  std::unique_ptr<SequenceModel> model = make_model(data.tokenizers);
  model->initialise(which.seed);
  if (!initial_.empty()) load_parameters(*model, initial_);
  default_generator() = Generator(which.seed);
  SequenceTask task(*model, data.train, batches, loss, which.seed, dev_score_name(),
                    [&] { return dev_score(*model, data); });
  TrainingResult result = train(*model, task, training, which.run);
  Outcome outcome = tested(*model, data, which.run.directory);
  outcome.dev_score = result.best_score;
  outcome.updates = result.updates;
  outcome.steps_per_second = static_cast<double>(result.updates) / result.seconds;
  outcome.directory = which.run.directory.path();
  return outcome;
}

SequenceExperiment::Outcome SequenceExperiment::tested(SequenceModel& model, const SequenceData& data,
                                                       const RunDirectory& directory) const {
  Outcome outcome;
  outcome.parameters = model.parameter_count();
  outcome.test_perplexity = std::exp(total(sentence_losses(model, data.test, batches)).mean());
  if (!decodes()) return outcome;
  Progress::Options shown;
  shown.unit = "sentences";
  Progress progress("decoding", static_cast<std::int64_t>(data.test.size()), shown);
  auto begin = std::chrono::steady_clock::now();
  std::vector<DecodedText> decoded =
      decode(model, data.test, data.tokenizers, beam, [&](std::int64_t count) { progress.advance(count); });
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  progress.finish();
  outcome.sentences_per_second = static_cast<double>(data.test.size()) / seconds;
  TextFile hypotheses{directory.file("hypotheses.txt").string(), best_texts(decoded)};
  TextFile references{directory.file("references.txt").string(), targets_of(data.test_texts)};
  write_lines(hypotheses.name, hypotheses.lines);
  write_lines(references.name, references.lines);
  for (const std::string& metric : program_.metrics)
    for (TextScore& score : text_scores(metric, hypotheses, {&references, 1}))
      outcome.scores.push_back(std::move(score));
  return outcome;
}

Table SequenceExperiment::table_of(const std::vector<Compared>& compared) const {
  std::vector<std::string> headings{"model"};
  for (const TextScore& score : compared.front().runs.front().scores) headings.push_back(score.name);
  if (decodes()) headings.emplace_back("p");
  for (const char* heading : {"perplexity", "parameters", "steps/s", "relative"}) headings.emplace_back(heading);
  if (decodes()) headings.emplace_back("sentences/s");
  Table table(headings);
  const Compared& first = compared.front();
  auto speed = [](const Compared& row) {
    return mean(row.of_runs([](const Outcome& run) { return run.steps_per_second; }));
  };
  for (const Compared& row : compared) {
    std::vector<Cell> cells{row.row.title};
    for (std::size_t k = 0; k < row.runs.front().scores.size(); ++k)
      cells.push_back(Cell::mean_of(row.of_runs([&](const Outcome& run) { return run.scores[k].metric.value(); }),
                                    row.runs.front().scores[k].decimals));
    if (decodes()) {
      // Of the first seeds, sentence by sentence.
      double p = paired_bootstrap(first.runs.front().scores.front().metric, row.runs.front().scores.front().metric)
                     .p_two_sided;
      cells.push_back(&row == &first ? Cell() : Cell::number(p, 3));
    }
    cells.push_back(Cell::mean_of(row.of_runs([](const Outcome& run) { return run.test_perplexity; }), 3));
    cells.emplace_back(row.runs.front().parameters);
    cells.push_back(Cell::number(speed(row), 2));
    cells.push_back(Cell::number(speed(row) / speed(first), 2));
    if (decodes())
      cells.push_back(Cell::number(mean(row.of_runs([](const Outcome& run) { return run.sentences_per_second; })), 1));
    table.row(std::move(cells));
  }
  return table;
}

ReportedSequences SequenceExperiment::reported(Cli& cli, const std::string& description, const SequenceData& data,
                                               const std::vector<Compared>& compared) const {
  ReportedSequences reported{program_.name,      description, data, table_of(compared), dev_score_name(), {},
                             cli.configuration()};
  for (const Compared& each : compared) {
    ReportedModel model{.title = each.row.title};
    for (const Outcome& run : each.runs) {
      if (run.dev_score > each.runs[model.best].dev_score) model.best = model.runs.size();
      model.runs.push_back(run.directory);
      model.scores.push_back(run.scores);
    }
    model.load = [this, &cli, &data, arguments = each.row.arguments, from = model.runs[model.best]] {
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
  fmt::print("{}", parameter_table(*model.make(decodes() ? source : 0, target)));
}

/// Texts of lines that are typed come one by one.
void SequenceExperiment::decode_texts() const {
  PairTokenizers tokenizers = load_tokenizers(trained_);
  std::unique_ptr<SequenceModel> trained = make_model(tokenizers);
  load_parameters(*trained, trained_);
  BeamFlags flags = beam;
  flags.beam.best = n_best_;
  flags.beam.beam = std::max(flags.beam.beam, n_best_);
  LineReader reader(decoded_);
  const std::size_t at_once = decoded_ == "-" && ::isatty(STDIN_FILENO) ? 1 : 1000;
  for (bool more = true; more;) {
    EncodedPairs pairs;
    std::exception_ptr trouble;  // the lines before it are decoded
    try {
      for (std::string line; pairs.size() < at_once && (more = reader.next(line));)
        pairs.append(tokenizers.source->encode(line), {});
    } catch (const Error&) {
      trouble = std::current_exception();
    }
    for (const DecodedText& decoded : decode(*trained, pairs, tokenizers, flags)) {
      for (std::size_t k = 0; k < decoded.texts.size(); ++k) {
        if (n_best_ > 1) fmt::print("{:.4f}\t", decoded.hypotheses[k].score);
        fmt::print("{}\n", decoded.texts[k]);
      }
      if (n_best_ > 1) fmt::print("\n");
    }
    std::fflush(stdout);
    if (trouble) std::rethrow_exception(trouble);
  }
}

void SequenceExperiment::run(Cli& cli, const std::function<std::unique_ptr<PairSource>()>& load) {
  training.apply();
  require(decoded_.empty() == trained_.empty(),
          "--model and --decode go together: --model runs/NAME --decode FILE; to train on from a model: --init");
  if (!decoded_.empty()) return decode_texts();
  check_flags(cli);
  if (parameters_) return print_parameters();
  std::unique_ptr<PairSource> pairs = load();
  RunDirectory directory = RunDirectory::open(program_.name, directory_, cli.configuration());
  SequenceData data;
  try {
    prepare(data, *pairs, directory);
  } catch (const Error&) {
    if (directory_.resume.empty()) directory.discard();  // what is refused before the first update leaves nothing
    throw;
  }
  auto fill_part = [&](const RunDirectory& part) {
    data.tokenizers.save(part.path());
    save_json(part.file(data_file), data.fingerprint());
  };
  std::vector<Compared> compared;
  comparison_.run(cli, training.seed, directory, fill_part, [&](const Comparison::Training& which) {
    if (compared.empty() || compared.back().row.title != which.row.title) compared.push_back({which.row, {}});
    compared.back().runs.push_back(train_one(data, which));
  });
  ReportedSequences reported = this->reported(cli, pairs->description(), data, compared);
  fmt::print("\n{}", reported.table.text());
  write_report(directory.report(), reported);
  fmt::print("report: {}\nrun directory: {}\n", directory.report().string(), directory.path().string());
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
    experiment.run(cli, [&]() -> std::unique_ptr<PairSource> {
      if (is_generated(corpus.data)) return program.generate(corpus.data);
      return std::make_unique<ParallelCorpus>(corpus);
    });
  });
}

}  // namespace fovea
