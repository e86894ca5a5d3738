// Looks into trained runs: attentions of single sentences, distributions over sentences, charts; and small
// demonstrations that need no run.
#include <algorithm>

#include "experiments/support/analysis/analyzed_run.h"
#include "experiments/support/analysis/attention_page.h"
#include "experiments/support/analysis/demonstrations.h"
#include "experiments/support/analysis/run_analyses.h"
#include "experiments/support/program/program.h"
#include "experiments/support/text/number.h"
#include "experiments/support/text/words.h"

namespace {

using namespace fovea;

const std::vector<std::pair<std::string, Part>> parts{{"train", Part::train}, {"dev", Part::dev}, {"test", Part::test}};

/// RUN, or several runs, and the part of its data.
struct RunFlags {
  Runs runs;
  std::vector<std::string> names;
  SentenceChoice sentences;

  void add_to(Cli& cli, bool several) {
    several ? cli.option("RUNS", names, "directories of trained runs")
            : cli.option("RUN", first_, "the directory of a trained run");
  }
  void add_set(Cli& cli) { cli.choice("--set", sentences.part, parts, "the part of the run's data that is read"); }
  void add_count(Cli& cli) {
    cli.option("--sentences", sentences.most, "number of sentences that are read, the first ones; 0: all").at_least(0);
  }
  const std::filesystem::path& run() const {
    require(!first_.empty(), "RUN, the directory of a trained run, is missing");
    return first_;
  }
  const Runs& all() {
    require(!names.empty(), "RUNS, the directories of one or more trained runs, are missing");
    return runs = Runs(names.begin(), names.end());
  }

 private:
  std::filesystem::path first_;
};

/// --place, --layer, --sub-layer and --head: one attention of a model.
struct AttentionFlags {
  std::string place = "any", head = "all";
  int layer = 1, number = 1;

  void add_to(Cli& cli) {
    cli.option("--place", place,
               "encoder or decoder: self-attention; cross: over the source; any: the first of cross, "
               "encoder and decoder that the model has")
        .one_of({"any", "encoder", "decoder", "cross"});
    cli.option("--layer", layer, "the layer, counted from 1").at_least(1);
    cli.option("--sub-layer", number, "which attention of a layer that has several at this place, counted from 1")
        .at_least(1);
    cli.option("--head", head, "the head, counted from 1; mean; or all");
  }

  std::optional<std::int64_t> chosen_head() const {
    if (head == "all") return {};
    const auto one = number_of_head();
    require(head == "mean" || (one && *one >= 1), "--head '{}': expected a number from 1, mean or all", head);
    return head == "mean" ? 0 : *one;
  }

  const AttentionView& view_in(const SentenceView& sentence) const {
    std::string wanted = place;
    for (const char* each : {"cross", "encoder", "decoder"})
      for (const AttentionView& view : sentence.attentions)
        if (wanted == "any" && name_of(view.place) == std::string(each)) wanted = each;
    std::string titles;
    for (const AttentionView& view : sentence.attentions) {
      if (name_of(view.place) == wanted && view.layer == layer && view.number == number) return view;
      titles += (titles.empty() ? "" : "; ") + view.title();
    }
    fail("--place {} --layer {} --sub-layer {}: the model has no such attention; it has {}", wanted, layer, number,
         titles);
  }

 private:
  std::optional<std::int64_t> number_of_head() const { return fovea::number<std::int64_t>(head); }
};

/// The sentences that --sentence or --text choose.
struct SentenceFlags {
  std::int64_t sentence = 0, count = 5;
  std::optional<std::string> text, target;

  void add_to(Cli& cli) {
    cli.option("--sentence", sentence, "number of the sentence in its set, from 0").at_least(0);
    cli.option("--text", text, "a sentence of your own, in words as the training data have them");
    cli.option("--target", target, "with --text: its translation or summary; without it, the model's own");
  }
  std::vector<SentenceView> read(AnalyzedRun& run, std::int64_t most) const {
    require(text || !target, "--target: only with --text");
    if (text) return {run.text(*text, target)};
    run.require_sentence(sentence);
    std::vector<SentenceView> views;
    for (std::int64_t k = sentence; k < std::min(sentence + most, std::int64_t(run.size())); ++k)
      views.push_back(run.sentence(std::size_t(k)));
    return views;
  }
};

std::string title_of(const SentenceView& sentence) {
  return sentence.pair.source.empty()
             ? sentence.pair.target
             : sentence.pair.source + (sentence.pair.target.empty() ? "" : " → ") + sentence.pair.target;
}

void analyze_attention(Cli& cli) {
  RunFlags runs;
  SentenceFlags sentences;
  AttentionFlags attention;
  OutputFlags output;
  std::string what = "weights";
  cli.describe(
      "Shows an attention of a trained model for one sentence. With --format html it writes a page for several "
      "sentences on which readers choose attention, quantity and head.");
  runs.add_to(cli, false);
  runs.add_set(cli);
  cli.add(sentences, attention);
  cli.option("--what", what,
             "weights; scores, bias and logits (before the normaliser); window, mask, pointers, center, width, focus, "
             "gate; or the name of any quantity that the method computes: list prints the names");
  cli.option("--page-sentences", sentences.count, "number of sentences of a page").range(1, 1000);
  cli.add(output);
  cli.parse();
  const auto run = AnalyzedRun::open(runs.run(), runs.sentences.part);
  const bool is_page = output.chosen(cli) == Format::html;
  const std::vector<SentenceView> views = sentences.read(*run, is_page ? sentences.count : 1);
  const std::string title = fmt::format("{} ({})", title_of_run(runs.run()), runs.run().string());
  if (is_page)
    return output.write(attention_page("Attention of " + title, views,
                                       sentences.text ? std::optional<std::int64_t>() : sentences.sentence));
  if (what != "list")
    return output.write(
        cli, attention_finding(attention.view_in(views[0]), what, attention.chosen_head(), title_of(views[0])));
  Table table({"attention", "method", "quantity", "heads", "a number for each"});
  for (const AttentionView& view : views[0].attentions)
    for (const ViewedQuantity& quantity : view.quantities)
      table.row(
          {view.title(), view.method, quantity.name, quantity.heads, quantity.of_pairs ? "query and key" : "query"});
  output.write(cli, {.title = "Quantities of the attentions of " + title_of_run(runs.run()), .tables = {{"", table}}});
}

void analyze_row(Cli& cli) {
  RunFlags runs;
  SentenceFlags sentences;
  AttentionFlags attention;
  OutputFlags output;
  std::int64_t query = 0;
  cli.describe("Shows one row of an attention: energies, their softmax, the bias and the revised weights.");
  runs.add_to(cli, false);
  runs.add_set(cli);
  cli.add(sentences, attention);
  cli.option("--query", query, "number of the query, from 0").at_least(0);
  cli.add(output);
  cli.parse();
  const auto run = AnalyzedRun::open(runs.run(), runs.sentences.part);
  const std::vector<SentenceView> views = sentences.read(*run, 1);
  output.write(cli, row_finding(attention.view_in(views[0]), attention.chosen_head().value_or(1), query));
}

/// A command that reads several sentences of some runs: declare(cli) adds its own flags, find(...) is what it does.
template <class Declare, class Find>
void analyze_runs(Cli& cli, const char* about, bool reads_sentences, const Declare& declare, const Find& find) {
  RunFlags runs;
  OutputFlags output;
  cli.describe(about);
  runs.add_to(cli, true);
  if (reads_sentences) runs.add_set(cli), runs.add_count(cli);
  declare(cli);
  cli.add(output);
  cli.parse();
  output.write(cli, find(runs.all(), runs.sentences));
}

void analyze_widths(Cli& cli) {
  analyze_runs(
      cli, "Shows the centers and widths of windows, for each layer and head.", true, [](Cli&) {}, widths_finding);
}

void analyze_mass(Cli& cli) {
  std::vector<int> within{1, 2, 4};
  bool by_head = false;
  analyze_runs(
      cli, "Shows how much of the attention is near the query, for all layers.", true,
      [&](Cli& own) {
        own.option("--within", within, "distances in tokens, separated by commas").at_least(0);
        own.option("--by-head", by_head, "also show every head");
      },
      [&](const Runs& runs, const SentenceChoice& sentences) {
        return mass_finding(runs, within, by_head, sentences);
      });
}

void analyze_align(Cli& cli) {
  std::int64_t sentence = 0;
  Part part = Part::test;
  analyze_runs(
      cli, "Shows the attention over the source of one sentence with the gold links, and alignment error rates.", false,
      [&](Cli& own) {
        own.choice("--set", part, parts, "the part of the run's data that is read");
        own.option("--sentence", sentence, "number of the sentence in its set, from 0").at_least(0);
      },
      [&](const Runs& runs, const SentenceChoice&) { return alignment_finding(runs, sentence, part); });
}

void analyze_lengths(Cli& cli) {
  std::vector<int> buckets{5, 10, 15, 20, 30};
  analyze_runs(
      cli, "Shows the first score of each run by the length of the input.", false,
      [&](Cli& own) { own.option("--buckets", buckets, "the longest length of each bucket, in words").at_least(1); },
      [&](const Runs& runs, const SentenceChoice&) {
        require(std::is_sorted(buckets.begin(), buckets.end()), "--buckets: the lengths must grow");
        return length_finding(runs, buckets);
      });
}

void analyze_ngrams(Cli& cli) {
  int longest = 8;
  analyze_runs(
      cli, "Shows the differences of n-gram scores between the first run and the others.", false,
      [&](Cli& own) { own.option("--longest", longest, "the longest n-grams").range(1, 9); },
      [&](const Runs& runs, const SentenceChoice&) { return ngram_finding(runs, longest); });
}

void analyze_steps(Cli& cli) {
  RunFlags runs;
  OutputFlags output;
  std::int64_t sentence = 0;
  std::string place = "any";
  cli.describe(
      "Shows what an attention computes in each decoding step of a sentence (gate, focus, window, center), and "
      "the means over several sentences.");
  runs.add_to(cli, false);
  runs.add_set(cli), runs.add_count(cli);
  cli.option("--sentence", sentence, "number of the sentence in its set, from 0").at_least(0);
  cli.option("--place", place, "cross, decoder or encoder; any: the first of them that the model has")
      .one_of({"any", "encoder", "decoder", "cross"});
  cli.add(output);
  cli.parse();
  output.write(cli, steps_finding(runs.run(), sentence, place, runs.sentences));
}

void analyze_vary(Cli& cli) {
  RunFlags runs;
  OutputFlags output;
  std::string vary, on = "test", metrics;
  cli.describe(
      "Tests one model with several values of an option of its attention, or of a flag, and shows scores and "
      "windows: analyze vary RUN --vary \"threshold=0.3,1,inf\" --on dev,test");
  runs.add_to(cli, false);
  cli.option("--vary", vary, "NAME=VALUE,VALUE,...: an option of the attention's methods, or a flag without its dashes")
      .required();
  cli.option("--on", on, "the parts of the data, separated by commas");
  cli.option("--metrics", metrics, "scores of decoded texts, separated by commas; without it, those of the training");
  cli.add(output);
  cli.parse();
  std::vector<Part> sets;
  for (std::string_view name : split_columns(on, ',')) {
    const auto found = std::find_if(parts.begin(), parts.end(), [&](const auto& part) { return part.first == name; });
    require(found != parts.end(), "--on: no part '{}'; expected train, dev or test, separated by commas", name);
    sets.push_back(found->second);
  }
  output.write(cli, trade_off_finding(
                        runs.run(), vary, sets,
                        metrics.empty() ? std::vector<std::string>() : std::vector<std::string>{"--metrics", metrics}));
}

void analyze_masks(Cli& cli) {
  RunFlags runs;
  OutputFlags output;
  std::int64_t sentence = 0;
  cli.describe(
      "Shows the mask matrices of self-attention (ones), of the run's mask attention, and of a feed-forward "
      "layer (the identity).");
  runs.add_to(cli, false);
  runs.add_set(cli);
  cli.option("--sentence", sentence, "number of the sentence in its set, from 0").at_least(0);
  cli.add(output);
  cli.parse();
  output.write(cli, masks_finding(runs.run(), sentence, runs.sentences.part));
}

void analyze_model(Cli& cli) {
  RunFlags runs;
  OutputFlags output;
  cli.describe("Describes the model of a run: sub-layers, equations of its attentions, parameters.");
  runs.add_to(cli, false);
  cli.add(output);
  cli.parse();
  output.write(cli, model_finding(runs.run()));
}

// ---- Demonstrations

void demonstrate_window(Cli& cli) {
  WindowDemo demo;
  OutputFlags output;
  cli.describe("Prints and draws the window between two pointers, key by key.");
  cli.option("--left", demo.left, "position of the left pointer, from 0").at_least(0);
  cli.option("--right", demo.right, "position of the right pointer, from 0").at_least(0);
  cli.option("--length", demo.length, "number of keys").range(1, 200);
  cli.option("--left-pointer", demo.left_pointer, "a distribution over the keys, in the place of --left").range(0, 1);
  cli.option("--right-pointer", demo.right_pointer, "a distribution over the keys, in the place of --right")
      .range(0, 1);
  cli.option("--segment", demo.segment, "number of keys in a segment").at_least(1);
  cli.option("--mask", demo.mask, "how the mask is computed").one_of({"paper", "exact", "prob_or", "discrete"});
  cli.add(output);
  cli.parse();
  output.write(cli, window_demo(demo));
}

void demonstrate_flexible(Cli& cli) {
  FlexibleDemo demo;
  OutputFlags output;
  cli.describe("Prints and draws how flexible attention selects the keys that it scores.");
  cli.option("--scores", demo.scores, "scores of the keys, separated by commas");
  cli.option("--focus", demo.focus, "the focus of the step before, from 0");
  cli.option("--gate", demo.gate, "the gate g").range(0, 1);
  cli.option("--sigma", demo.sigma, "in tokens").positive();
  cli.option("--threshold", demo.threshold, "keys with a smaller penalty are scored").positive();
  cli.add(output);
  cli.parse();
  output.write(cli, flexible_demo(demo));
}

void demonstrate_location(Cli& cli) {
  LocationDemo demo;
  OutputFlags output;
  cli.describe("Draws weights that depend on positions alone: mean, Laplace and Gaussian.");
  cli.option("--length", demo.length, "number of queries and keys").range(1, 200);
  cli.option("--scale", demo.scales, "b of Laplace and sigma of Gaussian weights, in tokens").positive();
  cli.option("--normalize", demo.normalize, "divide by the sum of each row");
  cli.add(output);
  cli.parse();
  output.write(cli, location_demo(demo));
}

void demonstrate_bound(Cli& cli) {
  DistanceBound bound;
  OutputFlags output;
  cli.describe("Compares |a W_Q - c W_K|² with its bound on random vectors.");
  cli.option("--draws", bound.draws, "number of random draws").range(1, 1e7);
  cli.option("--width", bound.width, "width of the vectors").range(1, 256);
  cli.option("--seed", bound.seed, "seed of the draws");
  cli.add(output);
  cli.parse();
  output.write(cli, distance_bound(bound));
}

const std::vector<Command> commands{
    {"attention", "an attention of one sentence as numbers, picture or page; analyze RUN is the same",
     analyze_attention},
    {"row", "one row of an attention before and after its bias", analyze_row},
    {"widths", "centers and widths of windows by layer and head", analyze_widths},
    {"mass", "attention near the query, for all layers", analyze_mass},
    {"steps", "gate, focus and window of each decoding step", analyze_steps},
    {"align", "attention over the source with gold links", analyze_align},
    {"lengths", "scores by length of the input", analyze_lengths},
    {"ngrams", "differences of n-gram scores between runs", analyze_ngrams},
    {"vary", "scores of one model with several values of an option", analyze_vary},
    {"masks", "mask matrices of SAN, mask attention and FFN", analyze_masks},
    {"model", "a model in words, equations and parameters", analyze_model},
    {"window-demo", "the window between two pointers; needs no run", demonstrate_window},
    {"flex-demo", "the selection of keys by flexible attention; needs no run", demonstrate_flexible},
    {"location", "weights by position alone; needs no run", demonstrate_location},
    {"distance-bound", "the bound of Fan et al. 2021, eq. 10; needs no run", demonstrate_bound}};

}  // namespace

int main(int argc, char** argv) {
  // `analyze RUN` is `analyze attention RUN`
  const std::string first = argc > 1 ? argv[1] : "";
  const bool is_path = std::filesystem::is_directory(first) || first.find('/') != std::string::npos;
  if (is_path &&
      std::none_of(commands.begin(), commands.end(), [&](const Command& command) { return command.name == first; }))
    return run("analyze", argc, argv, analyze_attention);
  return run("analyze", argc, argv, commands);
}
