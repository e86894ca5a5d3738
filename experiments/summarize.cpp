// Summarization: an article goes in, its headline or subject comes out.
#include "experiments/support/data/generated_text.h"
#include "experiments/support/sequence/sequence_experiment.h"

int main(int argc, char** argv) {
  return fovea::run_sequence_program(argc, argv,
                                     {.name = "summarize",
                                      .metrics = {"rouge"},
                                      .about = "Trains encoder-decoders to summarize, and reports ROUGE and speed; or "
                                               "summarizes text with one that is trained.",
                                      .data = "a directory of parallel files, or generated[:sentences=3-6,...]",
                                      .generate = fovea::generate_summaries});
}
