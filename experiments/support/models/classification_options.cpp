#include "experiments/support/models/classification_options.h"

#include "experiments/support/program/cli.h"
#include "nn/shapes_only.h"
#include "tensor/error.h"

namespace fovea {

void ClassificationOptions::add_to(Cli& cli) {
  cli.group("Text");
  cli.add(text);
  cli.comparable(true);
  cli.add(model, training, batches);
  cli.comparable(false);
  cli.group("Instead of training");
  cli.option("--model", trained, "the directory of a trained run; its flags hold, except for those that are given")
      .unsaved()
      .configures();
  cli.option("--label", label, "label the lines of this file with --model; - is standard input").unsaved();
  cli.option("--average-kept", average,
             "use the mean of this many last kept models of --model (--keep); 0: its best one")
      .range(0, 1000)
      .unsaved()
      .rare();
  cli.option("--probabilities", probabilities, "with --label: print the probability of each class after the label")
      .unsaved();
}

void ClassificationOptions::check() const {
  require(label.empty() == trained.empty(), "--label and --model need each other: --model runs/NAME --label FILE");
  require(!probabilities || !label.empty(), "--probabilities: only with --label");
  training.check();
  model.require_memory();
  ShapesOnly instead_of_a_model;
  model.make(model.attention, special_tokens, 2);
}

std::unique_ptr<EncoderClassifier> ClassificationOptions::make_model(const PairData& data, std::uint64_t seed) const {
  std::unique_ptr<EncoderClassifier> made = model.make(model.attention, data.source_size(), std::ssize(data.classes));
  made->to(parse_device(training.device));
  made->initialise(seed);
  return made;
}

}  // namespace fovea
