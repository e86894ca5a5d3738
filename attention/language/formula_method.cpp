#include <algorithm>
#include <optional>

#include "attention/engine/cpu/interpreted.h"
#include "attention/engine/lowered.h"
#include "attention/language/formula_text.h"

namespace fovea {

namespace {

/// A capture that the text of a formula declares: name=head, query, key, pair or offset:CLIP. `clip` is CLIP, the
/// largest distance in an offset's table; 0 for the other kinds.
struct CaptureText {
  std::string name;
  Per per;
  std::int64_t clip = 0;
};

constexpr std::pair<const char*, Per> kinds_of_captures[] = {
    {"head", Per::head}, {"query", Per::query}, {"key", Per::key}, {"pair", Per::pair}};
constexpr std::string_view offset_kind = "offset:";

/// Whether a formula's option is a capture. Those with other meanings count as captures, with names that a formula
/// cannot read, if their value is a kind of captures.
bool is_capture(const OptionText& option) {
  const bool is_quoted = option.value_column == option.name_column + 1;
  if (is_quoted) return false;
  const bool has_meaning = option.name == "formula" || option.name == "layers" || option.name == "heads";
  return !has_meaning || option.value.starts_with(offset_kind) ||
         std::ranges::any_of(kinds_of_captures, [&](const auto& kind) { return option.value == kind.first; });
}

/// The capture name=kind. Throws Error for a kind that does not exist, and for a name that a formula cannot read.
CaptureText capture_of(const std::string& text, const OptionText& option) {
  if (!can_name_capture(option.name))
    fail_at(text, option.name_column, in_quotes(option.name) + " is no name for a capture",
            "; use letters, digits and _, and none of the formula's own words");
  for (const auto& [kind, per] : kinds_of_captures)
    if (option.value == kind) return {option.name, per};
  constexpr std::int64_t largest_clip = 1 << 20;
  if (option.value.starts_with(offset_kind)) {
    const auto clip = number<std::int64_t>(std::string_view(option.value).substr(offset_kind.size())).value_or(-1);
    if (0 <= clip && clip <= largest_clip) return {option.name, Per::offset, clip};
  }
  fail_at(text, option.value_column, option.written(),
          "; use head, query, key, pair or offset:CLIP, whose largest distance CLIP is a whole number");
}

/// The shape of a capture of h heads that has a number for each of I queries and J keys; for one of each, the least
/// shape.
Shape shape_of(const CaptureText& capture, std::int64_t h, std::int64_t I = 1, std::int64_t J = 1) {
  switch (capture.per) {
    case Per::query:
      return {h, I};
    case Per::key:
      return {h, J};
    case Per::pair:
      return {h, I, J};
    case Per::offset:
      return {h, I, 2 * capture.clip + 1};
    default:
      return {h};
  }
}

/// Throws Error unless the capture x of h heads has its least shape, or the full one, with a number for each sentence,
/// query and key of the call, or dimensions of 1 in place of some of the full one's. With fewer dimensions than the
/// least shape it would be read as another table wherever two sizes are equal.
void require_shape(const CaptureText& capture, const Shape& x, std::int64_t h, const AttentionContext& in) {
  const Shape least = shape_of(capture, h);
  Shape full = shape_of(capture, h, in.query.size(2), in.key.size(2));
  if (capture.per != Per::head) full.insert(0, in.query.size(0));
  const int missing = full.rank() - x.rank();
  bool fits = missing >= 0 && x.rank() >= least.rank();
  for (int d = 0; fits && d < x.rank(); ++d) {
    const bool is_table = capture.per == Per::offset && d == x.rank() - 1;
    fits = x[d] == full[d + missing] || (x[d] == 1 && !is_table);
  }
  require(fits, "{}: the capture '{}' is {}; expected {}{}", formula_word, capture.name, x, least,
          least == full ? "" : fmt::format(", at most {}", full));
}

/// The method of a formula.
class FormulaMethod : public LocalnessMethod {
 public:
  FormulaMethod(const MethodShape& shape, PointwiseFormula formula, bool of_weights,
                const std::vector<CaptureText>& captures)
      : formula_(std::move(formula)), of_weights_(of_weights), heads_(shape.heads), texts_(captures) {
    for (const CaptureText& capture : captures)
      captures_.push_back({capture.per,
                           parameter(capture.name, shape_of(capture, shape.heads), Initializer::constant(0)),
                           capture.clip});
  }
  void add_terms(const AttentionContext& in, Plan& plan) override {
    for (std::size_t k = 0; k < captures_.size(); ++k) require_shape(texts_[k], captures_[k].value.shape(), heads_, in);
    (of_weights_ ? plan.windows : plan.biases).push_back({formula_, captures_});
  }

 private:
  PointwiseFormula formula_;
  bool of_weights_;
  std::int64_t heads_;
  std::vector<CaptureText> texts_;
  std::vector<Capture> captures_;
};

/// A formula with its captures, as a specification has them.
struct FormulaText {
  std::string text;
  std::vector<CaptureText> captures;
  ParsedFormula parsed;
};

FormulaText formula_of(const std::string& specification, const MethodText& method, OptionReader& reader) {
  constexpr std::size_t most_captures = 8;  // the operands of the derivatives must fit most_map_operands
  for (const OptionText& option : method.options)
    if (is_capture(option)) capture_of(specification, option);
  const OptionText* formula = reader.find("formula");
  if (!formula)
    fail_at(specification, method.column, method.name + " has no formula",
            "; write pointwise(\"z - exp(slope) * abs(j - i)\", slope=head)");
  FormulaText read{formula->value, {}, {}};
  std::vector<std::string> names;
  for (const OptionText& option : method.options) {
    if (!is_capture(option)) continue;
    read.captures.push_back(capture_of(specification, *reader.find(option.name)));
    names.push_back(option.name);
  }
  if (names.size() > most_captures)
    fail_at(specification, method.column, fmt::format("{} captures", names.size()),
            fmt::format("; at most {}", most_captures));
  read.parsed = parse_formula(read.text, names);
  if (read.parsed.of_weights && !is_linear_in(read.parsed.expression, 0))
    fail_at(
        specification, formula->value_column, "the formula is no multiple of w",
        "; write w * factor, where the factor does not read w: a weight of 0, of a key that the query does not see, "
        "stays 0");
  return read;
}

}  // namespace

MethodMaker formula_maker(const std::string& specification, const MethodText& method, OptionReader& reader) {
  const FormulaText read = formula_of(specification, method, reader);
  std::vector<bool> per_key;
  for (const CaptureText& capture : read.captures) per_key.push_back(is_per_key(capture.per));
  return [interpreted = interpreted_formula(read.parsed.expression, per_key, read.parsed.of_weights),
          of_weights = read.parsed.of_weights, captures = read.captures](const MethodShape& shape) {
    return std::make_unique<FormulaMethod>(shape, interpreted, of_weights, captures);
  };
}

namespace {

/// The class PerHead, ... of a capture of the parameter NAME_, and the shape of the parameter, in C++.
std::pair<std::string, std::string> in_header(const CaptureText& capture) {
  const std::string variable = capture.name + "_";
  switch (capture.per) {
    case Per::query:
      return {"PerQuery{" + variable + "}", "{shape.heads, 1}"};
    case Per::key:
      return {"PerKey{" + variable + "}", "{shape.heads, 1}"};
    case Per::pair:
      return {"PerPair{" + variable + "}", "{shape.heads, 1, 1}"};
    case Per::offset:
      return {fmt::format("PerOffset{{{}, {}}}", variable, capture.clip),
              fmt::format("{{shape.heads, 1, {}}}", 2 * capture.clip + 1)};
    default:
      return {"PerHead{" + variable + "}", "{shape.heads}"};
  }
}

}  // namespace

std::string formula_header(const std::string& name, const std::string& specification) {
  require(can_name_capture(name),
          "{} is no name for a method: a letter, then letters, digits and _, and no word of formulas", in_quotes(name));
  require_free_name(name);
  const std::vector<MethodText> methods = parse_specification(specification);
  require(methods.size() == 1 && methods[0].name == formula_word,
          "{}: expected one {}(\"formula\", NAME=head, ...), and no sum", in_quotes(specification), formula_word);
  OptionReader reader(specification, methods[0]);
  const auto [text, captures, parsed] = formula_of(specification, methods[0], reader);
  for (const char* where : {"layers", "heads"})
    if (const OptionText* option = reader.find(where))
      fail_at(specification, option->name_column, in_quotes(where) + " is no part of a method",
              "; give it where the method is used");
  reader.refuse_unknown();
  std::string arguments, inputs, made, members, terms, constants;
  for (const CaptureText& capture : captures) {
    const auto [term, shape] = in_header(capture);
    arguments += fmt::format(", T of_{}", capture.name);
    inputs += ", of_" + capture.name;
    made += fmt::format("{} {}_(parameter(\"{}\", {}, Initializer::constant(0)))",
                        made.empty() ? "\n      :" : ",\n       ", capture.name, capture.name, shape);
    members += fmt::format("  Variable {}_;\n", capture.name);
    terms += ", " + term;
  }
  for (double constant : parsed.expression.constants) constants += fmt::format("T({:.17g}), ", constant);
  return fmt::format(
      R"(// A method in C++, made from a formula by attend --header; the script `method` compiles it.
#pragma once
#include "attention/registry.h"

namespace fovea {{

{function}
struct Formula_{name} {{
  static constexpr const char* name = "{name}";
  template <class T>
  FOVEA_HD FOVEA_INLINE T operator()(T z, [[maybe_unused]] Position<T> at{arguments}) const {{
    const T inputs[] = {{z, at.query, at.key{inputs}}}, constants[] = {{{constants}T(0)}};
    T result[] = {{z}};
    computed_{name}(inputs, constants, result);
    return result[0];
  }}
}};

class Method_{name} : public LocalnessMethod {{
 public:
  struct Options {{}};
  static constexpr MethodCard card = {{"{name}", "a formula of your own", "your own", R"_({text})_"}};
  static void visit(OptionVisitor&, Options&) {{}}
  Method_{name}([[maybe_unused]] const MethodShape& shape, const Options&){made} {{}}
  void add_terms(const AttentionContext&, Plan& plan) override {{
    plan.{list}.push_back(pointwise(Formula_{name}{{}}{terms}));
  }}

 private:
{members}}};

}}  // namespace fovea

extern "C" const fovea::MethodLibrary fovea_methods = fovea::methods_of<fovea::Method_{name}>;
)",
      fmt::arg("text", text), fmt::arg("name", name),
      fmt::arg("function", source_of(parsed.expression, "computed_" + name)), fmt::arg("arguments", arguments),
      fmt::arg("inputs", inputs), fmt::arg("constants", constants), fmt::arg("made", made),
      fmt::arg("list", parsed.of_weights ? "windows" : "biases"), fmt::arg("terms", terms),
      fmt::arg("members", members));
}

}  // namespace fovea
