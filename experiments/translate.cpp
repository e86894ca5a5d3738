// Translation: a Transformer or an RNN reads a sentence and says it in another language.
#include "experiments/support/data/generated_text.h"
#include "experiments/support/sequence/sequence_experiment.h"

int main(int argc, char** argv) {
  return fovea::run_sequence_program(argc, argv,
                                     {.name = "translate",
                                      .metrics = {"bleu", "ribes"},
                                      .about = "Trains encoder-decoders to translate, and reports BLEU, RIBES and "
                                               "speed; or translates text with one that is trained.",
                                      .data = "a directory of parallel files, or generated[:words=25,swap=0.3,...]",
                                      .generate = fovea::generate_translation});
}
