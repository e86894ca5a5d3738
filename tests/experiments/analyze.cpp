// `analyze` and what it is made of: views of attentions, findings, demonstrations with the papers' numbers.
#include <cmath>
#include <numeric>
#include <set>

#include <boost/test/unit_test.hpp>

#include "attention/engine/attend.h"
#include "attention/registry.h"
#include "autograd/operations.h"
#include "experiments/support/analysis/analyzed_run.h"
#include "experiments/support/analysis/commands.h"
#include "experiments/support/data/generated.h"
#include "experiments/support/report/attention_pictures.h"
#include "experiments/support/tasks/sequence_task.h"
#include "experiments/support/text/words.h"
#include "tests/experiments/programs.h"

using namespace fovea;

namespace {

Json json_of(std::vector<std::string> flags) {
  flags.insert(flags.end(), {"--format", "json"});
  const Ended done = succeeded(ended("analyze", flags));
  return Json::parse(done.out);
}

/// The rows of a table that a command prints.
Json rows_of(const std::vector<std::string>& flags, std::size_t table = 0) {
  return json_of(flags).at("tables").at(table).at("rows");
}

/// The numbers of one row of a table that a command prints, without the row's name.
std::vector<double> row_of(const std::vector<std::string>& flags, const std::string& name, std::size_t table = 0) {
  std::vector<double> numbers;
  for (const Json& row : rows_of(flags, table)) {
    if (row.at("") != name) continue;
    for (const auto& [key, value] : row.items())
      if (!key.empty()) numbers.push_back(value.get<double>());
  }
  return numbers;
}

/// Every command line ends with status 2 and one line, which has the message.
void require_mistakes(const std::map<std::vector<std::string>, std::string>& mistakes) {
  for (const auto& [flags, message] : mistakes) {
    const std::string done = refusal_of(ended("analyze", flags));
    BOOST_TEST(contains(done, message), done);
    BOOST_TEST(done.find('\n') == done.size() - 1, done);
  }
}

/// A task of one's own: it has a flag that no other task has.
struct OwnOptions : SequenceOptions {
  double z_loss = 0;
  OwnOptions() { data.generate = generate_translation; }
  void add_to(Cli& cli) {
    SequenceOptions::add_to(cli);
    cli.option("--z-loss", z_loss, "weight of the squared logarithm of the softmax's denominator");
  }
};
TrainingResult no_training(SequenceModel&, const OwnOptions&, const PairData&, const Run&) { return {}; }
const RegisteredTask own_task(sequence_task<OwnOptions>("own", "a task of the tests", no_training));

}  // namespace

BOOST_AUTO_TEST_SUITE(analyze)

// ---- Computations: the numbers are those of the papers' figures and of an independent program

BOOST_AUTO_TEST_CASE(computations_have_the_numbers_of_the_papers) {
  const std::vector<double> between{0, 0, 1, 1, 1, 1, 1, 1, 0, 0}, segments{1, 1, 1, 1, 1, 1, 1, 1, 0, 0};
  const auto window = [](const char* options, const char* left, const char* right) {
    return std::vector<std::string>{"compute", fmt::format("window(pointers=given{})", options),
                                    "--set",   std::string("left_pointer=") + left,
                                    "--set",   std::string("right_pointer=") + right};
  };
  const auto flexible = [](const char* threshold) {
    return std::vector<std::string>{"compute", fmt::format("location(longest=8) + flexible(threshold={})", threshold),
                                    "--keys",  "8",
                                    "--set",   "location.weight=.2,1,.5,2,.1,-.3,.8,0",
                                    "--set",   "previous_focus=2.25",
                                    "--set",   "flexible.gate_projection=0",
                                    "--set",   "flexible.gate_vector=0",
                                    "--set",   "flexible.gate_bias=0.4054651081"};
  };
  const auto location = [](const char* methods, const char* keys) {
    return std::vector<std::string>{"compute", methods, "--queries", keys, "--keys", keys, "--what", "weights"};
  };
  struct Row {
    std::vector<std::string> flags;
    const char* name;
    std::vector<double> expected;
    std::size_t table = 0;
  };
  for (const auto& [flags, name, expected, table] : std::vector<Row>{
           // Nguyen et al., figures 1 and 2: between two positions; and the equations for distributions
           {window("", "2", "7"), "window", between},
           {window("", "7", "2"), "window", between},
           {window(", mask=discrete", "7", "2"), "window", std::vector<double>(10, 0)},
           {window(", segment=4", "2", "7"), "window", segments},
           {window("", ".5,.5,0,0,0,0,0,0,0,0", "0,0,0,0,1,0,0,0,0,0"), "window", {.5, 1, 1, 1, 1, 0, 0, 0, 0, 0}},
           // one distribution for all queries
           {{"compute", "window(pointers=given)", "--queries", "3", "--keys", "3", "--set", "left_pointer=0,1,0",
             "--set", "right_pointer=0,0,1"},
            "phi_left",
            {0, 1, 0}},
           // Shu & Nakayama, figure 2: penalties, weights, and the next focus
           {flexible("1.2"), "bias", {-.675, -.208333, -.008333, -.075, -.408333, -1.008333, -1.875, -3.008333}},
           {flexible("inf"),
            "weights",
            {0.04891, 0.173583, 0.128594, 0.539149, 0.057781, 0.021256, 0.026843, 0.003883}},
           {flexible("1.2"), "weights", {0.050461, 0.179086, 0.13267, 0.55624, 0.059613, 0.02193, 0, 0}},
           {flexible("1.2"), "seen", {1, 1, 1, 1, 1, 1, 0, 0}},
           {flexible("inf"), "focus", {2.573862}, 1},
           {flexible("1.2"), "focus", {2.461248}, 1},
           // Watson's slides
           {location("mean; laplace(scale=1)", "3"), "laplace(scale=1): weights", {.18394, .5, .18394}},
           {location("gaussian_location(scale=1)", "3"), "weights", {.24197, .39894, .24197}},
           {location("gaussian_location(normalize=true)", "3"), "weights", {.274069, .451863, .274069}},
           {location("fine_grained", "2"), "weights", {.5, .5}}}) {
    const std::vector<double> found = row_of(flags, name, table);
    BOOST_TEST_REQUIRE(found.size() == expected.size(), name);
    for (std::size_t k = 0; k < found.size(); ++k)
      BOOST_TEST(std::abs(found[k] - expected[k]) < 1e-5, flags[1] << ", " << name << ": " << k << ": " << found[k]);
  }
  require_mistakes({{{"compute", "window(pointers=given)", "--set", "left_pointer=x"}, "'x' is not a number"},
                    {{"compute", "window(pointers=given)", "--set", "left_pointer=2.5"}, "is a whole number"},
                    {{"compute", "dot", "--what", "weights, gate"}, "--what: 'gate' is not computed; there are bias,"},
                    {{"compute", "dot", "--set", "focus=1"}, "--set: classic(dot) has no input or parameter 'focus'"}});
}

BOOST_AUTO_TEST_CASE(the_statements_of_the_papers_hold_for_any_seed) {
  for (const char* seed : {"1", "7"}) {
    const Json rows = rows_of({"identities", "--seed", seed});
    BOOST_TEST(rows.size() == 14u);
    for (const Json& row : rows) BOOST_TEST(row.at("holds") == "yes", row.at("statement"));
  }
  BOOST_TEST(rows_of({"identities", "--paper", "Fan"}).size() == 4u);
}

// ---- The parts of the equation

BOOST_AUTO_TEST_CASE(traced_parts_of_the_equation_give_the_weights) {
  for (const char* specification :
       {"global", "gaussian", "gaussian(window=fixed) + relative", "window(use=additive, segment=2)", "window",
        "local_p", "dman", "sman(width=fixed, distance=1)", "alibi", "soft_cap", "sliding(left=2, right=1)",
        "flexible(threshold=0.8)", "classic(additive + flexible)", "heads(gaussian*1, window*1)"}) {
    const bool crosses = std::string(specification).find("flexible") != std::string::npos;
    const std::int64_t I = 5, J = crosses ? 7 : 5;
    const auto attention = attention_factory(specification)(
        {.model_dim = 8, .heads = 2, .place = crosses ? Place::cross : Place::encoder});
    attention->initialise(3);
    attention->train(false);
    NoGrad off;
    AttentionTrace trace, plain;
    Generator generator(5);
    Tensor keys = Tensor::empty({2, J, 8}), queries = Tensor::empty({2, I, 8});
    fill_normal(keys, generator);
    fill_normal(queries, generator);
    const Variable key = keys, query = crosses ? Variable(queries) : key;
    AttentionInput input{.query = query, .key = key, .value = key};
    input.key_lengths = Tensor::from(std::vector<std::int32_t>{int(J), 3}, {2});
    input.trace = &plain;
    attention->forward(input);
    {
      TracedEquationScope parts;
      input.trace = &trace;
      attention->forward(input);
    }
    std::map<std::string, Variable> parts;
    for (const TracedQuantity& part : trace.quantities) parts.emplace(part.name, part.value);
    for (const char* name : {"scores", "logits", "bias", "seen"}) BOOST_TEST_REQUIRE(parts.count(name), specification);
    for (const TracedQuantity& quantity : plain.quantities) BOOST_TEST(quantity.name != "logits");
    Variable weights = softmax(parts["logits"]);
    if (parts.count("window_factor")) weights = weights * parts["window_factor"];
    const std::vector<double> found = weights.value().to_vector<double>(),
                              expected = trace.weights.value().to_vector<double>(),
                              seen = parts["seen"].value().to_vector<double>(),
                              logits = parts["logits"].value().to_vector<double>(),
                              sums = (parts["scores"] + parts["bias"]).value().to_vector<double>();
    double worst = 0, worst_sum = 0;
    for (std::size_t k = 0; k < found.size(); ++k) {
      worst = std::max(worst, std::abs(found[k] - expected[k]));
      if (seen[k] > 0)
        worst_sum = std::max(worst_sum, std::abs(logits[k] - sums[k]));
      else
        BOOST_TEST(std::isinf(logits[k]));
    }
    BOOST_TEST(worst < 2e-6, specification << ": " << worst);
    BOOST_TEST(worst_sum < 2e-5, specification << ": " << worst_sum);
  }
}

BOOST_AUTO_TEST_CASE(the_parts_of_several_mechanisms_become_heads) {
  const auto attention = attention_factory("average(dot, gaussian_location, laplace(scale=2))")(
      {.model_dim = 4, .heads = 1, .place = Place::encoder});
  NoGrad off;
  TracedEquationScope parts;
  AttentionTrace trace;
  Generator generator(3);
  Tensor states = Tensor::empty({1, 4, 4});
  fill_normal(states, generator);
  AttentionInput input{.query = states, .key = states, .value = states};
  input.trace = &trace;
  attention->forward(input);
  const std::vector<std::string> tokens{"a", "b", "c", "d"};
  const AttentionView view = view_of(trace, Place::encoder, tokens, tokens);
  BOOST_TEST(view.find("logits")->heads == 3);
  BOOST_TEST(view.find("head_2.logits") == nullptr);
  BOOST_TEST(view.find("density_sum")->heads == 1);  // of the second mechanism: the first has none
  for (std::int64_t h : {2, 3}) {                    // the densities are exponentials of the logits
    const std::vector<double> logits = view.head(view.at("logits"), h), weights = view.head(view.at("weights"), h);
    for (std::size_t k = 0; k < logits.size(); ++k) BOOST_TEST(std::abs(std::exp(logits[k]) - weights[k]) < 1e-6);
  }
}

BOOST_AUTO_TEST_CASE(a_quantity_is_of_the_heads_on_which_its_method_acts) {
  const std::vector<std::string> tokens{"a", "b", "c", "d"};
  AttentionTrace trace;
  const auto view_of_heads = [&](const char* specification, Place place = Place::encoder) {
    const auto attention = attention_factory(specification)({.model_dim = 8, .heads = 4, .place = place});
    attention->initialise(3);
    NoGrad off;
    TracedEquationScope parts;
    trace = {};
    Generator generator(3);
    Tensor states = Tensor::empty({1, 4, 8}), others = Tensor::empty({1, 4, 8});
    fill_normal(states, generator);
    fill_normal(others, generator);
    const Variable query = place == Place::cross ? others : states;
    AttentionInput input{.query = query, .key = states, .value = states};
    if (place == Place::encoder) input.key = input.value = query;
    input.trace = &trace;
    attention->forward(input);
    return view_of(trace, place, tokens, tokens);
  };
  const auto marked_heads = [&](const AttentionView& view) {
    std::vector<int> marked;
    const HeadMaps maps = head_maps(view, view.at("weights"), {1, 2, 3, 4});
    for (int h = 1; h <= 4; ++h)
      if (!maps.heads.at(std::size_t(h - 1)).center.empty()) marked.push_back(h);
    return marked;
  };
  const AttentionView some = view_of_heads("heads(global*1, gaussian*2, alibi*1)");
  const ViewedQuantity& center = some.at("center");
  BOOST_TEST((center.heads == 2 && center.first_head == 2 && center.last_head == 3));
  BOOST_TEST(head_curves(some, center, {2, 3}).series.at(1).name == "head 3");
  BOOST_TEST(marked_heads(some) == (std::vector{2, 3}));
  BOOST_TEST(marked_heads(view_of_heads("heads(global*3, gaussian*1)")) == std::vector{4});
  BOOST_TEST(marked_heads(view_of_heads("heads(gaussian*1, global*2, gaussian(epsilon=2)*1)")) == (std::vector{1, 4}));
  const AttentionView focused = view_of_heads("heads(global*1, flexible*2, global*1)", Place::cross);
  for (const char* name : {"focus", "gate", "first_key"})
    BOOST_TEST((focused.at(name).first_head == 2 && focused.at(name).last_head == 3), name);

  const AttentionView all = view_of_heads("heads(gaussian*1, gaussian(epsilon=2)*3)");
  BOOST_TEST(std::ranges::count(all.quantities, "center", &ViewedQuantity::name) == 1);
  std::vector<double> expected;
  for (const TracedQuantity& quantity : trace.quantities)
    if (quantity.name == "center")
      for (double x : quantity.value.value().to_vector<double>()) expected.push_back(x);
  BOOST_TEST_REQUIRE(expected.size() == 16);
  for (std::int64_t h = 1; h <= 4; ++h)
    BOOST_TEST(all.head(all.at("center"), h) == std::vector(expected.begin() + 4 * (h - 1), expected.begin() + 4 * h),
               boost::test_tools::per_element());

  // Two rows for four heads are rows of something else.
  trace.quantities = {{"rows", Tensor::zeros({1, 2, 4}, DType::f32), 0, 4},
                      {"row", Tensor::zeros({4}, DType::f32), 0, 4}};
  const AttentionView odd = view_of(trace, Place::encoder, tokens, tokens);
  BOOST_TEST(odd.find("rows") == nullptr);
  BOOST_TEST(odd.at("row").heads == 4);

  // The scores of a method on some heads, and those of the equation on all.
  const AttentionView scored = view_of_heads("heads(scaled_dot*1, global*3)");
  BOOST_TEST(std::ranges::count(scored.quantities, "scores", &ViewedQuantity::name) == 1);
  BOOST_TEST(scored.at("scores").heads == 4);
  BOOST_TEST(scored.at("plain_weights").heads == 4);
}

BOOST_AUTO_TEST_CASE(a_quantity_of_some_heads_has_no_others) {
  const AttentionView view{.queries = {"a"},
                           .keys = {"a"},
                           .quantities = {{"weights", 4, true, {1, 1, 1, 1}, 1, 4},
                                          {"center", 2, false, {3, 5}, 2, 3},
                                          {"width", 1, false, {7}, 2, 3}}};
  BOOST_TEST(view.head(view.at("center"), 3) == std::vector<double>{5});
  BOOST_TEST(view.head(view.at("center"), 0) == std::vector<double>{4});
  BOOST_TEST(view.head(view.at("width"), 3) == std::vector<double>{7});
  for (const char* name : {"center", "width"})
    for (std::int64_t head : {1, 4})
      BOOST_TEST(message_of([&] { view.head(view.at(name), head); }) ==
                 fmt::format("--head {}: the first head that has '{}' is 2, the last 3, of 4", head, name));
}

BOOST_AUTO_TEST_CASE(an_option_is_set_in_every_method_that_has_it) {
  BOOST_TEST(with_option("classic(additive + flexible)", "threshold", "1.2") ==
             "classic(additive + flexible(threshold=1.2))");
  BOOST_TEST(with_option("classic(additive + flexible(sigma=2, threshold=inf))", "threshold", "0.3") ==
             "classic(additive + flexible(sigma=2, threshold=0.3))");
  BOOST_TEST(with_option("flexible(sigma=2)", "threshold", "0.3") == "flexible(threshold=0.3, sigma=2)");
  BOOST_TEST(with_option("flexible() + dot", "threshold", "0.3") == "flexible(threshold=0.3) + dot");
  BOOST_TEST(with_option("flexible (sigma=2)", "threshold", "0.3") == "flexible (threshold=0.3, sigma=2)");
  BOOST_TEST(with_option("heads(gaussian*2, window*2) + alibi", "segment", "3") ==
             "heads(gaussian*2, window(segment=3)*2) + alibi");
  BOOST_TEST(with_option("gaussian", "threshold", "1") == "");
}

// ---- Findings and files

namespace {

/// One small trained run of each kind, made once.
struct TrainedRuns {
  Folder folder;
  std::string translation, recurrent, classifier;

  TrainedRuns() {
    const auto train = [&](const std::string& program, const std::string& name, std::vector<std::string> flags) {
      const std::string out = (folder / name).string();
      succeeded(ended(program, joined(std::move(flags), {"--out", out})));
      return out;
    };
    const std::vector<std::string> small{
        "--data",    few_sentences, "--model-dim",        "8", "--heads",     "2", "--updates", "3", "--layers", "1",
        "--longest", "9",           "--feed-forward-dim", "8", "--min-count", "1"};
    translation = train("translate", "a",
                        joined(small, {"--block-order", "dman > attention > feed-forward", "--attention", "gaussian",
                                       "--decoder-attention", "window", "--cross-attention", "alibi(heads=2)"}));
    recurrent = train("translate", "b",
                      joined(small, {"--architecture", "rnn", "--attention", "classic(additive + flexible)"}));
    classifier = train("agreement", "c",
                       {"--data", "generated:train=60,dev=10,test=20", "--model-dim", "8", "--layers", "2", "--updates",
                        "2", "--attention", "gaussian(layers=1)", "--feed-forward-dim", "8"});
  }
};

TrainedRuns& runs() {
  static TrainedRuns made;
  return made;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_weights_of_a_sentence_sum_to_one_at_every_place_and_layer) {
  const auto run = AnalyzedRun::open(runs().translation);
  const SentenceView sentence = run->sentence(3);
  std::vector<std::string> titles;
  for (const AttentionView& view : sentence.attentions) {
    titles.push_back(view.title() + ": " + view.method);
    const std::vector<double> weights = view.head(view.at("weights"), 2);
    const auto row = weights.end() - std::ptrdiff_t(view.keys.size());
    if (view.method != "window")
      BOOST_TEST(std::abs(std::accumulate(row, weights.end(), 0.0) - 1) < 1e-5, view.title());
    for (std::size_t h : {0, 1}) BOOST_TEST(view.head(view.at("logits"), std::int64_t(h)).size() == weights.size());
  }
  const std::vector<std::string> expected{"encoder, layer 1: dman", "encoder, layer 1, attention 2: gaussian",
                                          "decoder, layer 1: dman", "decoder, layer 1, attention 2: window",
                                          "cross, layer 1: alibi(heads=2)"};
  BOOST_TEST(titles == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(one_sentence_comes_in_every_format) {
  const std::vector<std::string> flags{runs().translation, "--sentence", "1", "--place", "cross"};
  const Folder folder;
  std::vector<std::string> all = flags;
  for (const char* name : {"a.md", "a.tex", "a.csv", "a.json", "a.svg", "a.html", "-"})
    all.insert(all.end(), {"--out", name == std::string("-") ? name : (folder / name).string()});
  const Ended done = succeeded(ended("analyze", all));
  const std::string page = contents(folder / "a.html");
  for (const auto& [form, beginning] :
       {std::pair(done.out, "cross, layer 1: weights"),
        {contents(folder / "a.md"), "# cross, layer 1: weights"},
        {contents(folder / "a.tex"), "% The tables need \\usepackage{booktabs}\n% weights, head 1\n\\begin{tabular}"},
        {contents(folder / "a.csv"), "table,query,token"},
        {contents(folder / "a.json"), "{"},
        {contents(folder / "a.svg"), "<?xml"},
        {page, "<!DOCTYPE html>"}}) {
    BOOST_TEST(form.starts_with(beginning), form.substr(0, 40));
    // every form says when, by which command and version, and where it was made, and the same of the run
    for (const char* part : {"Printed 20", "Runs made 20", " with fovea ", " on ", "analyze "})
      BOOST_TEST(contains(form, part), beginning << ": " << part);
  }
  BOOST_TEST(!contains(page, "></h2>"));  // parts without a title have no heading
  for (const char* part : {"Sentence 1<", "Sentence 5<", "decoder, layer 1, attention 2: window"})
    BOOST_TEST(contains(page, part), part);
  BOOST_TEST(!contains(page, "cross, layer 1: gate"));
  const auto cell = [&](const std::string& head, std::size_t table) {  // the last key of the second query
    const Json row = json_of(joined(flags, {"--head", head})).at("tables").at(table).at("rows").at(1);
    return std::prev(row.end()).value().get<double>();
  };
  BOOST_TEST(std::abs(cell("mean", 0) - (cell("all", 0) + cell("all", 1)) / 2) < 1e-6);
}

BOOST_AUTO_TEST_CASE(every_quantity_that_is_listed_can_be_shown) {
  const Json list = rows_of({runs().translation, "--what", "list"});
  const auto slope = std::ranges::find_if(list, [](const Json& row) { return row.at("quantity") == "slope"; });
  BOOST_TEST_REQUIRE((slope != list.end()));
  BOOST_TEST(slope->at("first head") == 2);
  BOOST_TEST(list.at(0).at("first head") == 1);
  std::set<std::string> names;
  for (const Json& row : list) {
    const std::string title = row.at("attention"), place = title.substr(0, title.find(','));
    if (names.insert(row.at("quantity")); names.size() > 13) break;
    const Json shown = json_of({runs().translation, "--place", place, "--sub-layer", title.ends_with("2") ? "2" : "1",
                                "--what", row.at("quantity")});
    const bool of_pairs = row.at("a number for each") == "query and key";
    BOOST_TEST(shown.at("tables").size() == (of_pairs ? row.at("heads").get<std::size_t>() : 1));
  }
  for (const char* name : {"weights", "logits", "bias", "mask", "center", "width", "left_pointer", "window"})
    BOOST_TEST(names.count(name), name);
}

BOOST_AUTO_TEST_CASE(runs_of_own_tasks_with_own_flags_can_be_opened) {
  Folder folder;
  const std::string run = (folder / "run").string();
  std::filesystem::copy(runs().translation, run, std::filesystem::copy_options::recursive);
  Json configuration = load_json(folder / "run/config.json");
  configuration["z-loss"] = 0.5;
  save_json(folder / "run/config.json", configuration);
  BOOST_TEST(contains(message_of([&] { AnalyzedRun::open(run); }), "there is no option 'z-loss'"));  // of translate
  configuration["program"] = "own";
  save_json(folder / "run/config.json", configuration);
  BOOST_TEST(AnalyzedRun::open(run)->sentence(0).attentions.size() > 0u);
  configuration["program"] = "nobodys";
  save_json(folder / "run/config.json", configuration);
  BOOST_TEST(contains(message_of([&] { AnalyzedRun::open(run); }),
                      "is a run of 'nobodys', which this program was not built with"));
}

BOOST_AUTO_TEST_CASE(runs_of_tagging_show_words_and_tags) {
  Folder folder;
  const std::string run = (folder / "run").string();
  succeeded(ended("tagging", tiny_classifier(run)));
  const auto opened = AnalyzedRun::open(run);
  const SentenceView view = opened->sentence(3);
  BOOST_TEST_REQUIRE(!view.attentions.empty());
  const std::size_t words = split_words(view.pair.source).size();
  BOOST_TEST(view.attentions.front().queries.size() == words + 1);  // and </s>
  BOOST_TEST(view.predicted != "");
  succeeded(ended("analyze", {run, "--sentence", "3"}));
}

BOOST_AUTO_TEST_CASE(an_own_text_is_read_with_the_runs_vocabulary) {
  const std::string text = AnalyzedRun::open(runs().translation)->sentence(0).pair.source;
  const Json own = json_of({runs().translation, "--text", text, "--place", "encoder", "--head", "1"}),
             same = json_of({runs().translation, "--sentence", "0", "--place", "encoder", "--head", "1"});
  BOOST_TEST(own.at("tables") == same.at("tables"));
  BOOST_TEST(rows_of({runs().classifier, "--text", "the cats near the dog"}).size() >= 5u);
}

BOOST_AUTO_TEST_CASE(long_texts_are_shown_without_their_padding) {
  std::string text = "bope";
  for (int k = 0; k < 200; ++k) text += " mini";
  const auto run = AnalyzedRun::open(runs().translation);
  for (const AttentionView& view : run->text(text, text).attentions) {
    BOOST_TEST(view.keys.size() == 202u);
    BOOST_TEST(view.queries.size() == 202u);
    BOOST_TEST(view.at("weights").values.size() == 2 * 202u * 202u);
  }
}

BOOST_AUTO_TEST_CASE(mass_grows_with_the_distance_and_ends_at_100) {
  const Json rows = rows_of({"mass", runs().classifier, runs().translation, "--within", "0,1,2,100", "--by-head"});
  std::size_t encoders = 0;
  for (const Json& row : rows) {
    if (row.at("place") != "encoder") continue;
    ++encoders;
    BOOST_TEST(row.at("w = 0").get<double>() <= row.at("w = 1").get<double>());
    BOOST_TEST(row.at("w = 1").get<double>() <= row.at("w = 2").get<double>());
    BOOST_TEST(std::abs(row.at("w = 100").get<double>() - 100) < 1e-3);
  }
  BOOST_TEST(encoders == 2 * 5 + 2 * 3u);  // layers of 4 heads and their mean, of 2 heads and their mean
}

BOOST_AUTO_TEST_CASE(widths_are_those_of_the_layers_that_have_them) {
  const Json rows = rows_of({"widths", runs().classifier});
  BOOST_TEST(rows.size() == 4u);
  for (const Json& row : rows) {
    BOOST_TEST(row.at("layer") == 1);
    BOOST_TEST(row.at("width D").get<double>() > 0.1);
  }
  BOOST_TEST(contains(ended("analyze", {"widths", runs().classifier, "--names", " my run "}).out, "\nmy run  "));
}

BOOST_AUTO_TEST_CASE(starts_shows_the_quantities_before_and_after_training) {
  const Json found = json_of({"starts", runs().classifier, runs().recurrent, "--sentences", "5"});
  std::map<std::string, Json> rows;  // by run, layer, quantity and parameters
  for (const Json& row : found.at("tables").at(0).at("rows"))
    rows[fmt::format("{} {} {}, {}", row.at("run").get<std::string>(), row.at("layer").get<int>(),
                     row.at("quantity").get<std::string>(), row.at("parameters").get<std::string>())] = row;
  const auto of = [&](const std::string& end) {
    for (const auto& [name, row] : rows)
      if (name.ends_with(end)) return row;
    throw Error("no row " + end);
  };
  const Json center = of("1 centre, as a share of the last position, initial"), width = of("1 width, tokens, initial");
  // The centres start in the middle, and two updates do not move them to the ends.
  BOOST_TEST(std::abs(center.at("50 %").get<double>() - 0.5) < 0.1);
  BOOST_TEST(center.at("at the edge, %") == 0);
  BOOST_TEST(center.at("10 %") != of("1 centre, as a share of the last position, trained").at("10 %"));
  BOOST_TEST(width.at("10 %").get<double>() < width.at("90 %").get<double>());
  const Json gate = of("1 gate, initial");
  BOOST_TEST(std::abs(gate.at("50 %").get<double>() - 0.12) < 0.02);
  const Json entropy = of("2 entropy of the weights / log n, initial");
  BOOST_TEST(entropy.at("50 %").get<double>() > 0.5);
  BOOST_TEST(entropy.at("90 %").get<double>() <= 1.0);
  BOOST_TEST(ended("analyze", {"starts"}).status == 2);
}

BOOST_AUTO_TEST_CASE(steps_have_gates_windows_and_means) {
  const Json tables = json_of({"steps", runs().recurrent, "--sentences", "4"}).at("tables");
  for (const char* name : {"gate", "focus", "window size"}) BOOST_TEST(tables[0].at("rows")[0].contains(name), name);
  const Json& means = tables[1].at("rows").at(0);
  BOOST_TEST(means.at("gate").get<double>() > 0);
  BOOST_TEST(means.at("gate").get<double>() < 1);
  BOOST_TEST(means.at("window size") == means.at("source length"));  // no threshold
  BOOST_TEST(means.at("values") == 4);
}

BOOST_AUTO_TEST_CASE(a_threshold_of_infinity_changes_nothing_and_a_small_one_narrows_the_window) {
  const Json rows = rows_of({"vary", runs().recurrent, "--vary", "threshold=0.05,inf", "--on", "test"});
  const Json recorded = load_json(runs().recurrent + "/result.json").at("tests").at("test");
  BOOST_TEST_REQUIRE(rows.size() == 2u);
  BOOST_TEST(rows[1].at("BLEU").get<double>() == recorded.at("scores").at("BLEU").get<double>());
  BOOST_TEST(rows[0].at("window").get<double>() < rows[1].at("window").get<double>() - 1);
}

BOOST_AUTO_TEST_CASE(only_options_of_methods_and_of_beam_search_vary) {
  BOOST_TEST(rows_of({"vary", runs().recurrent, "--vary", "beam=1,2", "--on", "test"}).size() == 2u);
  const Folder folder;
  const std::string out = (folder / "out").string();
  const std::string expected = "' cannot vary; expected an option of the model's attention methods or of beam search: ";
  for (const std::string& wrong :
       {std::string("metrics=bleu,rouge"), "out=" + out, std::string("data=nosuch"), std::string("treshold=1")})
    require_mistakes({{{"vary", runs().recurrent, "--vary", wrong},
                       "--vary: '" + wrong.substr(0, wrong.find('=')) + expected + "beam, "}});
  BOOST_TEST(!std::filesystem::exists(out));
}

BOOST_AUTO_TEST_CASE(charts_of_finished_runs_compare_them_with_the_first) {
  const Json gaps = rows_of({"ngrams", runs().translation, runs().translation, runs().recurrent});
  BOOST_TEST(gaps.size() == 3 * 16u);
  for (std::size_t k = 0; k < 2 * 16; ++k) BOOST_TEST(gaps[k].at("gap") == 0);
  BOOST_TEST(gaps[2 * 16].at("gap").get<double>() ==
             gaps[2 * 16].at("value").get<double>() - gaps[0].at("value").get<double>());
  std::int64_t examples = 0;
  const Json lengths = rows_of({"lengths", runs().classifier, "--buckets", "4,8"});
  for (const Json& row : lengths) examples += row.at("examples").get<std::int64_t>();
  BOOST_TEST(examples == 20);
}

BOOST_AUTO_TEST_CASE(charts_of_finished_runs_are_of_one_task) {
  const Folder folder;
  const auto save = [&](const std::string& name, const std::string& program, const std::string& metric,
                        const std::string& reference = "c d") {
    RunResult run{.row = name, .directory = folder / name};
    run.configuration = Json{{"program", program}};
    if (metric.empty())
      run.failure = "training diverged at update 2";
    else
      run.tests = {{.examples = {{.input = "a b", .reference = reference, .hypothesis = "c d"}}, .metrics = {metric}}};
    std::filesystem::create_directories(run.directory);
    save_result(run);
    return run.directory.string();
  };
  const std::string bleu = save("bleu", "translate", "bleu"), chrf = save("chrf", "translate", "chrf"),
                    labels = save("labels", "sentiment", "accuracy"), diverged = save("diverged", "translate", ""),
                    others = save("others", "translate", "bleu", "e f");
  require_mistakes({{{"lengths", bleu, labels}, "is a run of translate, " + labels + " of sentiment"},
                    {{"ngrams", bleu, labels}, "is a run of translate, " + labels + " of sentiment"},
                    {{"lengths", bleu, chrf}, "the first metric of " + bleu + " is bleu, of " + chrf + " chrf"},
                    {{"ngrams", bleu, others}, bleu + " and " + others + " were tested on different examples"},
                    {{"ngrams", labels, labels}, "is a run of sentiment, which writes no texts"},
                    {{"lengths", bleu, "runs/none"}, "runs/none: there is no such directory"},
                    {{"ngrams", bleu, diverged}, diverged + ": the run has no test scores: training diverged at"},
                    {{"lengths", folder.path.string()}, "the run is not finished: it has no result.json"}});
  succeeded(ended("analyze", {"lengths", bleu, bleu}));
}

BOOST_AUTO_TEST_CASE(words_that_a_run_does_not_know_are_named) {
  const Ended unknown = succeeded(
      ended("analyze", {runs().translation, "--text", "zzyzx qqq zzyzx", "--target", "zzyzx", "--format", "html"}));
  BOOST_TEST(unknown.err ==
             "--text: read as <unk>, because the run's vocabulary lacks them: zzyzx, qqq\n"
             "--target: read as <unk>, because the run's vocabulary lacks them: zzyzx\n");
  BOOST_TEST(contains(ended("analyze", {runs().classifier, "--text", "zzyzx"}).err, "lacks them: zzyzx\n"));
}

BOOST_AUTO_TEST_CASE(the_numbers_of_one_query_are_those_of_the_whole_attention) {
  for (const char* layer : {"1", "2"}) {
    const auto rows = [&](const std::string& head) {
      return rows_of({runs().classifier, "--layer", layer, "--place", "encoder", "--head", head, "--query", "1",
                      "--what", "plain_weights,bias,weights"});
    };
    const Json mean = rows("mean"), one = rows("3"),
               whole = rows_of({runs().classifier, "--layer", layer, "--place", "encoder", "--head", "3"});
    bool has_bias = false;
    std::vector<double> means(mean.size(), 0);
    for (const char* head : {"1", "2", "3", "4"}) {
      const Json of_head = rows(head);
      for (std::size_t j = 0; j < means.size(); ++j)
        means[j] += of_head[j].at("plain weights, head " + std::string(head)).get<double>() / 4;
    }
    for (std::size_t j = 0; j < means.size(); ++j) {
      const double plain = one[j].at("plain weights, head 3"), weight = one[j].at("weights, head 3");
      BOOST_TEST(std::abs(mean[j].at("plain weights, mean of heads").get<double>() - means[j]) < 1e-9);
      has_bias = has_bias || std::abs(plain - weight) > 1e-5;
      BOOST_TEST(whole[1].at(fmt::format("{} {}", j, one[j].at("token").get<std::string>())) == weight);
    }
    BOOST_TEST(has_bias == (layer == std::string("1")));
  }
}

BOOST_AUTO_TEST_CASE(a_label_and_its_prediction_are_told_apart) {
  const Json examples = [] {
    Json all = Json::array();
    std::ifstream file(runs().classifier + "/examples.test.jsonl");
    for (std::string line; std::getline(file, line);) all.push_back(Json::parse(line));
    return all;
  }();
  BOOST_TEST_REQUIRE(examples.size() == 20u);
  std::set<bool> right;
  for (std::size_t k = 0; k < examples.size(); ++k) {
    const std::string input = examples[k].at("input"), label = examples[k].at("reference"),
                      predicted = examples[k].at("hypothesis");
    const auto run = AnalyzedRun::open(runs().classifier);
    BOOST_TEST(run->sentence(k).text() == input + " → label " + label + ", predicted " + predicted);
    BOOST_TEST(run->text(input, {}).text() == input + " → predicted " + predicted);
    right.insert(label == predicted);
  }
  BOOST_TEST(right.size() == 2u);  // or a swap would not be seen
}

BOOST_AUTO_TEST_CASE(data_that_changed_since_the_training_are_warned_of_once) {
  const Folder folder;
  const auto write = [&](const char* part, const std::string& first, const char* second) {
    std::ofstream(folder / part) << first << '\n' << second << '\n';
  };
  for (const char* part : {"train.tsv", "dev.tsv", "test.tsv"}) write(part, "a cat\tblue", "a dog\tred");
  for (const char* part : {"train", "dev", "test"})
    for (const char* side : {".a", ".b"}) write((std::string(part) + side).c_str(), "a cat", "a dog");
  const std::string labels = (folder / "labels").string(), pairs = (folder / "pairs").string();
  succeeded(ended("sentiment", tiny_classifier(labels, {"--data", (folder / "train.tsv").string()})));
  succeeded(ended("translate", tiny(pairs, {"--data", folder.path.string(), "--source", "a", "--target", "b"})));
  const auto warnings = [&](const std::string& run, const std::vector<std::string>& more = {}) {
    return succeeded(ended("analyze", joined({run, "--format", "html"}, more))).err;
  };
  for (const std::string& run : {labels, pairs}) {
    BOOST_TEST(warnings(run) == "");
    BOOST_TEST(warnings(run, {"--set", "dev"}) == "");
    BOOST_TEST(warnings(run, {"--set", "train"}) == "");
  }
  write("test.tsv", "a bird\tblue", "a dog\tred");
  write("test.a", "a bird", "a dog");
  const auto warning = [&](const std::string& run) {
    return "warning: " + run + ": the data have changed since the training: test has different texts or labels\n";
  };
  for (const std::string& run : {labels, pairs}) {
    BOOST_TEST(warnings(run) == warning(run));
    BOOST_TEST(warnings(run, {"--set", "dev"}) == "");
    BOOST_TEST(!contains(warnings(run, {"--text", "a dog"}), "warning"));
  }
}

BOOST_AUTO_TEST_CASE(other_views_of_a_run_are_made) {
  const std::vector<std::vector<std::string>> all{{"align", runs().translation, runs().recurrent, "--sentence", "2"},
                                                  {runs().classifier, "--query", "2", "--head", "3"},
                                                  {"model", runs().recurrent}};
  for (const std::vector<std::string>& flags : all)
    for (const char* format : {"text", "html"}) {
      const Ended done = ended("analyze", joined(flags, {"--format", format}));
      BOOST_TEST(done.status == 0, flags[0] << ": " << done.err);
    }
  const Json model = json_of({"model", runs().translation});
  BOOST_TEST(model.at("notes")[0] == "A layer of the encoder: dman → gaussian → feed-forward");
}

BOOST_AUTO_TEST_CASE(mistakes_are_one_line_that_says_what_would_be_right) {
  require_mistakes(
      {{{"runs/none"}, "there is no such directory of a run"},
       {{"/dev/null"}, "/dev/null: is a file, expected the directory of a run"},
       {{runs().folder.path.string()},
        "analyze: " + runs().folder.path.string() +
            ": is the directory of a comparison; name one of its runs: a, b or c"},
       {{runs().translation, "--sentence", "99"}, "--sentence 99: there are 12 sentences"},
       {{runs().translation, "--layer", "7"},
        "analyze: --layer 7: the model has no such attention; it has encoder, layer 1;"},
       {{runs().classifier, "--text", "a dog", "--sentence", "0"},
        "--sentence and --text exclude each other: both choose the sentence"},
       {{runs().classifier, "--text", "a dog", "--set", "dev"}, "--set and --text exclude each other"},
       {{runs().translation, "--place", "cross", "--what", "gate"}, "has no 'gate'; it has weights"},
       {{runs().translation, "--place", "cross", "--head", "3"}, "--head 3: cross, layer 1 has 2 heads"},
       {{runs().translation, "--place", "cross", "--what", "seen", "--head", "3"},
        "--head 3: cross, layer 1 has 2 heads"},
       {{"lengths", runs().translation, "--buckets", "10,10"}, "--buckets: the lengths must grow"},
       {{"compute", "window(pointers=given)", "--set", "left_pointer=nan"}, "'nan' is not a number"},
       {{"widths"}, "RUNS, the directories of one or more trained runs, are missing"},
       {{"mas"}, "did you mean"},
       {{"model", runs().translation, "--format", "svg"}, "--format svg: a table is no picture; use text, markdown,"},
       {{"model", runs().translation, runs().recurrent}, "this command reads one run only"},
       {{"model", runs().translation, "--out", "a.doc"},
        "--out a.doc: unknown ending '.doc'; expected .txt, .md, .tex, .csv, .json,"},
       {{"widths", runs().recurrent}, "none of its attentions has a center or a width"},
       {{"widths", runs().classifier, "--names", "a; b"},
        "--names: 2 names for 1 run; names are separated by semicolons"},
       {{runs().translation, "--text", "a\xff"}, "--text: not UTF-8: byte 2"},
       {{runs().classifier, "--text", "a\xff"}, "--text: not UTF-8: byte 2"},
       {{runs().classifier, "--text", " "}, "--text: has no words"}});
}

BOOST_AUTO_TEST_SUITE_END()
