// Subject-verb agreement (Linzen et al. 2016): is the verb that follows these words singular or plural?
#include "experiments/support/data/agreement_data.h"
#include "experiments/support/program/program.h"
#include "experiments/support/training/classification_experiment.h"

int main(int argc, char** argv) {
  using namespace fovea;
  return run("agreement", argc, argv, [](Cli& cli) {
    cli.describe(
        "Trains Transformer encoders to predict the number of a verb from the words before it, and reports accuracy by "
        "the number of attractors: nouns of the other number between subject and verb.");
    AgreementOptions data;
    ClassificationExperiment experiment("agreement");
    cli.group("Data");
    cli.add(data);
    cli.add(experiment);
    cli.parse();
    experiment.run(cli, [&] { return load(data); });
  });
}
