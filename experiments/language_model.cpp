// Language modelling: how well a Transformer decoder foresees the next word.
#include "experiments/support/data/generated_text.h"
#include "experiments/support/sequence/sequence_experiment.h"

int main(int argc, char** argv) {
  return fovea::run_sequence_program(
      argc, argv,
      {.name = "language_model",
       .metrics = {},
       .about = "Trains Transformer decoders to say the next word of a text, and reports perplexity.",
       .data = "a text file, a directory of text files, or generated[:words=200,copies=0.15,...]",
       .generate = fovea::generate_lines});
}
