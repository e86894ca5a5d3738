// Summarization: an article goes in, its headline or subject comes out.
#include "experiments/support/data/generated_text.h"
#include "experiments/support/data/parallel_corpus.h"
#include "experiments/support/program/program.h"
#include "experiments/support/sequence/sequence_experiment.h"

int main(int argc, char** argv) {
  using namespace fovea;
  return run("summarize", argc, argv, [](Cli& cli) {
    cli.describe(
        "Trains encoder-decoders to summarize, and reports ROUGE and speed; or summarizes text with one that is "
        "trained.");
    ParallelCorpusOptions corpus;
    corpus.data = "generated";
    SequenceExperiment experiment({.name = "summarize", .metrics = {"rouge"}});
    cli.group("Data");
    cli.option("--data", corpus.data, "a directory of parallel files, or generated[:sentences=3-6,...]")
        .saved_as(lasting_data);
    cli.add(corpus);
    cli.add(experiment);
    cli.parse();
    experiment.run(cli, [&]() -> std::unique_ptr<PairSource> {
      if (is_generated(corpus.data)) return generate_summaries(corpus.data);
      return std::make_unique<ParallelCorpus>(corpus);
    });
  });
}
