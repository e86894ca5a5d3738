// Looks into trained runs: attentions of single sentences, distributions over sentences, charts; and small
// computations that need no run.
#include <algorithm>
#include <filesystem>

#include "experiments/support/analysis/commands.h"
#include "experiments/support/program/program.h"
#include "tensor/error.h"
#include "tensor/support/suggestion.h"

namespace {

using namespace fovea;

struct Analysis {
  const char *name, *about;
  Finding (*find)(Cli&);

  void run(Cli& cli) const {
    OutputFlags output;
    cli.describe(std::string(about) + ".");
    cli.add(output);
    cli.group("Analysis");
    output.write(cli, find(cli));
  }
};

constexpr Analysis analyses[] = {
    {"attention",
     "shows an attention of one sentence as numbers or picture, or all attentions of some sentences as a page",
     attention_of_sentence},
    {"widths", "shows the centers and widths of windows, for each layer and head", widths},
    {"mass", "shows how much of the attention is near the query, for all layers", mass},
    {"starts", "shows where and how wide attentions look before and after training, and how much of it is saturated",
     starts},
    {"steps", "shows gate, focus, window and center of each decoding step, and the means over several sentences",
     decoding_steps},
    {"align", "shows the attention over the source of one sentence with the gold links, and alignment error rates",
     alignments},
    {"lengths", "shows the first score of each run by the length of the input", scores_by_length},
    {"ngrams", "shows the differences of n-gram scores between the first run and the others", ngram_gaps},
    {"vary", "tests one model with several values of an option, and shows scores and windows", trade_off},
    {"model", "describes a model: sub-layers, equations of its attentions, parameters", model_description},
    {"compute", "computes attentions on numbers of the command line, key by key; needs no run", computation},
    {"identities", "checks what the papers state about their methods on random numbers; needs no run", identities}};

}  // namespace

int main(int argc, char** argv) {
  std::vector<Command> commands;
  for (const Analysis& each : analyses)
    commands.push_back({each.name, each.about, [&each](Cli& cli) { each.run(cli); }});
  const std::string first = argc > 1 ? argv[1] : "";
  std::vector<std::string> names;
  for (const Command& command : commands) names.push_back(command.name);
  const bool is_command = std::ranges::count(names, first) > 0;
  if (is_command || first.empty() || first.starts_with("-")) return run("analyze", argc, argv, commands);
  return run("analyze", argc, argv, [&](Cli& cli) {  // `analyze RUN` is `analyze attention RUN`
    std::error_code no_such_name;                    // too long for a file, for example
    require(first.find('/') != first.npos || std::filesystem::exists(first, no_such_name),
            "'{}' is neither the directory of a run nor a command{}; analyze --help lists the commands", first,
            did_you_mean(first, names));
    commands.front().body(cli);
  });
}
