/// Pointwise formulas as text: pointwise("z - exp(slope) * abs(j - i)", slope=head).
///
/// A formula of z changes the logit z of each pair, and is one of the biases; a formula of w changes the weight w, and
/// is one of the windows: w times a factor that does not read w, so that a weight of 0 stays 0. Further names are i and
/// j, the positions of query and key in their row in tokens, counted from 0, and the captures. Where a row has several
/// documents, only j - i is the same as in rows of their own. The syntax is Python's:
///
///   + - * /    ** with a whole number from 1 to 16    < <= > >= == !=    and or not    ( )
///   abs exp log log1p sqrt floor tanh sigmoid softplus erf sin cos    minimum(a, b) maximum(a, b)
///   where(condition, a, b), whose branch that is not taken has no effect on the gradient
///
/// Each capture has a kind, which says how many numbers it has. They are parameters of the attention, 0 at the start,
/// with one number for each head or, of an offset, one for each head and distance. A program that calls the attention
/// may put a tensor of the full shape in the place of such a parameter (is_formula_capture()).
///
///   kind           parameter          full shape
///   head           [H]                [H]
///   query          [H, 1]             [B, H, I]
///   key            [H, 1]             [B, H, J]
///   pair           [H, 1, 1]          [B, H, I, J]
///   offset:CLIP    [H, 1, 2 CLIP + 1] [B, H, I, 2 CLIP + 1]: entry clip(j - i, -CLIP, CLIP) + CLIP
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "attention/language/option_reader.h"
#include "tensor/formula/expression.h"

namespace fovea {

/// The word of the grammar that formulas belong to.
inline constexpr const char* formula_word = "pointwise";

/// The entry of pointwise(...) in lists of all methods.
inline constexpr MethodCard formula_card{
    formula_word, "a formula of your own, written as text", "your own",
    "pointwise(\"z - exp(slope) * abs(j - i)\", slope=head)\n"
    "z: the logit of query i and key j; or w: its weight, in a formula w * factor\n"
    "further names are parameters, 0 at the start: NAME=head, query, key, pair or offset:CLIP\n"
    "+ - * / **, comparisons, and, or, not, where(condition, a, b), minimum(a, b), maximum(a, b), abs, exp, log, "
    "log1p,\n"
    "sqrt, floor, tanh, sigmoid, softplus, erf, sin, cos"};

/// A formula with its names resolved.
struct ParsedFormula {
  Expression expression;  ///< of z or w, i, j and the captures, in the order of their names
  bool of_weights;        ///< whether it is a function of w
};

/// Parses a formula. Throws Error with the column for a text that is no formula, for names that are neither z, w, i, j
/// nor captures, for captures that it does not read, and unless it reads either z or w.
ParsedFormula parse_formula(const std::string& text, const std::vector<std::string>& captures);

/// The maker of the method that pointwise(...) stands for. Every option but layers and heads is a capture. Throws Error
/// for a mistake in the formula or in a capture.
MethodMaker formula_maker(const std::string& specification, const MethodText& method, OptionReader& reader);

/// The text of a C++ header that defines the method `name` with the formula of pointwise(...), the whole specification.
/// Its captures are parameters, 0 at the start. The script `method` compiles it, and --methods loads it: the formula is
/// then no longer interpreted. Throws Error for another specification, and for a name that a method cannot have.
std::string formula_header(const std::string& name, const std::string& specification);

/// Whether a capture can have this name: letters, digits and _, and none of the words of formulas.
bool can_name_capture(const std::string& name);

/// Whether the parameter of this name, such as "pointwise.slope", is a capture of a formula.
bool is_formula_capture(std::string_view parameter);

}  // namespace fovea
