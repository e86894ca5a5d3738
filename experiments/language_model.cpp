// Language modelling: how well a Transformer decoder foresees the next word.
#include "experiments/support/data/generated_text.h"
#include "experiments/support/data/parallel_corpus.h"
#include "experiments/support/program/program.h"
#include "experiments/support/sequence/sequence_experiment.h"

int main(int argc, char** argv) {
  using namespace fovea;
  return run("language_model", argc, argv, [](Cli& cli) {
    cli.describe("Trains Transformer decoders to say the next word of a text, and reports perplexity.");
    ParallelCorpusOptions corpus;
    corpus.data = "generated";
    SequenceExperiment experiment({.name = "language_model", .metrics = {}});
    cli.group("Data");
    cli.option("--data", corpus.data,
               "a text file, a directory of text files, or generated[:words=200,copies=0.15,...]")
        .saved_as(lasting_data);
    cli.add(corpus);
    cli.add(experiment);
    cli.parse();
    experiment.run(cli, [&]() -> std::unique_ptr<PairSource> {
      if (is_generated(corpus.data)) return generate_lines(corpus.data);
      return std::make_unique<ParallelCorpus>(corpus);
    });
  });
}
