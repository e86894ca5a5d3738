#include "experiments/support/attend/attention_catalogue.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

#include "attention/engine/attend.h"
#include "attention/language/specification.h"
#include "attention/method.h"
#include "attention/registry.h"
#include "experiments/support/attend/attention_case.h"
#include "experiments/support/report/attention_view.h"
#include "tensor/support/in_quotes.h"
#include "tensor/support/warning.h"

namespace fovea {

namespace {

// ---- Running an attention on random numbers

/// One attention on random numbers, with every input that its methods always read.
struct Trial {
  std::string method;
  AttentionShape shape = {.model_dim = 33, .heads = 3};
  std::int64_t B = 6, m = 5, n = 13;
  bool own_keys = false;  ///< in self-attention: n keys of their own, instead of the m queries as keys
  bool documents = false;
  std::int64_t query_offset = 0;
};

/// A parameter or a result with its size; `initial` of parameters.
struct Sized {
  std::string name;
  Shape shape;
  std::string initial = {};
};

struct Outcome {
  std::vector<Sized> parameters, results;  ///< results: output, weights and the method's quantities
  std::vector<float> output;
  std::string failure;                  ///< why the attention cannot run, although it can be constructed; "": it runs
  const char* no_fused_form = nullptr;  ///< NoFusedForm::part
};

Tensor random(const Shape& shape, std::uint64_t seed, double low = -1) {
  Tensor x = Tensor::empty(shape);
  Generator generator(seed);
  fill_uniform(x, generator, low, 1);
  return x;
}

void run(const Trial& trial, Attention& attention, Outcome& out) {
  const AttentionShape& shape = trial.shape;
  auto width = [&](std::int64_t own) { return own > 0 ? own : shape.model_dim; };
  const bool causal = shape.place == Place::decoder, own_keys = trial.own_keys || shape.place == Place::cross;
  const std::int64_t keys = own_keys ? trial.n : trial.m;
  AttentionTrace trace;
  Variable query = random({trial.B, trial.m, shape.model_dim}, 2), key = query;
  if (own_keys) key = random({trial.B, keys, width(shape.key_dim)}, 3);
  AttentionInput in{.query = query, .key = key, .value = key, .trace = &trace};
  if (own_keys && width(shape.value_dim) != width(shape.key_dim))
    in.value = random({trial.B, keys, width(shape.value_dim)}, 4);
  in.causal = causal;
  in.query_offset = trial.query_offset + (causal ? keys - trial.m : 0);
  if (shape.step_dim) in.step_input = random({trial.B, trial.m, shape.step_dim}, 6);
  if (trial.documents) in.documents = Tensor::zeros({trial.B, keys}, DType::i64);
  for (const ReadInput& input : inputs_of(trial.method)) {
    if (input.name == "mask") in.mask = random({1, 1, trial.m, keys}, 5, 0);
    if (input.name == "previous_focus" && in.query_offset > 0) in.previous_focus = Tensor::full({trial.B}, 2);
  }
  Variable output = attention.forward(in);
  out.output = output.value().to_vector<float>();
  out.results = {{"output", output.shape()}, {"weights", trace.weights.shape()}};
  for (const auto& [name, value] : trace.quantities) out.results.push_back({name, value.shape()});
}

/// Nothing if the attention cannot be constructed: it is not defined in this place or with these widths.
std::optional<Outcome> tried(const Trial& trial, AttentionEngine chosen = AttentionEngine::composed) {
  AttentionEngineScope engine(chosen);
  NoWarnings quiet;
  NoGrad off;
  Outcome out;
  std::unique_ptr<Attention> attention;
  try {
    attention = attention_factory(trial.method)(trial.shape);
  } catch (const Error&) {
    return {};
  }
  for (const NamedParameter& p : attention->parameters()) {
    Variable(p.variable).value().copy_from(random(p.variable.shape(), 1));
    out.parameters.push_back({p.name, p.variable.shape(), p.initializer.description});
  }
  attention->train(false);
  try {
    run(trial, *attention, out);
  } catch (const NoFusedForm& error) {
    out.failure = error.what(), out.no_fused_form = error.part;
  } catch (const Error& error) {
    out.failure = error.what();
  }
  return out;
}

bool runs(const std::optional<Outcome>& outcome) { return outcome && outcome->failure.empty(); }

/// The places and engines that support an attention.
struct Usage {
  std::vector<std::string> places;
  std::map<std::string, std::vector<std::string>> failures;  ///< the places where it cannot run, by the reason
  std::optional<Trial> trial;    ///< one that runs, in cross-attention if possible; empty if none does
  Place place = Place::encoder;  ///< that of the trial, or else one where the attention can be constructed
  const char* no_fused_form = nullptr;
};

Usage usage_of(const std::string& method, AttentionShape shape = Trial().shape) {
  Usage use;
  for (Place place : {Place::encoder, Place::decoder, Place::cross}) {
    shape.place = place;
    const Trial trial{.method = method, .shape = shape};
    const std::optional<Outcome> outcome = tried(trial);
    if (!outcome) continue;
    if (runs(outcome)) use.places.emplace_back(name_of(place)), use.trial = trial;
    if (!runs(outcome)) use.failures[outcome->failure].emplace_back(name_of(place));
    if (runs(outcome) || !use.trial) use.place = place;
  }
  if (use.trial) use.no_fused_form = tried(*use.trial, AttentionEngine::fused)->no_fused_form;
  return use;
}

/// Collects changes of single options: every value of a choice or flag that is not its default, "window=layer", and for
/// an integer whose default is its smallest value the next one, "dilation=2", which stands for "dilation > 1".
class Changes : public OptionVisitor {
 public:
  void number(const char*, double&, double, double, const char*) override {}
  void integer(const char* name, std::int64_t& value, std::int64_t lowest, std::int64_t, const char*) override {
    if (value == lowest)
      larger.emplace_back(fmt::format("{}={}", name, value + 1), fmt::format("{} > {}", name, value));
  }
  void flag(const char* name, bool& value, const char*) override { add(name, value ? "false" : "true"); }
  void choice(const char* name, int& value, const std::vector<std::string>& choices, const char*) override {
    for (std::size_t k = 0; k < choices.size(); ++k)
      if (static_cast<int>(k) != value) add(name, choices[k]);
  }
  std::vector<std::pair<std::string, std::string>> words, larger;  ///< changes, and how a description calls them

 private:
  void add(const std::string& name, const std::string& value) {
    words.emplace_back(name + "=" + value, name + "=" + value);
  }
};

/// A method with one option changed.
struct Alternative {
  std::string option, method;  ///< "window=layer", "gaussian(window=layer)"
  Usage use;
};

/// All alternatives of a method that is given by its name alone; none for other specifications. First those of words,
/// then those of larger numbers.
struct Alternatives {
  explicit Alternatives(const std::string& method) {
    const MethodEntry* entry = find_method(method);
    if (!entry) return;
    Changes changes;
    entry->configure(changes);
    for (auto [from, to] : {std::pair(&changes.words, &words), std::pair(&changes.larger, &larger)})
      for (const auto& [option, text] : *from) {
        const std::string changed = fmt::format("{}({})", method, option);
        to->push_back({text, changed, usage_of(changed)});
      }
  }
  std::vector<Alternative> words, larger;
};

/// The text for the column "engines", such as "fused (not with mask=discrete), blockwise, composed".
std::string engines_text(const Usage& use, const Alternatives& alternatives) {
  if (!use.trial) return "";
  if (use.no_fused_form) return fmt::format("blockwise, composed (no fused form: {})", use.no_fused_form);
  std::vector<std::string> without;
  for (const auto* list : {&alternatives.words, &alternatives.larger})
    for (const Alternative& alternative : *list)
      if (alternative.use.no_fused_form) without.push_back(alternative.option);
  return without.empty() ? "fused, blockwise, composed"
                         : fmt::format("fused (not with {}), blockwise, composed", listed(without));
}

/// The specification itself, or a simple example if it is only the name of a combination.
std::string completed(const std::string& method) {
  if (method == "classic") return "classic(dot)";
  if (method == "multi_head") return "multi_head(global)";
  return find_combination(method) ? method + "(dot*2)" : method;
}

// ---- Sizes as letters

constexpr std::int64_t d_e = 1009;  // width of the step input, no other size or multiple of one

/// A letter and its value in two runs.
struct Letter {
  std::string name;
  std::array<std::int64_t, 2> value;
};

/// The expression for a size that is a in the first run and b in the second: "d", "2 d", "d / 2", "D + d_e", "2 H + 1",
/// or the number if a = b. Empty if no expression fits.
std::string letter_of(const std::vector<Letter>& letters, std::int64_t a, std::int64_t b) {
  if (a == b) return a == d_e ? "d_e" : std::to_string(a);
  for (const auto& [name, value] : letters) {
    const std::int64_t rise = b - a, run = value[1] - value[0];
    if (run % rise == 0 && run / rise > 1 && run / rise * a == value[0])
      return fmt::format("{} / {}", name, run / rise);
    if (rise % run != 0 || rise / run < 1) continue;
    const std::int64_t times = rise / run, more = a - times * value[0];
    // multiples of H plus a number occur where mechanisms are combined
    if (more < 0 || (more > 0 && more != d_e && name != "H")) continue;
    const std::string multiple = times == 1 ? name : fmt::format("{} {}", times, name);
    return more == 0 ? multiple : fmt::format("{} + {}", multiple, more == d_e ? "d_e" : std::to_string(more));
  }
  return "";
}

/// A parameter or a result with letters for its sizes.
struct Lettered {
  std::string name, shape, initial;
  auto operator<=>(const Lettered&) const = default;
};
/// Empty if a size has no letter.
std::optional<std::vector<Lettered>> lettered(const std::vector<Letter>& letters, const std::vector<Sized>& a,
                                              const std::vector<Sized>& b, std::int64_t width) {
  std::vector<Lettered> rows;
  for (std::size_t k = 0; k < a.size(); ++k) {
    std::vector<std::string> sizes;
    for (int dim = 0; dim < a[k].shape.rank(); ++dim)
      sizes.push_back(letter_of(letters, a[k].shape[dim], b[k].shape[dim]));
    if (std::count(sizes.begin(), sizes.end(), "")) return std::nullopt;
    const std::string note = a[k].initial == b[k].initial ? "" : fmt::format(" where d is {}", width);
    rows.push_back({a[k].name, "[" + listed(sizes) + "]", a[k].initial + note});
  }
  return rows;
}

/// Whether the attention has heads with projections: a sum, or a combination with multi_head(...).
bool is_projected(const std::string& method) {
  return !find_combination(parse_specification(method)[0].name) || method.find("multi_head") != std::string::npos;
}

struct Description {
  std::string option, method;
  Place place;
  std::vector<Lettered> parameters, results;
};

/// Runs the attention at two sizes, with as many different widths of queries, keys and values as it allows: three, two
/// or one. The numbers of heads are even and differ, so that half of the width d is "d / 2" and not a multiple of D.
Description described(const std::string& option, const std::string& method, Place place, const AttentionShape& given) {
  std::optional<std::vector<Lettered>> parameters, results;  // of the first widths for which all sizes have letters
  bool step_input = false;
  for (const ReadInput& input : inputs_of(method)) step_input = step_input || input.name == "step_input";
  const bool projected = is_projected(method);
  const bool one_width = place != Place::cross && !find_combination(parse_specification(method)[0].name);
  for (int widths = one_width ? 1 : 3; widths >= 0 && !(parameters && results); --widths) {
    Trial a{.method = method, .shape = given, .own_keys = true}, b = a;
    a.B = 17, a.m = 13, a.n = 23;
    b.B = 11, b.m = 5, b.n = 19;  // primes, which fall where other sizes grow: no two sizes are proportional
    std::vector<Letter> letters{{"B", {17, 11}}, {"m", {13, 5}}, {"n", {23, 19}}};
    if (widths > 0) {
      a.shape = {.model_dim = 120, .heads = 4}, b.shape = {.model_dim = 420, .heads = 6};
      if (projected)
        letters.insert(letters.end(), {{"d", {120, 420}}, {"D", {30, 70}}, {"H", {4, 6}}});
      else
        letters.push_back({"d_q", {120, 420}});
      if (widths == 3) a.shape.key_dim = 180, b.shape.key_dim = 660, letters.push_back({"d_k", {180, 660}});
      if (widths >= 2) a.shape.value_dim = 240, b.shape.value_dim = 780, letters.push_back({"d_v", {240, 780}});
    }
    a.shape.place = b.shape.place = place;
    a.shape.step_dim = b.shape.step_dim = step_input ? d_e : 0;
    const auto x = tried(a), y = tried(b);
    if (!x && widths == 0 && !parameters) attention_factory(method)(a.shape);  // throws the reason
    if (!x || !y || (runs(x) != runs(y))) continue;
    if (!parameters) parameters = lettered(letters, x->parameters, y->parameters, a.shape.model_dim);
    if (!results && (runs(x) || widths == 0)) results = lettered(letters, x->results, y->results, 0);
  }
  Description result{option, method, place, parameters.value_or(std::vector<Lettered>()), {}};
  std::vector<std::string> taken{"query", "key", "value", "lengths", "query_offset", "documents", "allowed"};
  for (const ReadInput& input : inputs_of(method))
    if (input.always) taken.push_back(input.name);
  for (const Lettered& parameter : result.parameters) taken.push_back(parameter.name);
  for (const Lettered& each : results.value_or(std::vector<Lettered>())) {
    taken.push_back(free_name(each.name, taken));
    result.results.push_back({taken.back(), each.shape, ""});
  }
  return result;
}

// ---- Sections of a description

template <class Entry>
std::string card_text(const Entry& entry) {
  const MethodCard& card = entry.card;
  std::string formula = card.formula;
  for (std::size_t at = 0; (at = formula.find('\n', at)) != std::string::npos; at += 3) formula.replace(at, 1, "\n  ");
  std::string text = fmt::format("{}: {} ({})\n  {}\n", card.name, card.summary, card.reference, formula);
  Table options({"option", "default", "values", "meaning"});
  auto rows = describe_options(entry);
  for (const OptionDescription& row : rows) options.row({row.name, row.default_value, row.values, row.meaning});
  return rows.empty() ? text : text + options.text();
}

/// A row of the tables of parameters and results: what, and with which options it is there.
struct Row {
  Lettered what;
  std::string when;
  const Description* of;
};

/// The rows of a method and what its alternatives remove or add. Widths may have other letters in another place, so
/// that names are compared there.
std::vector<Row> rows_of(const Description& usual, const std::vector<Description>& alternatives,
                         std::vector<Lettered> Description::*list) {
  auto has = [&](const Description& in, const Lettered& what, const Description& other) {
    return std::any_of((in.*list).begin(), (in.*list).end(), [&](const Lettered& each) {
      return each == what || (in.place != other.place && each.name == what.name);
    });
  };
  std::vector<Row> rows;
  for (const Lettered& what : usual.*list) {
    std::vector<std::string> without;
    for (const Description& each : alternatives)
      if (!has(each, what, usual)) without.push_back(each.option);
    rows.push_back({what, without.empty() ? "always" : "not with " + listed(without), &usual});
  }
  for (const Description& each : alternatives)
    for (const Lettered& what : each.*list) {
      if (has(usual, what, each)) continue;
      auto same = std::find_if(rows.begin(), rows.end(), [&](const Row& row) { return row.what == what; });
      if (same == rows.end())
        rows.push_back({what, each.option, &each});
      else
        same->when += ", " + each.option;
    }
  return rows;
}

/// A note on the parameters of shape [H, ...] which have the shape [...] with one head; "" if there is none.
std::string without_heads_text(const std::vector<Row>& rows) {
  std::vector<std::string> without;
  bool all = true;
  for (const Row& row : rows) {
    if (!row.what.shape.starts_with("[H, ")) continue;
    const auto one_head =
        tried({.method = row.of->method, .shape = {.model_dim = 33, .heads = 1, .place = row.of->place}});
    if (!one_head) continue;
    for (const Sized& p : one_head->parameters) {
      if (p.name != row.what.name) continue;
      const bool is_absent = std::count(row.what.shape.begin(), row.what.shape.end(), ',') + 1 != p.shape.rank();
      if (is_absent) without.push_back(p.name);
      all = all && is_absent;
    }
  }
  if (without.empty()) return "";
  return fmt::format("{}: with one head, the dimension H is absent\n", all ? "[H, ...]" : listed(without));
}

/// Appends `rows` to the table. Of a long list the middle is left out: a specification may combine a thousand
/// mechanisms with parameters of their own.
void add_rows(Table& table, std::vector<std::vector<Cell>> rows) {
  constexpr std::size_t most = 60, last = 10;
  if (rows.size() > most) {
    std::vector<Cell> gap(rows[0].size(), "");
    gap[0] = fmt::format("... {} more", rows.size() - most + 1);
    const auto end = rows.end() - static_cast<std::ptrdiff_t>(last);
    rows.insert(rows.erase(rows.begin() + static_cast<std::ptrdiff_t>(most - last - 1), end), gap);
  }
  for (std::vector<Cell>& row : rows) table.row(std::move(row));
}

std::string parameters_text(const std::vector<Row>& rows) {
  if (rows.empty()) return "no parameters\n";
  Table table({"parameter", "shape", "initial values", "present when"});
  std::vector<std::vector<Cell>> cells;
  for (const Row& row : rows) cells.push_back({row.what.name, row.what.shape, row.what.initial, row.when});
  add_rows(table, std::move(cells));
  return table.text() + without_heads_text(rows);
}

std::string results_text(const std::vector<Row>& rows) {
  Table table({"result", "shape", "present when"});
  std::vector<std::vector<Cell>> cells;
  for (const Row& row : rows)
    cells.push_back(
        {row.what.name, row.what.shape, row.what.name == "weights" && row.when == "always" ? "--weights" : row.when});
  add_rows(table, std::move(cells));
  return table.text();
}

std::string inputs_text(const Trial& trial) {
  const std::vector<ReadInput> inputs = inputs_of(trial.method);
  auto reads = [&](const std::string& name) {
    return std::any_of(inputs.begin(), inputs.end(), [&](const ReadInput& input) { return input.name == name; });
  };
  Trial packed = trial, late = trial;
  packed.documents = true;
  late.query_offset = 5000;  // beyond the reach of any window with default options
  bool documents = false;
  for (Place place : {Place::encoder, Place::decoder}) {
    packed.shape.place = place;
    documents = documents || runs(tried(packed));
  }
  const auto at_start = tried(trial), at_offset = tried(late);
  const bool position = runs(at_offset) && at_offset->output != at_start->output;
  Table table({"input", "shape", ""});
  table.row({"query, key, value",
             fmt::format("[B, m, {}], [B, n, d_k], [B, n, d_v]", is_projected(trial.method) ? "d" : "d_q"),
             "without key: self-attention; without value: the keys"});
  table.row({"lengths", "[B]", "number of real keys of each sentence; the rest is padding"});
  table.row({"allowed", "[B or 1, H or 1, m or 1, n]", "bool or u8; false where a query must not see a key"});
  if (documents)
    table.row({"documents", "[B, n]", "in self-attention: number of each token's document, if a row has several"});
  static const std::vector<std::array<std::string, 4>> optional{
      {"mask", "mask", "[B or 1, H or 1, m or 1, n]", "numbers in [0, 1]; needed"},
      {"left_pointer", "left_pointer, right_pointer", "[B or 1, H or 1, m or 1] or [B or 1, H or 1, m or 1, n]",
       "positions of keys, i32 or i64, or distributions over the keys"},
      {"grid", "grid", "[n, 2] or [B or 1, n, 2]", "row and column of each token, i32 or i64"},
      {"step_input", "step_input", "[B, m, d_e]",
       "the decoder's input at each step; with it, parameters have other shapes"},
      {"previous_focus", "previous_focus", "[B] or [B, H]",
       "the focus before the first query, a position among the keys"}};
  for (const auto& [name, names, shape, text] : optional)
    for (const ReadInput& input : inputs)
      if (input.name == name) table.row({names, shape, input.always ? text : text + "; with " + input.with});
  table.row(
      {"query_offset or step", "[1]",
       fmt::format("position of the first query{}", reads("previous_focus") ? "; after position 0 with previous_focus"
                                                    : position              ? ""
                                                                            : "; read only with --causal")});
  return table.text();
}

}  // namespace

std::string attention_catalogue() {
  std::string text =
      "Methods are combined with '+'. Each also takes layers=FIRST-LAST and heads=FIRST-LAST, counted from 1.\n"
      "heads(global*2, gaussian*2) assigns different methods to different heads.\n";
  for (const MethodEntry& entry : registered_methods()) text += "\n" + card_text(entry);
  text +=
      "\nA sum alone is multi-head attention with projections. Attention without projections, and combinations of\n"
      "several attentions: classic(additive), average(dot*2, laplace), average(multi_head(global), "
      "multi_head(gaussian))\n";
  for (const Combination& entry : combinations()) text += "\n" + card_text(entry);
  return text;
}

Table attention_table() {
  Table table({"name", "what it does", "paper", "where", "engines (fused: on the CPU only)"});
  auto add = [&](const MethodCard& card) {
    const Usage use = usage_of(completed(card.name));
    table.row(
        {card.name, card.summary, card.reference, listed(use.places), engines_text(use, Alternatives(card.name))});
  };
  for (const MethodEntry& entry : registered_methods()) add(entry.card);
  table.rule();
  for (const Combination& entry : combinations()) add(entry.card);
  return table;
}

std::string describe_attention(const std::string& specification, const AttentionShape& given) {
  const std::string method = completed(specification);
  attention_factory(method);  // throws Error if the specification has a mistake
  std::string text;
  std::set<std::string> seen;
  const std::vector<MethodText> sum = parse_specification(method);
  for (const MethodText* part : all_methods(sum)) {
    if (!seen.insert(part->name).second) continue;
    if (const Combination* combination = find_combination(part->name)) text += card_text(*combination) + "\n";
    if (const MethodEntry* entry = find_method(part->name)) text += card_text(*entry) + "\n";
  }
  Usage use = usage_of(method);
  if (!use.trial) use = usage_of(method, given);
  const Alternatives alternatives(method);
  text += fmt::format("where: {}\n",
                      use.trial ? listed(use.places) + "; engines: " + engines_text(use, alternatives) : "nowhere");
  if (use.trial && !use.no_fused_form) text += "  fused: on the CPU only; a GPU has the other engines\n";
  for (const auto& [failure, places] : use.failures)
    text += fmt::format("  not {}: {}\n", listed(places), without_middle(failure, 200));

  const Description usual = described("", method, use.place, given);
  std::vector<Description> others;
  for (const Alternative& each : alternatives.words)
    if (each.use.trial) others.push_back(described(each.option, each.method, each.use.place, given));
  text += "\n" + parameters_text(rows_of(usual, others, &Description::parameters));
  if (!use.trial) return text;
  return text + "\n" + inputs_text(*use.trial) + "\n" + results_text(rows_of(usual, others, &Description::results));
}

}  // namespace fovea
