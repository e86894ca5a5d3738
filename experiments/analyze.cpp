// Looks into trained runs: attentions of single sentences, distributions over sentences, charts; and small
// demonstrations that need no run.
#include <algorithm>

#include "experiments/support/analysis/analyzed_run.h"
#include "experiments/support/analysis/attention_page.h"
#include "experiments/support/analysis/demonstrations.h"
#include "experiments/support/analysis/identities.h"
#include "experiments/support/analysis/run_analyses.h"
#include "experiments/support/program/program.h"
#include "experiments/support/text/number.h"
#include "experiments/support/text/words.h"

namespace {

using namespace fovea;

const std::vector<std::pair<std::string, Part>> parts{{"train", Part::train}, {"dev", Part::dev}, {"test", Part::test}};

/// The values of all flags. Each command declares those that it reads.
struct Flags {
  std::vector<std::string> runs;
  SentenceChoice sentences;
  std::int64_t sentence = 0, page_sentences = 5, query = 0;
  std::optional<std::string> text, target;
  AttentionChoice attention;
  std::string what = "weights", head = "all", vary, on = "test", metrics;
  std::vector<int> within{1, 2, 4}, buckets{5, 10, 15, 20, 30};
  bool by_head = false;
  int longest = 8;
  WindowDemo window;
  FlexibleDemo flexible;
  LocationDemo location;
  DistanceBound bound;
  IdentityCheck identities;
  OutputFlags output;

  void add_runs(Cli& cli) { cli.option("RUNS", runs, "directories of trained runs"); }
  void add_run(Cli& cli) { cli.option("RUN", runs, "the directory of a trained run"); }
  void add_set(Cli& cli) { cli.choice("--set", sentences.part, parts, "the part of the run's data that is read"); }
  void add_sentences(Cli& cli) {
    add_set(cli);
    cli.option("--sentences", sentences.most, "number of sentences that are read, the first ones; 0: all").at_least(0);
  }
  void add_sentence(Cli& cli) {
    cli.option("--sentence", sentence, "number of the sentence in its set, from 0").at_least(0);
  }
  void add_place(Cli& cli) {
    cli.option(
           "--place", attention.place,
           "encoder or decoder: self-attention; cross: over the source; any: the first of cross, encoder and decoder "
           "whose attention is not plain")
        .one_of({"any", "encoder", "decoder", "cross"});
    cli.option("--layer", attention.layer, "the layer, counted from 1").at_least(1);
    cli.option("--sub-layer", attention.number,
               "which attention of a layer that has several at this place, counted from 1")
        .at_least(1);
  }
  void add_attention(Cli& cli) {
    add_run(cli), add_set(cli), add_sentence(cli);
    cli.option("--text", text, "a sentence of your own, in words as the training data have them");
    cli.option("--target", target, "with --text: its translation or summary; without it, the model's own");
    add_place(cli);
    cli.option("--head", head, "the head, counted from 1; mean; or all");
  }

  const Runs all_runs() const {
    require(!runs.empty(), "RUNS, the directories of one or more trained runs, are missing");
    return {runs.begin(), runs.end()};
  }
  std::filesystem::path run() const {
    require(!runs.empty(), "RUN, the directory of a trained run, is missing");
    require(runs.size() == 1, "'{}': this command reads one run only", runs.back());
    return runs.front();
  }
  std::optional<std::int64_t> chosen_head() const {
    if (head == "all") return {};
    const std::optional<std::int64_t> one = number<std::int64_t>(head);
    require(head == "mean" || (one && *one >= 1), "--head '{}': expected a number from 1, mean or all", head);
    return head == "mean" ? 0 : *one;
  }
  std::vector<SentenceView> views(std::int64_t most = 1) const {
    require(text || !target, "--target: only with --text");
    const auto opened = AnalyzedRun::open(run(), sentences.part);
    if (text) return {opened->text(*text, target)};
    std::vector<SentenceView> views{opened->checked_sentence(sentence)};
    for (std::int64_t k = sentence + 1; k < std::min(sentence + most, std::int64_t(opened->size())); ++k)
      views.push_back(opened->sentence(std::size_t(k)));
    return views;
  }
};

/// The attentions of one sentence: a map of one of them, or a page of all.
Finding one_attention(const Flags& flags) {
  const std::vector<SentenceView> views = flags.views();
  Finding finding{.title = "Quantities of the attentions"};
  if (flags.what == "list") {
    Table table({"attention", "method", "quantity", "heads", "a number for each"});
    for (const AttentionView& view : views[0].attentions)
      for (const ViewedQuantity& each : view.quantities)
        table.row({view.title(), view.method, each.name, each.heads, each.of_pairs ? "query and key" : "query"});
    finding.tables = {{"", table}};
  } else {
    finding = attention_finding(views[0].chosen(flags.attention), flags.what, flags.chosen_head(), views[0].text());
  }
  finding.page = [flags, views] {
    return attention_page(fmt::format("Attention of {} ({})", title_of_run(flags.run()), flags.run().string()),
                          flags.text ? views : flags.views(flags.page_sentences),
                          flags.text ? std::optional<std::int64_t>() : flags.sentence);
  };
  return finding;
}

/// A command: what it is for, the flags that it declares, and what it finds.
struct Analysis {
  const char *name, *about;
  void (*declare)(Flags&, Cli&);
  Finding (*find)(const Flags&);

  void run(Cli& cli) const {
    Flags flags;
    cli.describe(std::string(about) + ".");
    declare(flags, cli);
    cli.add(flags.output);
    cli.parse();
    flags.output.write(cli, find(flags));
  }
};

Finding trade_off(const Flags& flags) {
  std::vector<Part> sets;
  for (std::string_view name : split_columns(flags.on, ',')) {
    const auto found = std::find_if(parts.begin(), parts.end(), [&](const auto& part) { return part.first == name; });
    require(found != parts.end(), "--on: no part '{}'; expected train, dev or test, separated by commas", name);
    sets.push_back(found->second);
  }
  return trade_off_finding(flags.run(), flags.vary, sets, flags.metrics);
}

const std::vector<Analysis> analyses{
    {"attention", "shows an attention of one sentence as numbers or picture, or all attentions as an interactive page",
     [](Flags& f, Cli& cli) {
       f.add_attention(cli);
       cli.option("--what", f.what,
                  "weights; scores, bias and logits (before the normaliser); window, mask, pointers, center, width, "
                  "focus, gate; or the name of any quantity that the method computes: list prints the names");
       cli.option("--page-sentences", f.page_sentences, "number of sentences of an html page").range(1, 1000);
     },
     one_attention},
    {"row", "shows one row of an attention: energies, their softmax, the bias and the revised weights",
     [](Flags& f, Cli& cli) {
       f.head = "1";
       f.add_attention(cli);
       cli.option("--query", f.query, "number of the query, from 0").at_least(0);
     },
     [](const Flags& f) {
       return row_finding(f.views()[0].chosen(f.attention), f.chosen_head().value_or(1), f.query);
     }},
    {"widths", "shows the centers and widths of windows, for each layer and head",
     [](Flags& f, Cli& cli) { f.add_runs(cli), f.add_sentences(cli); },
     [](const Flags& f) { return widths_finding(f.all_runs(), f.sentences); }},
    {"mass", "shows how much of the attention is near the query, for all layers",
     [](Flags& f, Cli& cli) {
       f.add_runs(cli), f.add_sentences(cli);
       cli.option("--within", f.within, "distances in tokens, separated by commas").at_least(0);
       cli.option("--by-head", f.by_head, "also show every head");
     },
     [](const Flags& f) { return mass_finding(f.all_runs(), f.within, f.by_head, f.sentences); }},
    {"steps", "shows gate, focus, window and center of each decoding step, and the means over several sentences",
     [](Flags& f, Cli& cli) { f.add_run(cli), f.add_sentences(cli), f.add_sentence(cli), f.add_place(cli); },
     [](const Flags& f) { return steps_finding(f.run(), f.sentence, f.attention, f.sentences); }},
    {"align", "shows the attention over the source of one sentence with the gold links, and alignment error rates",
     [](Flags& f, Cli& cli) { f.add_runs(cli), f.add_set(cli), f.add_sentence(cli); },
     [](const Flags& f) { return alignment_finding(f.all_runs(), f.sentence, f.sentences.part); }},
    {"lengths", "shows the first score of each run by the length of the input",
     [](Flags& f, Cli& cli) {
       f.add_runs(cli);
       cli.option("--buckets", f.buckets, "the longest length of each bucket, in words").at_least(1);
     },
     [](const Flags& f) { return length_finding(f.all_runs(), f.buckets); }},
    {"ngrams", "shows the differences of n-gram scores between the first run and the others",
     [](Flags& f, Cli& cli) {
       f.add_runs(cli);
       cli.option("--longest", f.longest, "the longest n-grams").range(1, 9);
     },
     [](const Flags& f) { return ngram_finding(f.all_runs(), f.longest); }},
    {"vary", "tests one model with several values of an option, and shows scores and windows",
     [](Flags& f, Cli& cli) {
       f.add_run(cli);
       cli.option("--vary", f.vary,
                  "NAME=VALUE,VALUE,...: an option of the attention's methods, as in threshold=0.3,1,inf, or a flag "
                  "of beam search without its dashes: beam, length-penalty, ...")
           .required();
       cli.option("--on", f.on, "the parts of the data, separated by commas");
       cli.option("--metrics", f.metrics, "scores of decoded texts, separated by commas; empty: those of the training");
     },
     trade_off},
    {"masks", "shows the masks of self-attention (ones), of mask attention, and of a feed-forward layer (the identity)",
     [](Flags& f, Cli& cli) { f.add_run(cli), f.add_set(cli), f.add_sentence(cli); },
     [](const Flags& f) { return masks_finding(f.run(), f.sentence, f.sentences.part); }},
    {"model", "describes a model: sub-layers, equations of its attentions, parameters",
     [](Flags& f, Cli& cli) { f.add_run(cli); }, [](const Flags& f) { return model_finding(f.run()); }},
    {"window-demo", "computes the window between two pointers, key by key; needs no run",
     [](Flags& f, Cli& cli) { cli.add(f.window); }, [](const Flags& f) { return window_demo(f.window); }},
    {"flex-demo", "computes how flexible attention selects the keys that it scores; needs no run",
     [](Flags& f, Cli& cli) { cli.add(f.flexible); }, [](const Flags& f) { return flexible_demo(f.flexible); }},
    {"location", "computes weights that depend on positions alone: mean, Laplace, Gaussian; needs no run",
     [](Flags& f, Cli& cli) { cli.add(f.location); }, [](const Flags& f) { return location_demo(f.location); }},
    {"distance-bound", "compares |a W_Q - c W_K|² with the bound of Fan et al. 2021, eq. 10; needs no run",
     [](Flags& f, Cli& cli) { cli.add(f.bound); }, [](const Flags& f) { return distance_bound(f.bound); }},
    {"identities", "checks what the papers state about their methods on random numbers; needs no run",
     [](Flags& f, Cli& cli) { cli.add(f.identities); },
     [](const Flags& f) { return checked_identities(f.identities); }}};

}  // namespace

int main(int argc, char** argv) {
  std::vector<Command> commands;
  for (const Analysis& each : analyses)
    commands.push_back({each.name, each.about, [&each](Cli& cli) { each.run(cli); }});
  const std::string first = argc > 1 ? argv[1] : "";
  const bool is_path = std::filesystem::is_directory(first) || first.find('/') != std::string::npos;
  const bool is_command =
      std::any_of(analyses.begin(), analyses.end(), [&](const auto& one) { return first == one.name; });
  // `analyze RUN` is `analyze attention RUN`
  if (is_path && !is_command) return run("analyze", argc, argv, commands.front().body);
  return run("analyze", argc, argv, commands);
}
