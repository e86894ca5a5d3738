// Translation: a Transformer or an RNN reads a sentence and says it in another language.
#include "experiments/support/data/generated_text.h"
#include "experiments/support/data/parallel_corpus.h"
#include "experiments/support/program/program.h"
#include "experiments/support/sequence/sequence_experiment.h"

int main(int argc, char** argv) {
  using namespace fovea;
  return run("translate", argc, argv, [](Cli& cli) {
    cli.describe(
        "Trains encoder-decoders to translate, and reports BLEU, RIBES and speed; or translates text with one that is "
        "trained.");
    ParallelCorpusOptions corpus;
    corpus.data = "generated";
    SequenceExperiment experiment({.name = "translate", .metrics = {"bleu", "ribes"}});
    cli.group("Data");
    cli.option("--data", corpus.data, "a directory of parallel files, or generated[:words=25,swap=0.3,...]")
        .saved_as(lasting_data);
    cli.add(corpus);
    cli.add(experiment);
    cli.parse();
    experiment.run(cli, [&]() -> std::unique_ptr<PairSource> {
      if (is_generated(corpus.data)) return generate_translation(corpus.data);
      return std::make_unique<ParallelCorpus>(corpus);
    });
  });
}
