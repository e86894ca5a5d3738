#include "experiments/support/attend/attention_catalogue.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "attention/engine/attend.h"
#include "attention/language/specification.h"
#include "attention/method.h"
#include "attention/registry.h"
#include "experiments/support/attend/attention_case.h"
#include "tensor/support/in_quotes.h"
#include "tensor/support/warning.h"

namespace fovea {

namespace {

// ---- Running an attention on random numbers

constexpr std::int64_t d_e = 7, H = 3, d = 33;  // width of the step input, heads and width of the model in trials

/// One attention on random numbers.
struct Trial {
  std::string method;
  AttentionShape shape = {.model_dim = d, .heads = H};
  AttentionEngine engine = AttentionEngine::composed;
  bool mask = true, pointers = false, grid = false, documents = false, previous_focus = false;
  std::int64_t query_offset = 0;
  std::int64_t B = 6, m = 5, n = 13;
  bool own_keys = false;  ///< in self-attention: n keys of their own, instead of the m queries as keys
};

/// The results of a trial.
struct Outcome {
  std::int64_t parameters;
  std::vector<float> output;
  std::vector<std::string> parameter_names;
  std::vector<std::pair<std::string, Shape>> results;  ///< shapes of output, weights and the method's quantities
  bool operator==(const Outcome& other) const { return parameters == other.parameters && output == other.output; }
};

Tensor random(const Shape& shape, std::uint64_t seed, double low = -1) {
  Tensor x = Tensor::empty(shape);
  Generator generator(seed);
  fill_uniform(x, generator, low, 1);
  return x;
}

/// A grid with rows of three tokens, [tokens, 2].
Tensor grid_of(std::int64_t tokens) {
  std::vector<std::int64_t> grid;
  for (std::int64_t t = 0; t < tokens; ++t) grid.insert(grid.end(), {t / 3, t % 3});
  return Tensor::from(grid, {tokens, 2});
}

Outcome outcome_of(const Trial& trial) {
  const AttentionShape& shape = trial.shape;
  auto width = [&](std::int64_t own) { return own > 0 ? own : shape.model_dim; };
  auto attention = attention_factory(trial.method)(shape);
  for (const NamedParameter& parameter : attention->parameters())
    Variable(parameter.variable).value().copy_from(random(parameter.variable.shape(), 1));
  attention->train(false);
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
  if (trial.mask) in.mask = random({1, 1, trial.m, keys}, 5, 0);
  if (shape.step_dim) in.step_input = random({trial.B, trial.m, shape.step_dim}, 6);
  if (trial.pointers) in.left_pointer = Tensor::full({1, 1, 1}, 1, DType::i64);
  if (trial.pointers) in.right_pointer = Tensor::full({1, 1, 1}, 2, DType::i64);
  if (trial.grid) in.grid = grid_of(keys);
  if (trial.documents) in.documents = Tensor::zeros({trial.B, keys}, DType::i64);
  if (trial.previous_focus) in.previous_focus = Tensor::full({trial.B}, 2);
  NoGrad off;
  Variable output = attention->forward(in);
  Outcome out{attention->parameter_count(), output.value().to_vector<float>(), {}, {}};
  for (const NamedParameter& parameter : attention->parameters()) out.parameter_names.push_back(parameter.name);
  out.results = {{"output", output.shape()}, {"weights", trace.weights.shape()}};
  for (const auto& [name, value] : trace.quantities) out.results.emplace_back(name, value.shape());
  return out;
}

/// The outcome of a trial; empty if the attention is not defined for it or the engine cannot compute it.
std::optional<Outcome> tried(const Trial& trial) {
  AttentionEngineScope engine(trial.engine);
  NoWarnings quiet;
  try {
    return outcome_of(trial);
  } catch (const Error&) {
    return {};
  }
}

/// The part of an attention that the fused engine cannot compute; null if there is none.
const char* part_without_fused_form(const Trial& trial) {
  AttentionEngineScope engine(AttentionEngine::fused);
  NoWarnings quiet;
  try {
    outcome_of(trial);
  } catch (const NoFusedForm& error) {
    return error.part;
  }
  return nullptr;
}

/// The error of a trial whose attention can be constructed but cannot run; "" if it runs, or cannot be constructed: a
/// method that is not defined in a place refuses to be constructed there.
std::string failure_of(const Trial& trial) {
  AttentionEngineScope engine(trial.engine);
  NoWarnings quiet;
  bool is_made = false;
  try {
    attention_factory(trial.method)(trial.shape);
    is_made = true;
    outcome_of(trial);
  } catch (const Error& error) {
    return is_made ? error.what() : "";
  }
  return "";
}

/// The places and engines that support an attention.
struct Usage {
  std::vector<std::string> places;
  std::map<std::string, std::vector<std::string>> failures;  ///< the places where it cannot run, by failure_of()
  std::optional<Trial> trial;           ///< a trial that works, in cross-attention if possible; empty if none does
  std::optional<Place> place;           ///< that of the trial, or else one where the attention can be constructed
  const char* no_fused_form = nullptr;  ///< NoFusedForm::part; null: the fused engine can compute it
};

Usage usage_of(const std::string& method, AttentionShape shape = {.model_dim = d, .heads = H}) {
  Usage use;
  for (auto [place, name] :
       {std::pair(Place::encoder, "encoder"), std::pair(Place::decoder, "decoder"), std::pair(Place::cross, "cross")}) {
    shape.place = place;
    Trial trial{.method = method, .shape = shape};
    if (!tried(trial)) {
      const std::string failure = failure_of(trial);
      if (failure.empty()) continue;
      use.failures[failure].emplace_back(name);
      use.place = place;
      continue;
    }
    use.places.emplace_back(name);
    use.trial = trial;
  }
  if (!use.trial) return use;
  use.place = use.trial->shape.place;
  use.no_fused_form = part_without_fused_form(*use.trial);
  return use;
}

/// Collects every value of a choice or flag that is not its default: "window=layer", ...
class OtherValues : public OptionVisitor {
 public:
  void number(const char*, double&, double, double, const char*) override {}
  void integer(const char*, std::int64_t&, std::int64_t, std::int64_t, const char*) override {}
  void flag(const char* name, bool& value, const char*) override {
    found.push_back(fmt::format("{}={}", name, !value));
  }
  void choice(const char* name, int& value, const std::vector<std::string>& choices, const char*) override {
    for (std::size_t k = 0; k < choices.size(); ++k)
      if (static_cast<int>(k) != value) found.push_back(fmt::format("{}={}", name, choices[k]));
  }
  std::vector<std::string> found;
};

/// A method with one option changed.
struct Alternative {
  std::string option, method;  ///< "window=layer", "gaussian(window=layer)"
  Usage use;
};

/// All alternatives of a method that is given by its name alone; none for other specifications.
std::vector<Alternative> alternatives_of(const std::string& method) {
  std::vector<Alternative> alternatives;
  const MethodEntry* entry = find_method(method);
  if (!entry) return alternatives;
  OtherValues values;
  entry->configure(values);
  for (const std::string& option : values.found) {
    std::string changed = fmt::format("{}({})", method, option);
    alternatives.push_back({option, changed, usage_of(changed)});
  }
  return alternatives;
}

/// For each integer option whose default is its smallest value, collects the next value, "dilation=2", and a text for
/// all larger values, "dilation > 1".
class NextNumbers : public OptionVisitor {
 public:
  void number(const char*, double&, double, double, const char*) override {}
  void integer(const char* name, std::int64_t& value, std::int64_t lowest, std::int64_t, const char*) override {
    if (value == lowest) found.emplace_back(fmt::format("{}={}", name, value + 1), fmt::format("{} > {}", name, value));
  }
  void flag(const char*, bool&, const char*) override {}
  void choice(const char*, int&, const std::vector<std::string>&, const char*) override {}
  std::vector<std::pair<std::string, std::string>> found;
};

/// The text for the column "engines", such as "fused (not with mask=discrete), blockwise, composed". `method` is a
/// method's name or another specification.
std::string engines_text(const std::string& method, const Usage& use, const std::vector<Alternative>& alternatives) {
  if (!use.trial) return "";
  if (use.no_fused_form) return fmt::format("blockwise, composed (no fused form: {})", use.no_fused_form);
  std::vector<std::string> without;
  for (const Alternative& alternative : alternatives)
    if (alternative.use.trial && alternative.use.no_fused_form) without.push_back(alternative.option);
  if (const MethodEntry* entry = find_method(method)) {
    NextNumbers numbers;
    entry->configure(numbers);
    for (const auto& [option, larger] : numbers.found)
      if (const Usage next = usage_of(fmt::format("{}({})", method, option)); next.trial && next.no_fused_form)
        without.push_back(larger);
  }
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

/// A shape, and letters for the sizes that occur in it.
struct Lettered {
  AttentionShape shape;
  std::vector<std::pair<std::string, std::int64_t>> letters;
};
using Pair = std::array<Lettered, 2>;

/// The expression for a size that is a for pair[0] and b for pair[1]: "d", "2 d", "d / 2", "D + d_e", "2 H + 1", or the
/// number if a = b. Empty if no expression fits.
std::string letter_of(const Pair& pair, std::int64_t a, std::int64_t b) {
  if (a == b) return a == pair[0].shape.step_dim ? "d_e" : std::to_string(a);
  auto find = [&](auto&& text) {
    std::string found;
    for (std::size_t k = 0; found.empty() && k < pair[0].letters.size(); ++k)
      found = text(pair[0].letters[k].first, pair[0].letters[k].second, pair[1].letters[k].second);
    return found;
  };
  std::string found = find([&](const std::string& letter, std::int64_t x, std::int64_t y) {
    return a == x && b == y ? letter : a == x + d_e && b == y + d_e ? letter + " + d_e" : "";
  });
  if (!found.empty()) return found;
  found = find([&](const std::string& letter, std::int64_t x, std::int64_t y) {
    if (a % x == 0 && a / x * y == b) return fmt::format("{} {}", a / x, letter);
    return x % a == 0 && x / a * b == y ? fmt::format("{} / {}", letter, x / a) : std::string();
  });
  if (!found.empty()) return found;
  return find([&](const std::string& letter, std::int64_t x, std::int64_t y) -> std::string {
    const std::int64_t times = letter == "H" ? (b - a) / (y - x) : 0,
                       more = a - times * x;  // multiples of H plus a number occur where mechanisms are combined
    if (times < 1 || more < 1 || times * y + more != b) return "";
    return times == 1 ? fmt::format("H + {}", more) : fmt::format("{} H + {}", times, more);
  });
}

struct Parameter {
  std::string name, shape, initial;
  auto operator<=>(const Parameter&) const = default;
};

/// A row of the table of parameters, and a method and place that have the parameter.
struct ParameterRow {
  Parameter parameter;
  std::string when, method;
  Place place;
};

/// The parameters for this shape, with numbers for sizes. Throws Error if the attention is not defined for it.
std::vector<Parameter> parameters_at(const std::string& method, const AttentionShape& shape) {
  std::vector<Parameter> rows;
  for (auto attention = attention_factory(method)(shape); const NamedParameter& p : attention->parameters())
    rows.push_back({p.name, p.variable.shape().str(), p.initializer.description});
  return rows;
}

/// The parameters with letters for sizes; empty if the attention is not defined for both shapes or a size has no
/// letter.
std::optional<std::vector<Parameter>> parameters_in_letters(const std::string& method, const Pair& pair) try {
  std::vector<Parameter> rows;
  auto a = attention_factory(method)(pair[0].shape), b = attention_factory(method)(pair[1].shape);
  auto first = a->parameters(), second = b->parameters();
  for (std::size_t k = 0; k < first.size(); ++k) {
    const Shape &x = first[k].variable.shape(), &y = second[k].variable.shape();
    std::vector<std::string> letters;
    for (int dim = 0; dim < x.rank(); ++dim) letters.push_back(letter_of(pair, x[dim], y[dim]));
    if (std::count(letters.begin(), letters.end(), "")) return std::nullopt;
    std::string initial = first[k].initializer.description;
    if (initial != second[k].initializer.description) initial += fmt::format(" where d is {}", pair[0].shape.model_dim);
    rows.push_back({first[k].name, "[" + listed(letters) + "]", initial});
  }
  return rows;
} catch (const Error&) {
  return std::nullopt;
}

/// Whether the attention has heads with projections: a sum, or a combination with multi_head(...).
bool is_projected(const std::string& method) {
  return !find_combination(parse_specification(method)[0].name) || method.find("multi_head") != std::string::npos;
}

/// Pairs of shapes to compare, the most general first. For attention with projections of one sequence: widths d.
/// Otherwise: queries, keys and values of three widths; queries and keys of one width and values of another; all of one
/// width.
std::vector<Pair> pairs_for(const std::string& method, Place place, std::int64_t step_dim) {
  auto lettered = [&](int heads, std::int64_t head_dim) {
    return Lettered{{.model_dim = heads * head_dim, .heads = heads, .place = place, .step_dim = step_dim},
                    {{"d", heads * head_dim}, {"D", head_dim}, {"H", heads}}};
  };
  // the numbers of heads are even and differ, so that half of the width d is "d / 2" and not a multiple of D
  const Pair projected{lettered(4, 30), lettered(6, 70)};
  if (!find_combination(parse_specification(method)[0].name) && place != Place::cross) return {projected};
  Pair three = projected, two = projected, one = projected;
  for (std::size_t k = 0; k < 2; ++k) {
    const std::int64_t d_q = projected[k].shape.model_dim, d_k = k == 0 ? 180 : 660, d_v = k == 0 ? 240 : 780;
    auto set = [&](Lettered& sizes, std::int64_t key_dim, std::int64_t value_dim) {
      sizes.shape.query_dim = d_q;
      sizes.shape.key_dim = key_dim;
      sizes.shape.value_dim = value_dim;
      if (!is_projected(method)) sizes.letters = {{"d_q", d_q}};
      if (key_dim != d_q) sizes.letters.emplace_back("d_k", key_dim);
      if (value_dim != d_q) sizes.letters.emplace_back("d_v", value_dim);
    };
    set(three[k], d_k, d_v);
    set(two[k], d_q, d_v);
    set(one[k], d_q, d_q);
  }
  return {three, two, one};
}

std::vector<Parameter> parameters_of(const std::string& method, const AttentionShape& shape) {
  for (const Pair& pair : pairs_for(method, shape.place, shape.step_dim))
    if (auto rows = parameters_in_letters(method, pair)) return *rows;
  return parameters_at(method, shape);
}

// ---- Sections of a description

std::string indented(const std::string& lines) {
  std::string out = "  ";
  for (char c : lines) out += c == '\n' ? std::string("\n  ") : std::string(1, c);
  return out + "\n";
}

template <class Entry>
std::string card_text(const Entry& entry) {
  const MethodCard& card = entry.card;
  std::string text = fmt::format("{}: {} ({})\n", card.name, card.summary, card.reference) + indented(card.formula);
  Table options({"option", "default", "values", "meaning"});
  auto rows = describe_options(entry);
  for (const OptionDescription& row : rows) options.row({row.name, row.default_value, row.values, row.meaning});
  return rows.empty() ? text : text + options.text();
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

/// Appends the card of each method and combination in the sum, each once, in order of appearance.
void add_cards(const std::vector<MethodText>& sum, std::set<std::string>& seen, std::string& text) {
  for (const MethodText& method : sum) {
    bool is_new = seen.insert(method.name).second;
    if (const Combination* combination = find_combination(method.name); combination && is_new)
      text += card_text(*combination) + "\n";
    if (const MethodEntry* entry = find_method(method.name); entry && is_new) text += card_text(*entry) + "\n";
    for (const Share& share : method.shares) add_cards(share.sum, seen, text);
  }
}

/// A note on the parameters of shape [H, ...] which have the shape [...] with one head; "" if there is none.
std::string without_heads_text(const std::vector<ParameterRow>& rows) {
  std::vector<std::string> without;
  std::size_t with = 0;
  for (const ParameterRow& row : rows) {
    if (!row.parameter.shape.starts_with("[H, ")) continue;
    const auto dimensions = std::count(row.parameter.shape.begin(), row.parameter.shape.end(), ',');
    AttentionShape one_head{.model_dim = d, .heads = 1, .place = row.place};
    std::vector<Parameter> all;
    try {
      all = parameters_at(row.method, one_head);
    } catch (const Error&) {
      continue;  // not defined for one head
    }
    for (const Parameter& p : all) {
      if (p.name != row.parameter.name) continue;
      if (std::count(p.shape.begin(), p.shape.end(), ',') == dimensions)
        ++with;
      else
        without.push_back(p.name);
    }
  }
  if (without.empty()) return "";
  return fmt::format("{}: with one head, the dimension H is absent\n", with == 0 ? "[H, ...]" : listed(without));
}

std::string parameters_text(const std::string& method, const AttentionShape& shape,
                            const std::vector<Alternative>& alternatives) {
  std::vector<Parameter> usual = parameters_of(method, shape);
  std::vector<ParameterRow> rows;
  std::map<std::string, std::vector<std::string>> without;  // for each parameter, the options that remove it
  for (const Alternative& alternative : alternatives) {
    if (!alternative.use.trial || alternative.use.trial->shape.place != shape.place) continue;
    const std::vector<Parameter> all = parameters_of(alternative.method, shape);
    for (const Parameter& p : usual)
      if (std::none_of(all.begin(), all.end(), [&](const Parameter& own) { return own.name == p.name; }))
        without[p.name].push_back(alternative.option);
  }
  for (const Parameter& p : usual)
    rows.push_back(
        {p, without.contains(p.name) ? "not with " + listed(without[p.name]) : "always", method, shape.place});
  for (const Alternative& alternative : alternatives) {
    AttentionShape own = shape;
    if (alternative.use.trial) own.place = alternative.use.trial->shape.place;
    auto is_known = [&](const Parameter& p) {  // widths may have other letters in another place, so compare names there
      return std::any_of(usual.begin(), usual.end(), [&](const Parameter& known) {
        return known == p || (own.place != shape.place && known.name == p.name);
      });
    };
    for (const Parameter& p : parameters_of(alternative.method, own))
      if (!is_known(p)) rows.push_back({p, alternative.option, alternative.method, own.place});
  }
  Table table({"parameter", "shape", "initial values", "present when"});
  std::vector<std::vector<Cell>> cells;
  for (const ParameterRow& row : rows)
    cells.push_back({row.parameter.name, row.parameter.shape, row.parameter.initial, row.when});
  add_rows(table, std::move(cells));
  if (rows.empty()) return "no parameters\n";
  return table.text() + without_heads_text(rows);
}

/// Which optional inputs an attention reads: those that change the output when they are added or left out.
struct Reads {
  enum Mask { no, yes, needed } mask = no;
  bool pointers = false, grid = false, documents = false, step_input = false, previous_focus = false, position = false;

  /// The names of the inputs that are read.
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    if (mask != no) names.emplace_back("mask");
    if (pointers) names.insert(names.end(), {"left_pointer", "right_pointer"});
    if (grid) names.emplace_back("grid");
    if (step_input) names.emplace_back("step_input");
    if (previous_focus) names.emplace_back("previous_focus");
    return names;
  }
};

Reads reads_of(const Trial& trial) {
  Reads reads;
  Trial none = trial, changed = trial;
  none.mask = false;
  auto without = tried(none), with = tried(trial);
  if (!without || !(*without == *with)) reads.mask = without ? Reads::yes : Reads::needed;
  changed.pointers = true;
  if (auto out = tried(changed)) reads.pointers = !(*out == *with);
  changed = trial;
  changed.grid = true;
  if (auto out = tried(changed)) reads.grid = !(*out == *with);
  for (Place place : {Place::encoder, Place::decoder}) {
    changed = trial;
    changed.shape.place = place;
    changed.documents = true;
    reads.documents = reads.documents || tried(changed);
  }
  changed = trial;
  changed.shape.step_dim = d_e;
  if (auto out = tried(changed)) reads.step_input = !(*out == *with);
  changed = trial;
  changed.previous_focus = true;
  auto focused = tried(changed);
  reads.previous_focus = focused && !(*focused == *with);
  changed.query_offset = 5000;  // beyond the reach of any window with default options
  if (auto out = tried(changed)) reads.position = !(*out == *focused);
  return reads;
}

std::string inputs_text(const Trial& trial, const Reads& reads, const std::vector<Alternative>& alternatives) {
  std::vector<std::string> with_pointers;  // the options with which the pointers are read
  for (const Alternative& alternative : alternatives)
    if (!reads.pointers && alternative.use.trial && reads_of(*alternative.use.trial).pointers)
      with_pointers.push_back(alternative.option);
  Table table({"input", "shape", ""});
  table.row({"query, key, value",
             fmt::format("[B, m, {}], [B, n, d_k], [B, n, d_v]", is_projected(trial.method) ? "d" : "d_q"),
             "without key: self-attention; without value: the keys"});
  table.row({"lengths", "[B]", "number of real keys of each sentence; the rest is padding"});
  table.row({"allowed", "[B or 1, H or 1, m or 1, n]", "bool or u8; false where a query must not see a key"});
  if (reads.documents)
    table.row({"documents", "[B, n]", "in self-attention: number of each token's document, if a row has several"});
  if (reads.mask != Reads::no)
    table.row({"mask", "[B or 1, H or 1, m or 1, n]",
               reads.mask == Reads::needed ? "numbers in [0, 1]; needed" : "numbers in [0, 1]"});
  if (reads.pointers || !with_pointers.empty())
    table.row({"left_pointer, right_pointer", "[B or 1, H or 1, m or 1] or [B or 1, H or 1, m or 1, n]",
               "positions of keys, i32 or i64, or distributions over the keys" +
                   (reads.pointers ? "" : "; with " + listed(with_pointers))});
  if (reads.grid) table.row({"grid", "[n, 2] or [B or 1, n, 2]", "row and column of each token, i32 or i64"});
  if (reads.step_input)
    table.row({"step_input", "[B, m, d_e]", "the decoder's input at each step; with it, parameters have other shapes"});
  if (reads.previous_focus)
    table.row({"previous_focus", "[B] or [B, H]", "the focus before the first query, a position among the keys"});
  table.row(
      {"query_offset or step", "[1]",
       fmt::format("position of the first query{}", reads.previous_focus ? "; after position 0 with previous_focus"
                                                    : reads.position     ? ""
                                                                         : "; read only with --causal")});
  return table.text();
}

/// A tensor that a run writes: its name in the file, and its shape in letters.
struct Result {
  std::string name, shape;
  auto operator<=>(const Result&) const = default;
};

/// The results with letters for sizes; empty if the attention cannot run with both shapes or a size has no letter.
std::optional<std::vector<Result>> results_in_letters(const std::string& method, Pair pair, const Reads& reads) {
  Trial first{.method = method, .shape = pair[0].shape, .own_keys = true}, second = first;
  second.shape = pair[1].shape;
  first.B = 17, first.m = 13, first.n = 23;  // primes, which fall where other sizes grow: no two sizes are proportional
  second.B = 11, second.m = 5, second.n = 19;
  for (auto [trial, sizes] : {std::pair(&first, &pair[0]), std::pair(&second, &pair[1])})
    sizes->letters.insert(sizes->letters.begin(), {{"B", trial->B}, {"m", trial->m}, {"n", trial->n}});
  auto a = tried(first), b = tried(second);
  if (!a || !b) return std::nullopt;
  std::vector<std::string> taken = a->parameter_names;
  taken.insert(taken.end(), {"query", "key", "value", "lengths", "query_offset", "documents", "allowed"});
  for (const std::string& name : reads.names()) taken.push_back(name);
  std::vector<Result> results;
  for (std::size_t k = 0; k < a->results.size(); ++k) {
    const Shape &x = a->results[k].second, &y = b->results[k].second;
    std::vector<std::string> letters;
    for (int dim = 0; dim < x.rank(); ++dim) letters.push_back(letter_of(pair, x[dim], y[dim]));
    if (std::count(letters.begin(), letters.end(), "")) return std::nullopt;
    taken.push_back(free_name(a->results[k].first, taken));
    results.push_back({taken.back(), "[" + listed(letters) + "]"});
  }
  return results;
}

std::vector<Result> results_of(const std::string& method, const AttentionShape& shape, const Reads& reads) {
  for (const Pair& pair : pairs_for(method, shape.place, shape.step_dim))
    if (auto results = results_in_letters(method, pair, reads)) return *results;
  return results_in_letters(method, {Lettered{shape, {}}, Lettered{shape, {}}}, reads).value_or(std::vector<Result>());
}

std::string results_text(const Trial& trial, const Reads& reads, const std::vector<Alternative>& alternatives) {
  const std::vector<Result> usual = results_of(trial.method, trial.shape, reads);
  std::map<Result, std::vector<std::string>> without, with;  // for each result, options that remove or add it
  std::vector<Result> more;
  for (const Alternative& alternative : alternatives) {
    if (!alternative.use.trial) continue;
    const Trial& own = *alternative.use.trial;
    const std::vector<Result> results = results_of(own.method, own.shape, reads_of(own));
    for (const Result& result : usual)
      if (!std::count(results.begin(), results.end(), result)) without[result].push_back(alternative.option);
    for (const Result& result : results) {
      if (std::count(usual.begin(), usual.end(), result)) continue;
      if (with[result].empty()) more.push_back(result);
      with[result].push_back(alternative.option);
    }
  }
  Table table({"result", "shape", "present when"});
  std::vector<std::vector<Cell>> cells;
  for (const Result& result : usual)
    cells.push_back({result.name, result.shape,
                     without.contains(result)   ? "not with " + listed(without[result])
                     : result.name == "weights" ? "--weights"
                                                : "always"});
  for (const Result& result : more) cells.push_back({result.name, result.shape, listed(with[result])});
  add_rows(table, std::move(cells));
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

std::vector<std::string> inputs_read(const std::string& specification, const AttentionShape& shape) {
  AttentionShape one_width{.model_dim = shape.model_dim, .heads = shape.heads};
  Usage use = usage_of(specification, one_width);
  if (!use.trial) return {"mask", "left_pointer", "right_pointer", "grid", "step_input", "previous_focus"};
  return reads_of(*use.trial).names();
}

Table attention_table() {
  Table table({"name", "what it does", "paper", "where", "engines (fused: on the CPU only)"});
  auto add = [&](const MethodCard& card) {
    Usage use = usage_of(completed(card.name));
    table.row({card.name, card.summary, card.reference, listed(use.places),
               engines_text(card.name, use, alternatives_of(card.name))});
  };
  for (const MethodEntry& entry : registered_methods()) add(entry.card);
  table.rule();
  for (const Combination& entry : combinations()) add(entry.card);
  return table;
}

std::string describe_attention(const std::string& specification, const AttentionShape& given) {
  std::string method = completed(specification), text;
  attention_factory(method);  // throws Error if the specification has a mistake
  std::set<std::string> seen;
  add_cards(parse_specification(method), seen, text);
  Usage use = usage_of(method);
  if (!use.trial) use = usage_of(method, given);
  const std::vector<Alternative> alternatives = alternatives_of(method);
  AttentionShape shape = given;
  if (use.place) shape.place = *use.place;
  if (use.trial) {
    Trial with_steps = *use.trial;
    with_steps.shape.step_dim = d_e;
    if (auto out = tried(with_steps); out && out->parameters != tried(*use.trial)->parameters) shape.step_dim = d_e;
  }
  text +=
      fmt::format("where: {}\n",
                  use.trial ? listed(use.places) + "; engines: " + engines_text(method, use, alternatives) : "nowhere");
  if (use.trial && !use.no_fused_form) text += "  fused: on the CPU only; a GPU has the other engines\n";
  for (const auto& [failure, places] : use.failures)
    text += fmt::format("  not {}: {}\n", listed(places), without_middle(failure, 200));
  text += "\n";
  text += parameters_text(method, shape, alternatives);
  if (!use.trial) return text;
  const Reads reads = reads_of(*use.trial);
  return text + "\n" + inputs_text(*use.trial, reads, alternatives) + "\n" +
         results_text(*use.trial, reads, alternatives);
}

}  // namespace fovea
