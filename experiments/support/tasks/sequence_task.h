/// Tasks of sequence models: their flags, data, tests and uses of trained models. The training is on the task's page.
#pragma once
#include <memory>
#include <string>

#include "experiments/support/analysis/analyzed_run.h"
#include "experiments/support/analysis/task.h"
#include "experiments/support/models/sequence_options.h"
#include "experiments/support/models/sequence_testing.h"

namespace fovea {

/// A task whose train(model, options, data, run) trains one row with one seed: the model has its initial values, and
/// the best ones at the end. Options are SequenceOptions, perhaps with flags of the task's own.
template <class Options, class Train>
Task sequence_task(const std::string& name, const std::string& about, Train train) {
  auto program = [about, train](Cli& cli) {
    Experiment<Options> experiment(cli, about);
    const Options& options = experiment.options();
    const Use use = options.trained.use(cli);
    if (use == Use::decoding) return decode_texts(options);
    if (use == Use::sampling) return sample_texts(options);
    experiment.check([](const Options& row) { row.check(); });
    if (options.parameters) return print_parameters_of(experiment);
    if (use == Use::evaluation) {
      const PairData data(options.data, load_tokenizers(options.trained.directory), options.trained.part(),
                          !options.trained.json);
      return experiment.test(options.trained.json, [&](const Options& row, const Run& run) {
        return test_model(*row.load_model(data.tokenizers), data, row, run);
      });
    }
    const PairData data(options.data, experiment.directory());
    options.print_warnings(data);
    experiment.check([&](const Options& row) { row.check(data); });
    experiment.train(data, [&](const Options& row, const Run& run) {
      const std::unique_ptr<SequenceModel> model = row.make_model(data, run);
      const TrainingResult training = train(*model, row, data, run);
      RunResult result = test_model(*model, data, row, run);
      result.training = training;
      return result;
    });
  };
  auto options_of = [](const std::filesystem::path& run, const std::vector<std::string>& flags) -> SequenceOptions {
    return options_of_run<Options>(run, flags);
  };
  auto open = [options_of](const std::filesystem::path& run, Part part, const std::vector<std::string>& flags) {
    return open_sequence_run(run, options_of(run, flags), part);
  };
  return {name, program, open, options_of};
}

}  // namespace fovea
