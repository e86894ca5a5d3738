// Methods that replace the softmax, combine heads or change the heads' inputs and outputs, each compared with plain
// loops over the equation of its paper.
#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include <boost/test/unit_test.hpp>

#include "attention/layers/multi_head.h"
#include "attention/methods/differential.h"
#include "attention/methods/sparsemax.h"
#include "autograd/gradcheck.h"
#include "tensor/reduce.h"
#include "tensor/storage.h"
#include "tests/attention/attentions.h"

using namespace fovea;
using namespace fovea::test;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

using Row = std::vector<double>;
using Matrix = std::vector<Row>;

// ---- Sparsemax by brute force

/// The point of the simplex over these keys that is nearest to z, found by trying all supports.
Row nearest_of_simplex(const Row& z, const std::vector<bool>& allow) {
  const std::size_t n = z.size();
  Row best(n, 0);
  double nearest = infinity;
  for (unsigned support = 1; support < 1U << n; ++support) {
    double total = -1, members = 0, distance = 0;
    bool fits = true;
    for (std::size_t j = 0; j < n; ++j)
      if (support >> j & 1) {
        fits = fits && allow[j];
        total += z[j];
        ++members;
      }
    Row p(n, 0);
    for (std::size_t j = 0; fits && j < n; ++j) {
      if (support >> j & 1) p[j] = z[j] - total / members;
      if (allow[j]) distance += (p[j] - z[j]) * (p[j] - z[j]);
      fits = p[j] >= 0;
    }
    if (!fits || distance >= nearest) continue;
    nearest = distance;
    best = p;
  }
  return best;
}

// ---- An attention by plain loops

/// Four queries and five keys, of which the last one is padding; the attention's parameters are random.
class Reference {
 public:
  static constexpr std::int64_t d = 6, I = 4, J = 5;

  explicit Reference(const std::string& specification, int heads = 2, int layer = 0)
      : H(heads), D(d / heads), attention(make(specification, heads, layer)) {
    Generator generator(41);
    for (auto& parameter : attention->parameters()) {
      Variable variable = parameter.variable;
      variable.value().copy_from(random_tensor(variable.shape(), generator));
      read(parameter);
    }
    query = random_tensor({1, I, d}, generator, -2, 2);
    key = random_tensor({1, J, d}, generator, -2, 2);
  }

  void set(const std::string& name, double value) {
    for (auto& parameter : attention->parameters())
      if (parameter.name == name) {
        Variable(parameter.variable).value().fill(value);
        read(parameter);
        return;
      }
    BOOST_FAIL("no parameter " << name);
  }
  const Row& parameter(const std::string& name) const { return parameters.at(name); }

  /// x W + b for a layer with this many columns; without b if it has none.
  Matrix linear(const Tensor& x, const std::string& layer, std::int64_t columns) const {
    const Row values = x.to_vector<double>(), &weight = parameter(layer + ".weight");
    Matrix out(values.size() / d, Row(columns, 0));
    for (std::size_t row = 0; row < out.size(); ++row)
      for (std::int64_t c = 0; c < columns; ++c) {
        if (parameters.contains(layer + ".bias")) out[row][c] = parameter(layer + ".bias")[c];
        for (std::int64_t k = 0; k < d; ++k) out[row][c] += values[row * d + k] * weight[k * columns + c];
      }
    return out;
  }

  /// The logits q_i · k_j / sqrt(D) of each head, from two layers, [H][I][J - 1].
  std::vector<Matrix> logits(const std::string& query_layer, const std::string& key_layer, int key_heads) const {
    const Matrix q = linear(query, query_layer, d), k = linear(key, key_layer, key_heads * D);
    std::vector<Matrix> z(H, Matrix(I, Row(J - 1, 0)));
    for (int h = 0; h < H; ++h)
      for (std::int64_t i = 0; i < I; ++i)
        for (std::int64_t j = 0; j < J - 1; ++j)
          for (std::int64_t c = 0; c < D; ++c)
            z[h][i][j] += q[i][h * D + c] * k[j][h * key_heads / H * D + c] / std::sqrt(D);
    return z;
  }
  std::vector<Matrix> logits() const { return logits("query", "key", H); }

  static std::vector<Matrix> softmax(std::vector<Matrix> z) {
    for (Matrix& head : z)
      for (Row& row : head) {
        double total = 0;
        for (double& x : row) total += x = std::exp(x);
        for (double& x : row) x /= total;
      }
    return z;
  }

  /// Σ_j w_ij v_j, the heads side by side, [I][d].
  Matrix heads_of(const std::vector<Matrix>& weights, int key_heads) const {
    const Matrix v = linear(key, "value", key_heads * D);
    Matrix out(I, Row(d, 0));
    for (int h = 0; h < H; ++h)
      for (std::int64_t i = 0; i < I; ++i)
        for (std::int64_t j = 0; j < J - 1; ++j)
          for (std::int64_t c = 0; c < D; ++c) out[i][h * D + c] += weights[h][i][j] * v[j][h * key_heads / H * D + c];
    return out;
  }

  /// Compares the attention's output with these heads times W^O.
  void check(const Matrix& heads) const {
    const Variable out = attention->forward(
        {.query = query, .key = key, .value = key, .key_lengths = Tensor::from(std::vector<std::int32_t>{J - 1}, {1})});
    const Row found = out.value().to_vector<double>(), &weight = parameter("output.weight");
    for (std::int64_t i = 0; i < I; ++i)
      for (std::int64_t c = 0; c < d; ++c) {
        double expected = parameter("output.bias")[c];
        for (std::int64_t k = 0; k < d; ++k) expected += heads[i][k] * weight[k * d + c];
        BOOST_TEST(std::abs(found[i * d + c] - expected) < 1e-12,
                   "query " << i << ": " << found[i * d + c] << ", expected " << expected);
      }
  }

  const int H;
  const std::int64_t D;
  std::unique_ptr<Attention> attention;
  Tensor query, key;

 private:
  static std::unique_ptr<Attention> make(const std::string& specification, int heads, int layer) {
    auto made = attention_factory(specification)(
        {.model_dim = d, .heads = heads, .layer = layer, .layers = layer + 1, .place = Place::cross});
    made->to(DType::f64);
    made->train(false);
    return made;
  }
  void read(const NamedParameter& parameter) {
    parameters[parameter.name] = parameter.variable.value().to_vector<double>();
  }
  std::map<std::string, Row> parameters;
};

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

BOOST_AUTO_TEST_SUITE(around_softmax)

BOOST_AUTO_TEST_CASE(sparsemax_is_the_nearest_point_of_the_simplex) {
  Generator generator(51);
  constexpr std::int64_t rows = 60, n = 7;
  for (double width : {0.1, 1.0, 5.0, 1e4}) {
    const Tensor z = random_tensor({rows, n}, generator, -width, width);
    const std::vector<double> chances = random_tensor({rows, n}, generator).to_vector<double>();
    std::vector<std::uint8_t> allow;
    for (std::size_t k = 0; k < chances.size(); ++k) allow.push_back(chances[k] > -0.5 && k / n != 3);
    const Row found = sparsemax(z, Tensor::from(allow, {rows, n})).value().to_vector<double>();
    const Row logits = z.to_vector<double>();
    for (std::size_t row = 0; row < rows; ++row) {
      const auto at = static_cast<std::ptrdiff_t>(row * n);
      const Row expected = nearest_of_simplex({logits.begin() + at, logits.begin() + at + n},
                                              {allow.begin() + at, allow.begin() + at + n});
      for (std::size_t j = 0; j < n; ++j)
        BOOST_TEST(std::abs(found[row * n + j] - expected[j]) < 1e-15 * std::max(1.0, width), "row " << row);
    }
  }
}

BOOST_AUTO_TEST_CASE(sparsemax_of_unusual_rows) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  auto of = [](Row z, std::vector<std::uint8_t> allow) {
    const auto n = static_cast<std::int64_t>(z.size());
    return sparsemax(Tensor::from(z, {1, n}), Tensor::from(allow, {1, n})).value().to_vector<double>();
  };
  BOOST_TEST((of({3, 1, 2}, {0, 0, 0}) == Row{0, 0, 0}));
  BOOST_TEST((of({-infinity, -infinity}, {1, 1}) == Row{0, 0}));
  BOOST_TEST((of({-infinity, 5, 5, nan}, {1, 1, 1, 0}) == Row{0, 0.5, 0.5, 0}));
  BOOST_TEST((of({1e300, -1e300, 0.25}, {1, 1, 1}) == Row{1, 0, 0}));
  const Row with_nan = of({1, nan, 7}, {1, 1, 0});
  BOOST_TEST((std::isnan(with_nan[0]) && std::isnan(with_nan[1]) && with_nan[2] == 0));
  BOOST_TEST(sparsemax(Tensor::zeros({0, 4})).value().elements() == 0);
}

BOOST_AUTO_TEST_CASE(sparsemax_of_long_rows_in_f32_sums_to_1) {
  Generator generator(52);
  for (double width : {1e-4, 1.0, 1e3}) {
    const Tensor z = random_tensor({3, 4001}, generator, -width, width).to(DType::f32);
    const Row totals = sum(sparsemax(z).value(), {-1}).to_vector<double>();
    for (double total : totals) BOOST_TEST(std::abs(total - 1) < 1e-5);
  }
}

BOOST_AUTO_TEST_CASE(the_gradient_of_sparsemax_is_centred_on_the_support) {
  Generator generator(53);
  constexpr std::int64_t rows = 20, n = 6;
  Variable z(random_tensor({rows, n}, generator), true);
  const Tensor g = random_tensor({rows, n}, generator);
  const Variable weights = sparsemax(z);
  const Row a = weights.value().to_vector<double>(), of_output = g.to_vector<double>(),
            found = grad(weights, {z}, g)[0].value().to_vector<double>();
  int outside = 0;
  for (std::size_t row = 0; row < rows; ++row) {
    double total = 0, members = 0;
    for (std::size_t j = row * n; j < (row + 1) * n; ++j)
      if (a[j] > 0) total += of_output[j], ++members;
    for (std::size_t j = row * n; j < (row + 1) * n; ++j) {
      outside += a[j] == 0;
      BOOST_TEST(std::abs(found[j] - (a[j] > 0 ? of_output[j] - total / members : 0)) < 1e-15);
    }
  }
  BOOST_TEST((outside > 10 && outside < rows * (n - 1)));
  auto cubed = [](const std::vector<Variable>& x) { return sparsemax(x[0] * x[0] * x[0]); };
  BOOST_TEST(gradcheck(cubed, {z}) == "");
  BOOST_TEST(gradgradcheck(cubed, {z}) == "");
}

// Beside a sink and two extra keys, a normaliser knows which columns are tokens: this one is 1 at the last token seen.
BOOST_AUTO_TEST_CASE(a_normalizer_knows_which_columns_are_tokens) {
  struct LastToken : CustomNormalizer {
    Variable weights(const Variable& z, std::int64_t tokens, const Tensor& allow, const Captured&) const override {
      BOOST_TEST(z.size(-1) == tokens + 3);
      std::vector<double> a(static_cast<std::size_t>(z.value().elements()), 0);
      const std::vector<double> seen = allow.to(DType::f64).expand(z.shape()).to_vector<double>();
      for (std::size_t row = 0, width = static_cast<std::size_t>(z.size(-1)); row < a.size(); row += width)
        for (std::size_t j = static_cast<std::size_t>(tokens); j-- > 0;)
          if (seen[row + j] != 0) {
            a[row + j] = 1;
            break;
          }
      return Tensor::from(a, z.shape());
    }
  };
  Generator generator(12);
  AttentionContext in;
  in.query = random_tensor({1, 2, 3, 4}, generator), in.key = random_tensor({1, 2, 5, 4}, generator);
  in.value = random_tensor({1, 2, 5, 4}, generator);
  in.query_positions = Tensor::arange(3, DType::f64), in.key_positions = Tensor::arange(5, DType::f64);
  for (AttentionEngine engine : {AttentionEngine::composed, AttentionEngine::blockwise}) {
    AttentionEngineScope chosen(engine, 2);
    Plan plan;
    plan.masks.push_back({Tensor::of({1, 1, 0, 1, 0, 1, 0, 0, 0, 0, 1, 1, 1, 1, 1}, {3, 5}).to(DType::boolean)});
    plan.sink = random_tensor({2}, generator);
    plan.extra_keys.push_back({random_tensor({2, 2, 4}, generator), random_tensor({2, 2, 4}, generator)});
    plan.normalizers.push_back({Normalizer::Form::custom, std::make_shared<const LastToken>()});
    const Tensor out = attend(in, plan, 0, nullptr).value();
    const std::int64_t last[] = {3, 0, 4};
    for (std::int64_t i = 0; i < 3; ++i)
      BOOST_TEST(out.select(2, i).to_vector<double>() == in.value.value().select(2, last[i]).to_vector<double>());
  }
}

BOOST_AUTO_TEST_CASE(heads_talk_before_and_after_the_softmax) {
  for (const std::string options : {"", "(before=false)", "(after=false)"}) {
    const Reference reference("talking_heads" + options);
    auto mixed = [&](const std::vector<Matrix>& x, const char* matrix) {
      std::vector<Matrix> out(reference.H, Matrix(Reference::I, Row(Reference::J - 1, 0)));
      for (int h = 0; h < reference.H; ++h)
        for (int g = 0; g < reference.H; ++g)
          for (std::int64_t i = 0; i < Reference::I; ++i)
            for (std::int64_t j = 0; j < Reference::J - 1; ++j)
              out[h][i][j] += reference.parameter(matrix)[h * reference.H + g] * x[g][i][j];
      return out;
    };
    std::vector<Matrix> pairs = reference.logits();
    if (options != "(before=false)") pairs = mixed(pairs, "talking_heads.before");
    pairs = Reference::softmax(pairs);
    if (options != "(after=false)") pairs = mixed(pairs, "talking_heads.after");
    BOOST_TEST_CONTEXT(options) { reference.check(reference.heads_of(pairs, reference.H)); }
  }
  BOOST_TEST(error_of([] { Reference("talking_heads(before=false,after=false)"); }) ==
             "talking_heads: before=false and after=false leave nothing to combine");
}

BOOST_AUTO_TEST_CASE(a_hidden_key_adds_nothing_to_the_logits_of_other_heads) {
  const Reference reference("heads(sliding(left=1,right=9)*1, sliding(left=9,right=0)*1)+talking_heads(after=false)");
  auto sees = [](int h, std::int64_t i, std::int64_t j) { return h == 0 ? j >= i - 1 : j <= i; };
  const std::vector<Matrix> z = reference.logits();
  const Row& mixing = reference.parameter("talking_heads.before");
  std::vector<Matrix> mixed = z;
  for (int h = 0; h < 2; ++h)
    for (std::int64_t i = 0; i < Reference::I; ++i)
      for (std::int64_t j = 0; j < Reference::J - 1; ++j) {
        mixed[h][i][j] = sees(h, i, j) ? 0 : -infinity;
        for (int g = 0; g < 2; ++g) mixed[h][i][j] += sees(g, i, j) ? mixing[h * 2 + g] * z[g][i][j] : 0;
      }
  reference.check(reference.heads_of(Reference::softmax(mixed), 2));
}

BOOST_AUTO_TEST_CASE(differential_attention_subtracts_the_second_map) {
  for (int layer : {0, 3})
    for (bool plain : {true, false}) {
      Reference reference("differential", 2, layer);
      const double start = 0.8 - 0.6 * std::exp(-0.3 * layer);
      if (plain)  // exp(0) - exp(0) = 0
        for (const char* name : {"differential.lambda_q1", "differential.lambda_k2"}) reference.set(name, 0);
      auto product = [&](const char* a, const char* b) {
        double total = 0;
        for (std::int64_t c = 0; c < reference.D; ++c) total += reference.parameter(a)[c] * reference.parameter(b)[c];
        return total;
      };
      const double lambda = plain ? start
                                  : std::exp(product("differential.lambda_q1", "differential.lambda_k1")) -
                                        std::exp(product("differential.lambda_q2", "differential.lambda_k2")) + start;
      std::vector<Matrix> weights = Reference::softmax(reference.logits());
      const std::vector<Matrix> second =
          Reference::softmax(reference.logits("differential.query", "differential.key", reference.H));
      for (int h = 0; h < reference.H; ++h)
        for (std::int64_t i = 0; i < Reference::I; ++i)
          for (std::int64_t j = 0; j < Reference::J - 1; ++j) weights[h][i][j] -= lambda * second[h][i][j];
      Matrix heads = reference.heads_of(weights, reference.H);
      for (Row& row : heads)
        for (int h = 0; h < reference.H; ++h) {
          double squares = 0;
          for (std::int64_t c = 0; c < reference.D; ++c) squares += row[h * reference.D + c] * row[h * reference.D + c];
          const double rms = std::sqrt(squares / static_cast<double>(reference.D) + 1e-5);
          for (std::int64_t c = 0; c < reference.D; ++c)
            row[h * reference.D + c] *= reference.parameter("differential.gain")[c] * (1 - start) / rms;
        }
      BOOST_TEST_CONTEXT("layer " << layer << (plain ? ", lambda_init" : "")) { reference.check(heads); }
    }
}

BOOST_AUTO_TEST_CASE(the_norm_of_differential_attention_takes_heads_of_any_size) {
  DifferentialAttention method({.model_dim = 4,
                                .head_dim = 4,
                                .all_heads = 1,
                                .heads = 1,
                                .layer = 0,
                                .place = Place::encoder,
                                .query_dim = 4,
                                .key_dim = 4,
                                .value_dim = 4,
                                .step_dim = 0,
                                .key_state_dim = 4},
                               {});
  method.initialise(1);
  auto result = [&](double size) {
    Variable heads(Tensor::of({size, -size, 2 * size, 0}, {1, 1, 1, 4}, DType::f32), true);
    const Variable y = method.finish(heads, AttentionContext());
    std::vector<double> all = y.value().to_vector<double>();
    for (double g : grad(sum(square(y + 1.0)), {heads})[0].value().to_vector<double>()) all.push_back(g * size);
    return all;
  };
  const std::vector<double> expected = result(1e3);
  for (double size : {1e14, 1e16, 1e30, 1e38}) {
    const std::vector<double> found = result(size);
    for (std::size_t k = 0; k < found.size(); ++k) BOOST_TEST(std::abs(found[k] - expected[k]) < 1e-5);
  }
}

// If both maps are equal, the weights are (1 - lambda) times those of one map, and the norm gives the heads of plain
// attention. With rotary positions this holds only if both maps are rotated.
BOOST_AUTO_TEST_CASE(both_maps_of_differential_attention_are_positioned) {
  for (const char* positions : {"rotary", "rotary(heads=2)", "alibi"}) {
    auto attention = random_attention(std::string("differential+") + positions, Place::decoder);
    std::map<std::string, Tensor> values;
    for (auto& parameter : attention->parameters()) values[parameter.name] = parameter.variable.value();
    for (const char* layer : {"query", "key"})
      for (const char* part : {".weight", ".bias"})
        values[std::string("differential.") + layer + part].copy_from(values[std::string(layer) + part]);
    Generator generator(55);
    const Tensor x = random_tensor({2, 5, 6}, generator);
    AttentionTrace trace;
    attention->forward({.query = x, .key = x, .value = x, .causal = true, .trace = &trace});
    double lambda = 0;
    for (const TracedQuantity& quantity : trace.quantities)
      if (quantity.name == "lambda") lambda = quantity.value.item();
    auto plain = random_attention(positions, Place::decoder);
    for (auto& parameter : plain->parameters())
      if (values.contains(parameter.name)) Variable(parameter.variable).value().copy_from(values[parameter.name]);
    AttentionTrace plain_trace;
    plain->forward({.query = x, .key = x, .value = x, .causal = true, .trace = &plain_trace});
    const Row a = trace.weights.value().to_vector<double>(), b = plain_trace.weights.value().to_vector<double>();
    for (std::size_t k = 0; k < a.size(); ++k) BOOST_TEST(std::abs(a[k] - (1 - lambda) * b[k]) < 1e-14, positions);
  }
}

BOOST_AUTO_TEST_CASE(the_single_head_of_multi_query_attention_is_not_repeated_in_memory) {
  for (const char* method : {"grouped(key_heads=1)", "grouped(key_heads=1)+rotary"}) {
    const auto attention = attention_factory(method)({.model_dim = 6, .heads = 3});
    Generator generator(58);
    const Variable x = random_tensor({2, 5, 6}, generator).to(DType::f32);
    const auto in = dynamic_cast<MultiHeadAttention&>(*attention).call({.query = x, .key = x, .value = x}).context;
    for (const Variable& heads : {in.key, in.value}) {
      BOOST_TEST(heads.size(1) == 3);
      BOOST_TEST(heads.value().strides()[1] == 0);
    }
    BOOST_TEST(in.projected_key.size(2) == 2);
  }
}

// talking_heads with the identity matrix changes nothing, but makes the second map be computed for all heads together.
BOOST_AUTO_TEST_CASE(a_second_map_on_some_heads_equals_that_of_all_heads) {
  for (const char* sum : {"differential(heads=2)+alibi", "heads(global*1, differential+sparsemax*1)+gaussian",
                          "differential(heads=1)+sinks(logit=true)+relative(clip=2)+t5",
                          "differential(heads=2)+persistent(vectors=2)+sliding(left=1,right=1)+man",
                          "heads(differential+soft_cap*1, cope(longest=2)*1)+laplace(heads=2)"}) {
    auto some = random_attention(sum, Place::decoder);
    auto all = random_attention(std::string(sum) + "+talking_heads", Place::decoder);
    for (auto& parameter : all->parameters()) {
      Tensor to = Variable(parameter.variable).value();
      if (parameter.name.starts_with("talking_heads")) to.copy_from(Tensor::of({1, 0, 0, 1}, {2, 2}));
      for (auto& other : some->parameters())
        if (other.name == parameter.name) to.copy_from(other.variable.value());
    }
    Generator generator(56);
    const Variable x(random_tensor({2, 5, 6}, generator), true);
    const Tensor cotangent = random_tensor({2, 5, 6}, generator);
    auto run = [&](Attention& attention) {
      const Variable out =
          attention.forward({.query = x, .key = x, .value = x, .mask = test_mask(5, 5), .causal = true});
      return std::pair(out.value().to_vector<double>(), grad(out, {x}, cotangent)[0].value().to_vector<double>());
    };
    const auto a = run(*some), b = run(*all);
    for (std::size_t k = 0; k < a.first.size(); ++k) {
      BOOST_TEST(std::abs(a.first[k] - b.first[k]) < 1e-13, sum);
      BOOST_TEST(std::abs(a.second[k] - b.second[k]) < 1e-12, sum);
    }
  }
}

namespace {
/// Counts the tokens whose queries and keys it positions.
struct CountingPositions : LocalnessMethod {
  void change(Surroundings& surroundings) const override { surroundings.positioned = true; }
  Variable positioned(const Variable& heads, const TokenPositions&) override {
    tokens += heads.size(2);
    return heads;
  }
  void add_terms(const AttentionContext&, Plan&) override {}
  std::int64_t tokens = 0;
};
}  // namespace

BOOST_AUTO_TEST_CASE(a_decoder_positions_each_key_of_both_maps_once) {
  const MethodShape shape{.model_dim = 6,
                          .head_dim = 3,
                          .all_heads = 2,
                          .heads = 2,
                          .layer = 0,
                          .place = Place::decoder,
                          .query_dim = 3,
                          .key_dim = 3,
                          .value_dim = 3,
                          .step_dim = 0,
                          .key_state_dim = 6};
  auto counting = std::make_unique<CountingPositions>();
  const std::int64_t& tokens = counting->tokens;
  PlacedMethods methods;
  methods.push_back({std::make_unique<DifferentialAttention>(shape, DifferentialAttention::Options{}), "a", 0, 2});
  methods.push_back({std::move(counting), "b", 0, 2});
  MultiHeadAttention attention({.model_dim = 6, .heads = 2, .place = Place::decoder}, std::move(methods));
  attention.initialise(1);
  attention.train(false);
  Generator generator(57);
  const Tensor x = random_tensor({1, 9, 6}, generator).to(DType::f32);
  DecoderMemory memory;
  for (std::int64_t t = 0; t < 9; ++t) {
    const Variable step = x.slice(1, t, t + 1);
    attention.forward(
        {.query = step, .key = step, .value = step, .causal = true, .query_offset = t, .memory = &memory});
  }
  BOOST_TEST(tokens == 4 * 9);  // a query and a key of either map in each step
}

BOOST_AUTO_TEST_CASE(a_gate_multiplies_the_heads) {
  const Reference reference("gate");
  Matrix heads = reference.heads_of(Reference::softmax(reference.logits()), reference.H);
  const Matrix gates = reference.linear(reference.query, "gate.gate", Reference::d);
  for (std::size_t i = 0; i < heads.size(); ++i)
    for (std::size_t c = 0; c < heads[i].size(); ++c) heads[i][c] /= 1 + std::exp(-gates[i][c]);
  reference.check(heads);
}

BOOST_AUTO_TEST_CASE(neighbouring_heads_share_keys_and_values) {
  for (int key_heads : {1, 2, 3, 6}) {
    const Reference reference(fmt::format("grouped(key_heads={})", key_heads), 6);
    BOOST_TEST(reference.parameter("key.weight").size() == static_cast<std::size_t>(6 * key_heads));
    reference.check(reference.heads_of(Reference::softmax(reference.logits("query", "key", key_heads)), key_heads));
  }
  auto key_width = [](int heads) { return Reference("grouped", heads).parameter("key.bias").size(); };
  BOOST_TEST(key_width(6) == 3);
  BOOST_TEST(key_width(3) == 2);
  BOOST_TEST(key_width(1) == 6);
}

// Compares grouped heads with plain attention whose projections repeat the shared columns for every head; all other
// methods must give the same result on both.
BOOST_AUTO_TEST_CASE(grouped_heads_are_plain_heads_with_repeated_keys) {
  for (Place place : all_places())
    for (const std::string others :
         {"gaussian(window=layer)", "relative(clip=2)", "rotary", "rotary(heads=2)", "rotary+alibi(heads=2)",
          "rotary+rotary(heads=1)", "window", "gate", "sparsemax+talking_heads", "differential+rotary",
          "activation(width=8)", "general+local_p"}) {
      if (place == Place::cross && others.starts_with("relative")) continue;
      auto grouped = random_attention("grouped(key_heads=1)+" + others, place), plain = random_attention(others, place);
      for (auto& to : plain->parameters())
        for (auto& from : grouped->parameters())
          if (to.name == from.name) {
            const Tensor value = from.variable.value();
            Tensor all = to.variable.value();
            const std::int64_t width = value.size(-1);
            for (std::int64_t c = 0; c < all.size(-1); c += width) all.slice(-1, c, c + width).copy_from(value);
          }
      Generator generator(56);
      const Tensor key = random_tensor({2, 5, 6}, generator);
      const Tensor query = place == Place::cross ? random_tensor({2, 3, 6}, generator) : key;
      const AttentionInput input{.query = query,
                                 .key = key,
                                 .value = key,
                                 .key_lengths = Tensor::from(std::vector<std::int32_t>{5, 3}, {2}),
                                 .causal = place == Place::decoder};
      const Row a = grouped->forward(input).value().to_vector<double>(),
                b = plain->forward(input).value().to_vector<double>();
      for (std::size_t k = 0; k < a.size(); ++k)
        BOOST_TEST(std::abs(a[k] - b[k]) < 1e-12, others << " in place " << static_cast<int>(place));
    }
}

BOOST_AUTO_TEST_CASE(a_memory_holds_the_shared_keys_once) {
  auto bytes_of = [](const std::string& specification) {
    auto attention = attention_factory(specification)({.model_dim = 64, .heads = 8, .place = Place::decoder});
    attention->initialise(1);
    attention->train(false);
    NoGrad off;
    DecoderMemory memory;
    const std::size_t before = allocator_statistics().bytes_in_use;
    const Tensor x = Tensor::full({1, 1, 64}, 0.5);
    for (std::int64_t t = 0; t < 128; ++t)
      attention->forward({.query = x, .key = x, .value = x, .causal = true, .query_offset = t, .memory = &memory});
    return static_cast<double>(allocator_statistics().bytes_in_use - before);
  };
  for (const std::string others : {"gaussian(window=query)", "relative", "alibi"})
    BOOST_TEST(bytes_of("grouped(key_heads=1)+" + others) < bytes_of(others) / 6, others);
  // rotary on some heads also stores the rotated keys of all heads, and its table of angles
  BOOST_TEST(bytes_of("grouped(key_heads=1)+rotary") < bytes_of("rotary") / 3);
}

BOOST_AUTO_TEST_CASE(wrong_numbers_of_key_heads_are_errors) {
  auto refusal = [](const std::string& specification) {
    return error_of([&] { attention_factory(specification)({.model_dim = 12, .heads = 4}); });
  };
  BOOST_TEST(refusal("grouped(key_heads=3)") == "grouped: key_heads=3 does not divide the number of heads, 4");
  BOOST_TEST(refusal("grouped(key_heads=8)") == "grouped: key_heads=8 does not divide the number of heads, 4");
  BOOST_TEST(refusal("grouped(heads=1-2)") ==
             "grouped: it acts on all heads, so heads= and heads(...) cannot be used with it");
  BOOST_TEST(refusal("heads(grouped*2, global*2)") ==
             "grouped: it acts on all heads, so heads= and heads(...) cannot be used with it");
  BOOST_TEST(refusal("grouped(key_heads=1)+grouped") ==
             "grouped: two methods set the number of key heads, to 1 and to 2");
  BOOST_TEST(refusal("grouped(key_heads=2)+grouped") == "");
}

BOOST_AUTO_TEST_SUITE_END()
