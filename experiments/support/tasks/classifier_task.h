/// Tasks of classifiers: their flags, data, tests and labels of new texts. The training is on the task's page.
#pragma once
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "experiments/support/analysis/analyzed_run.h"
#include "experiments/support/analysis/task.h"
#include "experiments/support/models/classification.h"
#include "experiments/support/models/trained_model.h"

namespace fovea {

/// The flags of a classifier whose data are of the type Data, which load() reads.
template <class Data>
struct ClassifierOptions : ClassificationOptions {
  Data data;
  void add_to(Cli& cli) {
    cli.group("Data");
    cli.add(data);
    ClassificationOptions::add_to(cli);
  }
};

/// A task whose train(model, options, data, run) trains one row with one seed: the model has its initial values, and
/// the best ones at the end. Options are ClassifierOptions, perhaps with flags of the task's own.
template <class Options, class Train>
Task classifier_task(const std::string& name, const std::string& about, Train train) {
  auto program = [about, train](Cli& cli) {
    Experiment<Options> experiment(cli, about);
    const Options& options = experiment.options();
    experiment.check([](const Options& row) { row.check(); });
    if (!options.label.empty()) {
      warn_of_training_flags(cli, false);
      if constexpr (requires { options.data.columns; }) return label_texts(options, options.data.columns);
      return label_texts(options);
    }
    const PairData data(load(options.data), options.text, experiment.directory());
    experiment.check([&](const Options& row) { row.check(data); });
    experiment.train(data, [&](const Options& row, const Run& run) {
      const std::unique_ptr<EncoderClassifier> model = row.make_model(data, run);
      const TrainingResult training = train(*model, row, data, run);
      RunResult result = test_model(*model, data, row, run);
      result.training = training;
      return result;
    });
  };
  auto open = [](const std::filesystem::path& run, Part part, const std::vector<std::string>& flags) {
    const auto options = options_of_run<Options>(run, flags);
    const std::vector<std::string> classes = classes_of(run);
    auto owned = options.model.make(options.model.attention, load_tokenizers(run).source->size(), std::ssize(classes));
    EncoderClassifier* const model = owned.get();
    auto predict = [model, classes](const Tensor& tokens, const Tensor& lengths, std::vector<AttentionTrace>* traces) {
      const std::vector<double> logits = model->forward(tokens, lengths, traces).value().template to_vector<double>();
      return classes.at(std::size_t(std::ranges::max_element(logits) - logits.begin()));
    };
    auto data = [options](const PairTokenizers& tokenizers, Part wanted) {
      return PairData(load(options.data), options.text, tokenizers, wanted, false);
    };
    return open_encoder_run(
        run, {std::move(owned), options.model.attention, options.text.max_length, false, predict, data}, part);
  };
  return {name, program, open};
}

}  // namespace fovea
