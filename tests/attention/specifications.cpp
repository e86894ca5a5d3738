// Specifications: an error has the column and what would be right; a valid specification constructs the attention that
// it describes.
#include <boost/test/unit_test.hpp>

#include "tests/attention/attentions.h"
#include "tests/damage.h"

using namespace fovea;
using namespace fovea::test;

namespace {

std::string error_of(const std::string& specification,
                     AttentionShape shape = {.model_dim = 8, .heads = 4, .layers = 2}) {
  try {
    attention_factory(specification)(shape);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::vector<std::string> names_of(const std::string& specification, int layer) {
  AttentionShape shape{.model_dim = 8, .heads = 4, .layer = layer, .layers = 3};
  std::vector<std::string> names;
  for (auto& parameter : attention_factory(specification)(shape)->parameters()) names.push_back(parameter.name);
  return names;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(specifications)

BOOST_AUTO_TEST_CASE(errors_point_at_the_column) {
  std::string sum = "global";
  for (int k = 0; k < 60; ++k) sum += "+gaussian";
  const std::string shown = error_of(sum + "+nothing+" + sum);  // of a long text, what is around the column
  BOOST_TEST(shown.starts_with("'...an+gaussian+"), shown);
  BOOST_TEST(shown.ends_with("...': no method 'nothing' (column 548); attend --list prints all methods"), shown);
  BOOST_TEST(shown.size() < 180u);
  BOOST_TEST(error_of("gausian(window=query)") ==
             "'gausian(window=query)': no method 'gausian' (column 1); did you mean 'gaussian'?");
  BOOST_TEST(error_of("global + gaussian(windw=query)") ==
             "'global + gaussian(windw=query)': gaussian has no option 'windw' (column 19); did you mean 'window'?");
  BOOST_TEST(error_of("gaussian(window=quary)") ==
             "'gaussian(window=quary)': window=quary (column 17); use one of fixed, layer, query, head");
  BOOST_TEST(error_of("relative(clip=0)") == "'relative(clip=0)': clip=0 (column 15); use an integer from 1 to 65536");
  BOOST_TEST(error_of("relative(clip=16") == "'relative(clip=16': ends too early (column 17); expected ',' or ')'");
  BOOST_TEST(error_of("relative(clip)") == "'relative(clip)': unexpected ')' (column 14); expected '=' after 'clip'");
  BOOST_TEST(error_of("") == "'': ends too early (column 1); expected the name of a method");
  BOOST_TEST(error_of("relative(clip=2,clip=3)") ==
             "'relative(clip=2,clip=3)': option 'clip' is given twice (column 17)");
  BOOST_TEST(error_of("relative(values=maybe)") ==
             "'relative(values=maybe)': values=maybe (column 17); use true or false");
  BOOST_TEST(error_of("gaussian(layers=1-3)") ==
             "'gaussian(layers=1-3)': layers=1-3 (column 17), but there are 2 layers");
  BOOST_TEST(error_of("heads(global*2, gaussian*4)") ==
             "'heads(global*2, gaussian*4)': heads(...) assigns 6 heads, but the model has 4");
  BOOST_TEST(error_of("heads(global*x)") ==
             "'heads(global*x)': 'x' is not a number of heads (column 14); write name*4, with a number from 1 to 1024");
  BOOST_TEST(
      error_of("average(dot*1025)") ==
      "'average(dot*1025)': '1025' is not a number of mechanisms (column 13); write name*4, with a number from 1 "
      "to 1024");
  BOOST_TEST(error_of("heads(global*2, gaussian*2, layers=1)") ==
             "'heads(global*2, gaussian*2, layers=1)': heads(...) has no option 'layers' (column 29); give it to "
             "methods inside, as in heads(gaussian(layers=1)*4)");
  BOOST_TEST(error_of("gaussian(layers=3)") == "'gaussian(layers=3)': layers=3 (column 17), but there are 2 layers");
}

BOOST_AUTO_TEST_CASE(hostile_text_is_an_error_and_nothing_worse) {
  std::string deep;
  for (int k = 0; k < 10000; ++k) deep += "heads(";
  BOOST_TEST(error_of(deep).find("nested too deeply") != std::string::npos);
  std::string many = "alibi";
  for (int k = 1; k < 256; ++k) many += "+alibi";
  BOOST_TEST(error_of(many) == "");
  BOOST_TEST(error_of("average(" + many + "*1024)").find("262144 methods in all mechanisms (column 1); at most 4096") !=
             std::string::npos);
  const std::string shares = "multi_head(heads(" + many + "*1," + many + "*1), heads=2)";
  BOOST_TEST(error_of("average(" + shares + "*32)").find("methods in all mechanisms") != std::string::npos);
  BOOST_TEST(error_of(many + " + alibi").find("a sum of more than 256 methods (column 1537)") != std::string::npos,
             error_of(many + " + alibi"));
  for (const char* text : {"(",
                           ")",
                           "+",
                           "a+",
                           "global)",
                           "global*2",
                           "heads()",
                           "heads(heads(global*4)*1)",
                           "global()global",
                           "gaussian(width=1e999)",
                           "classic",
                           "classic()",
                           "classic(dot",
                           "classic(dot*2)",
                           "average(dot*2000000000)",
                           "average(average(dot*1000)*1000)",
                           "concat(head_input=split)",
                           "classic(dot)*2",
                           "classic(=)",
                           "classic(dot=)",
                           "average(,)",
                           "flexible(threshold=nan)",
                           "local_p(half_width=0)",
                           "gaussian(width=nan)",
                           "relative(clip=99999999999999999999)",
                           "pointwise",
                           "pointwise()",
                           "pointwise('z', formula='z')",
                           "pointwise('z', 'z')",
                           "gaussian('z')",
                           "pointwise('z * a', a=heads)",
                           "pointwise('z * a', a=offset:-1)",
                           "pointwise('z * a', a=offset:)",
                           "pointwise('z * a', a=offset:99999999999999999999)",
                           "pointwise('z * a', a=head, a=head)",
                           "pointwise('z * j', j=head)",
                           "pointwise('z * exp', exp=head)",
                           "pointwise('z * a.b', a.b=head)",
                           "\x01\xff"})
    BOOST_TEST(error_of(text) != "", text);
}

BOOST_AUTO_TEST_CASE(error_messages_are_short_and_of_one_line_for_any_text) {
  BOOST_TEST(error_of("global\n(\xc3\xa4") ==
             R"('global\x0a(ä': unexpected 'ä' (column 9); expected an option, as in name=value)");
  BOOST_TEST(error_of("\xc3\xa4") == "'ä': unexpected 'ä' (column 1); expected the name of a method");
  BOOST_TEST(error_of("global + " + std::string(3000, 'x')).size() < 1000u);
  BOOST_TEST(error_of("relative(clip=" + std::string(3000, '1')).size() < 500u);
  BOOST_TEST(error_of(std::string(70000, '+'))
                 .ends_with("too long (column 65537); a specification has at most 65536 "
                            "characters"));
  BOOST_TEST(error_of("heads(global*2147483647, global*2147483647)").find("is not a number of heads") !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(errors_in_formulas_say_what_is_wrong_and_where) {
  const auto error = [](const std::string& formula) { return error_of("pointwise(\"" + formula + "\", slope=head)"); };
  BOOST_TEST(error_of("pointwise(\"z - exp(slope) * abs(j - i)\", slope=head, layers=1, heads=2-3)") == "");
  BOOST_TEST(error("z * slop") == "'z * slop': no name 'slop' (column 5); did you mean 'slope'?");
  BOOST_TEST(
      error("z * slope + query") ==
      "'z * slope + query': no name 'query' (column 13); the names are z, w, i, j, slope, and a capture is added "
      "as name=head");
  BOOST_TEST(error("z * exq(slope)") == "'z * exq(slope)': no function 'exq' (column 5); did you mean 'exp'?");
  BOOST_TEST(error("z * gamma(slope)")
                 .ends_with("(column 5); the functions are abs, exp, log, log1p, sqrt, floor, tanh, "
                            "sigmoid, softplus, erf, sin, cos, minimum, maximum, where"));
  BOOST_TEST(error("z * exp") == "'z * exp': the function 'exp' has no argument (column 5); write '('");
  BOOST_TEST(error("z * (slope + 1") ==
             "'z * (slope + 1': ends too early (column 15); expected ')' for the '(' in column 5");
  BOOST_TEST(error("z * exp(slope") ==
             "'z * exp(slope': ends too early (column 14); expected ')' for the '(' in column 8");
  BOOST_TEST(error("z * slope)") == "'z * slope)': unexpected ')' (column 10); expected an operator or the end");
  BOOST_TEST(error("z slope") == "'z slope': unexpected 's' (column 3); expected an operator or the end");
  BOOST_TEST(error("z − slope") == "'z − slope': unexpected '−' (column 3); expected an operator or the end");
  BOOST_TEST(error("z * ") == "'z * ': ends too early (column 5); expected a number, a name or '('");
  BOOST_TEST(error("z * slope ** 0.5") ==
             "'z * slope ** 0.5': an exponent is a whole number from 1 to 16 (column 14); write sqrt(a), 1 / a, or "
             "exp(b * log(a)) for a > 0");
  BOOST_TEST(error("z * slope ** 2 ** 2") == "'z * slope ** 2 ** 2': a second '**' (column 16); write (a ** b) ** c");
  BOOST_TEST(error("where(slope and j, z, 0)") ==
             "'where(slope and j, z, 0)': found a number where a condition is "
             "expected (column 7); compare it, as in j <= i");
  for (const char* name : {"layers", "heads", "formula"})
    BOOST_TEST(error_of(fmt::format("pointwise(\"z + {0}\", {0}=head)", name))
                       .find(fmt::format("'{}' is no name for a capture (column {})", name,
                                         19 + std::string(name).size())) != std::string::npos,
               name);
  BOOST_TEST(error("exp(z, slope)") == "'exp(z, slope)': exp has 2 arguments (column 1); expected 1");
  BOOST_TEST(error("where(slope, z, 0)") ==
             "'where(slope, z, 0)': found a number where a condition is expected (column 7); compare it, as in j <= i");
  BOOST_TEST(
      error("z * (slope < j)") ==
      "'z * (slope < j)': found a condition where a number is expected (column 5); write where(condition, a, b)");
  BOOST_TEST(error("where(i < j < slope, z, 0)") ==
             "'where(i < j < slope, z, 0)': a second comparison (column 13); write a < b and b < c");
  BOOST_TEST(error("where(i = slope, z, 0)") == "'where(i = slope, z, 0)': unexpected '=' (column 9); equality is ==");
  BOOST_TEST(error("slope * abs(j - i)") ==
             "'slope * abs(j - i)': the formula reads neither z nor w (column 1); z is the logit of the pair, w its "
             "weight");
  BOOST_TEST(error("slope * z * w") ==
             "'slope * z * w': the formula reads both z and w (column 13); z is for a change of logits, w for one of "
             "weights");
  BOOST_TEST(error("slope * (w + 0.1)") ==
             "'pointwise(\"slope * (w + 0.1)\", slope=head)': the formula is no multiple of w (column 12); write w * "
             "factor, where the factor does not read w: a weight of 0, of a key that the query does not see, stays 0");
  BOOST_TEST(error("z * slope - 1e39") ==
             "'z * slope - 1e39': '1e39' is too large (column 13); the largest number is 3.4e38");
  BOOST_TEST(error("z * slope - 1e999").find("'1e999' is too large (column 13)") != std::string::npos);
  BOOST_TEST(error("z * j") == "'z * j': the formula does not read the capture 'slope' (column 1); leave it out");
  BOOST_TEST(error_of("pointwise(\"z * a\", a=vector)") ==
             "'pointwise(\"z * a\", a=vector)': a=vector (column 22); use head, query, key, pair or offset:CLIP, whose "
             "largest distance CLIP is a whole number");
  BOOST_TEST(error_of("pointwise(\"z") ==
             "'pointwise(\"z': this quote has no end (column 11); write a second \" behind the formula");
  BOOST_TEST(error_of("pointwse('z')") ==
             "'pointwse('z')': no method 'pointwse' (column 1); did you mean 'pointwise'?");
  std::string deep = "z", long_sum = "z";
  for (int k = 0; k < 1000; ++k) deep = "(" + deep + ")", long_sum += " + slope * j";
  BOOST_TEST(error(deep).find("nested too deeply") != std::string::npos);
  BOOST_TEST(error(long_sum).ends_with("too long (column 4097); a formula has at most 4096 characters"));
}

BOOST_AUTO_TEST_CASE(damaged_text_is_valid_or_an_error_of_one_line) {
  std::vector<std::string> wholes{"heads(global*2, gaussian(window=query) + relative*2)",
                                  "classic(additive(hidden=3) + flexible(threshold=1.2))",
                                  "concat(dot*2, average(location, mean), head_input=split, width=6)",
                                  "average(multi_head(heads(global*1, gaussian*3), heads=4, output=false), mean*2)",
                                  "pointwise('where(not j < i and a >= 0.5, z, -z ** 2 / a)', a=query)+relative"};
  std::vector<std::string> tokens{"+", "(",      ")",           "*",    "=",   ",",          " ",
                                  "-", "heads(", "multi_head(", "1e+3", "nan", "layers=1-2", "q+ctx"};
  for (const MethodEntry& method : registered_methods()) {
    std::string all;
    for (const OptionDescription& option : describe_options(method)) {
      all += (all.empty() ? "" : ", ") + option.name + "=" + option.default_value;
      tokens.push_back(option.name + "=" + option.values.substr(0, option.values.find_first_of(", ")));
    }
    tokens.emplace_back(method.card.name);
    wholes.push_back(std::string(method.card.name) + "(" + all + ")");
  }
  std::mt19937 random(2026);
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text = mutated(wholes[random() % wholes.size()], tokens, random);
    accepted += accepts_or_explains([&] { attention_factory(text); }, "");
  }
  BOOST_TEST(accepted > 300);
  BOOST_TEST(accepted < 15000);
}

BOOST_AUTO_TEST_CASE(methods_act_on_the_layers_that_are_named) {
  BOOST_TEST(names_of("gaussian(layers=2-3)", 0) == names_of("global", 0), boost::test_tools::per_element());
  BOOST_TEST(names_of("gaussian(layers=2-3)", 1) == names_of("gaussian", 1), boost::test_tools::per_element());
  BOOST_TEST(names_of("gaussian(layers=2)", 2) == names_of("global", 2), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(heads_outside_a_share_are_plain) {
  // With a bias on head 2 only, head 1 gives what plain attention gives.
  auto plain = random_attention("global", Place::encoder);
  auto mixed = random_attention("heads(global*1, gaussian*1)", Place::encoder);
  for (auto& parameter : plain->parameters())
    for (auto& other : mixed->parameters())
      if (parameter.name == other.name) {
        Tensor value = other.variable.value();
        value.copy_from(parameter.variable.value());
      }
  Generator generator(9);
  Tensor x = random_tensor({1, 5, 6}, generator);
  AttentionTrace one, two;
  plain->forward({.query = x, .key = x, .value = x, .trace = &one});
  mixed->forward({.query = x, .key = x, .value = x, .trace = &two});
  auto head = [](const AttentionTrace& trace, int h) { return trace.weights.value().select(1, h).to_vector<double>(); };
  BOOST_TEST(head(one, 0) == head(two, 0), boost::test_tools::per_element());
  BOOST_TEST(head(one, 1) != head(two, 1), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(parameter_counts_are_those_of_the_papers) {
  auto count = [](const std::string& specification, std::int64_t d, int heads) {
    return attention_factory(specification)({.model_dim = d, .heads = heads})->parameter_count();
  };
  auto added = [&](const std::string& specification, std::int64_t d, int heads) {
    return count(specification, d, heads) - count("global", d, heads);
  };
  BOOST_TEST(3 * added("gaussian(window=query)", 512, 8) == 812592);
  BOOST_TEST(3 * added("gaussian(window=query)", 1024, 16) == 3247200);
  BOOST_TEST(3 * added("gaussian(window=layer)", 512, 8) == 1600560);
  BOOST_TEST(3 * added("gaussian(window=layer)", 1024, 16) == 6396000);
  BOOST_TEST(6 * added("relative(clip=16)", 512, 8) == 25344);
  BOOST_TEST(added("window", 512, 8) == 4 * (512 * 512 + 512));
  BOOST_TEST(added("window(use=additive)", 512, 8) == 6 * (512 * 512 + 512));
  BOOST_TEST(added("dman", 512, 4) == 512 + 2 * 1024 + 4);
  BOOST_TEST(added("t5", 512, 8) == 32 * 8);
  BOOST_TEST(added("activation(width=2048)", 512, 8) == 2 * 512 * 1536 + 1536);
  BOOST_TEST(added("gaussian(window=head)", 512, 8) == 512 * 512 + 512 + 512 * 8 + 8 + 8);
}

BOOST_AUTO_TEST_CASE(options_that_contradict_the_model_are_errors) {
  BOOST_TEST(error_of("activation(heads=1-2)") ==
             "activation: it acts on all heads, so heads= and heads(...) cannot be used with it");
  BOOST_TEST(error_of("activation(width=6)") == "attention: 4 heads do not divide the width of the values, 6");
  BOOST_TEST(error_of("t5(buckets=64,max_distance=16)") ==
             "t5: max_distance=16 must be greater than a quarter of buckets=64");
  attention_factory("classic(dot, heads=4)")({.model_dim = 8, .heads = 4, .head_dim = 2});
  const std::string wide = error_of("classic(dot, heads=4)", {.model_dim = 8, .heads = 4, .head_dim = 3});
  BOOST_TEST(wide.find("2 wide; without projections it cannot be 3 wide (head_dim)") != wide.npos, wide);
  for (const std::int64_t head_dim : {std::int64_t{-3}, std::int64_t{1} << 62})  // 4 times 2^62 is 0 in i64
    BOOST_TEST(error_of("gaussian", {.model_dim = 8, .heads = 4, .head_dim = head_dim}) ==
               fmt::format("'gaussian': the model has heads of width {} (head_dim); it must be at least 1 and below "
                           "2^31, or 0 for d / H",
                           head_dim));
}

BOOST_AUTO_TEST_CASE(rotary_refuses_keys_of_another_width_than_the_queries) {
  BOOST_TEST(error_of("classic(general + rotary)", {.model_dim = 6, .key_dim = 4}) ==
             "rotary: queries have width 6, keys have width 4; they must be equal, because one table rotates both");
}

BOOST_AUTO_TEST_CASE(relative_positions_refuse_cross_attention) {
  BOOST_TEST(error_of("relative", {.model_dim = 8, .heads = 4, .place = Place::cross}) ==
             "relative: queries and keys must be tokens of one sequence, so it is not defined in cross-attention");
}

BOOST_AUTO_TEST_SUITE_END()
