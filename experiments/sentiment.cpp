// Sentiment of sentences and reviews: the Stanford Sentiment Treebank, IMDB, or a table of one's own.
#include "experiments/support/data/sentiment_data.h"
#include "experiments/support/program/program.h"
#include "experiments/support/training/classification_experiment.h"

int main(int argc, char** argv) {
  using namespace fovea;
  return run("sentiment", argc, argv, [](Cli& cli) {
    cli.describe(
        "Trains Transformer encoders to label sentences or reviews with their sentiment, or any labels of your own.");
    SentimentOptions data;
    ClassificationExperiment experiment("sentiment");
    cli.group("Data");
    cli.add(data);
    cli.add(experiment);
    cli.parse();
    experiment.run(cli, [&] { return load(data); });
  });
}
