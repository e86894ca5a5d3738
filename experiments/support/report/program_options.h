/// The options of the programs that train, as the programs themselves parse them.
#pragma once
#include <string>
#include <vector>

#include "experiments/support/classification/classification_options.h"
#include "experiments/support/data/agreement_data.h"
#include "experiments/support/data/sentiment_data.h"
#include "experiments/support/sequence/sequence_options.h"
#include "experiments/support/training/experiment.h"

namespace fovea {

/// The options of `sentiment` or `agreement`.
template <class Data>
struct ClassifierOptions : ClassificationOptions {
  Data data;
  void add_to(Cli& cli) {
    cli.add(data);
    ClassificationOptions::add_to(cli);
  }
};

/// Parses the arguments into the options, and returns every option with its value.
template <class Options>
Json parse(Options& options, const std::string& program, const std::vector<std::string>& arguments) {
  std::vector<const char*> line{program.c_str()};
  for (const std::string& argument : arguments) line.push_back(argument.c_str());
  Cli cli(program, static_cast<int>(line.size()), line.data());
  ExperimentFlags others;
  options.add_to(cli);
  others.add_to(cli);
  cli.parse();
  return cli.configuration();
}

/// The options of translate, summarize or language_model before flags are parsed. Throws Error for another program.
SequenceOptions sequence_defaults(const std::string& program);

/// The config.json that the program would write for these arguments.
Json configuration_of(const std::string& program, const std::vector<std::string>& arguments);

}  // namespace fovea
