#include "tests/goldens.h"

#include <boost/test/unit_test.hpp>

#include "nn/loss.h"
#include "nn/lstm.h"
#include "nn/optimizer.h"
#include "nn/transformer.h"
#include "tests/nn/plain_attention.h"
#include "tests/nn/values.h"

using namespace fovea;
using namespace fovea::test;
using nlohmann::json;

namespace {

constexpr double tolerance = 1e-10;  // the goldens have twelve digits

void check(const Variable& ours, const json& theirs) {
  double largest = 1;
  for (double x : theirs.at("values")) largest = std::max(largest, std::abs(x));
  BOOST_TEST(largest_difference(ours.value(), golden_tensor(theirs)) < tolerance * largest);
}

Variable leaf(const json& value) { return Variable(golden_tensor(value), true); }

/// The state of layer and direction k of [layers * directions, B, n].
LstmState state_of(const Variable& hidden, const Variable& cell, std::int64_t k) {
  return {select(hidden, 0, k), select(cell, 0, k)};
}

Tensor lengths_of(const json& lengths) {
  auto values = lengths.get<std::vector<std::int32_t>>();
  return Tensor::from(values, {static_cast<std::int64_t>(values.size())});
}

}  // namespace

BOOST_AUTO_TEST_CASE(layer_norm_is_pytorchs) {
  for (const json& c : golden_cases("layer_norm.json")) {
    std::vector<Variable> in = {leaf(c.at("x")), leaf(c.at("gain")), leaf(c.at("bias"))};
    Variable output = layer_norm(in[0], in[1], in[2], c.at("epsilon"));
    check(output, c.at("output"));
    Gradients gradients = grad(output, in, golden_tensor(c.at("cotangent")));
    check(gradients[0], c.at("x.gradient"));
    check(gradients[1], c.at("gain.gradient"));
    check(gradients[2], c.at("bias.gradient"));
  }
}

BOOST_AUTO_TEST_CASE(lstms_are_pytorchs) {
  for (const json& c : golden_cases("lstm.json")) BOOST_TEST_CONTEXT(c.at("name")) {
      bool both = c.contains("0.backward.bias");
      int layers = c.contains("1.forward.bias") ? 2 : 1;
      Lstm lstm({.input_dim = 3, .dim = 2, .layers = layers, .bidirectional = both});
      lstm.to(DType::f64);
      lstm.to(test_device());
      std::vector<Variable> in = {leaf(c.at("x")), leaf(c.at("first_hidden")), leaf(c.at("first_cell"))};
      std::vector<std::string> names = {"x", "first_hidden", "first_cell"};
      for (const NamedParameter& p : lstm.parameters()) {
        Variable variable = p.variable;
        variable.value().copy_from(golden_tensor(c.at(p.name)));
        in.push_back(variable);
        names.push_back(p.name);
      }
      std::vector<LstmState> initial;
      for (std::int64_t k = 0; k < in[1].size(0); ++k) initial.push_back(state_of(in[1], in[2], k));
      LstmOutput out = lstm.forward(in[0], lengths_of(c.at("lengths")), initial);
      check(out.states, c.at("output"));

      Variable total = sum(out.states * Variable(golden_tensor(c.at("cotangent"))));
      Variable last_hidden = golden_tensor(c.at("last_hidden")), last_cell = golden_tensor(c.at("last_cell"));
      Variable cell_cotangent = golden_tensor(c.at("cell_cotangent"));
      for (std::size_t k = 0; k < out.last.size(); ++k) {
        LstmState expected = state_of(last_hidden, last_cell, static_cast<std::int64_t>(k));
        BOOST_TEST(largest_difference(out.last[k].hidden.value(), expected.hidden.value()) < tolerance);
        BOOST_TEST(largest_difference(out.last[k].cell.value(), expected.cell.value()) < tolerance);
        total = total + sum(out.last[k].cell * select(cell_cotangent, 0, static_cast<std::int64_t>(k)));
      }
      Gradients gradients = grad(total, in);
      for (std::size_t k = 0; k < in.size(); ++k)
        BOOST_TEST_CONTEXT(names[k]) check(gradients[k], c.at(names[k] + ".gradient"));
    }
}

BOOST_AUTO_TEST_CASE(cross_entropy_is_pytorchs) {
  for (const json& c : golden_cases("cross_entropy.json")) BOOST_TEST_CONTEXT(c.at("name")) {
      Variable logits = leaf(c.at("logits"));
      Tensor targets = golden_tensor(c.at("targets")).to(DType::i64);
      CrossEntropyOptions options{.label_smoothing = c.at("smoothing"), .ignored = c.at("ignored")};
      Variable total = cross_entropy_loss(logits, targets, options, Total::sum);
      auto close = [](double ours, double theirs) {
        return std::abs(ours - theirs) < tolerance * (1 + std::abs(theirs));
      };
      BOOST_TEST(close(total.item(), c.at("sum")));
      BOOST_TEST(close(cross_entropy_loss(logits, targets, options).item(), c.at("mean")));
      check(grad(total, {logits})[0], c.at("logits.gradient"));
    }
}

namespace {

class TwoParameters : public Module {
 public:
  TwoParameters() : a(parameter("a", {2, 3}, Initializer::zeros())), b(parameter("b", {4}, Initializer::zeros())) {
    to(DType::f64);
    to(test_device());
  }
  void set(const json& start) {
    a.value().copy_from(golden_tensor(start[0]));
    b.value().copy_from(golden_tensor(start[1]));
  }
  void set_gradients(const json& step) {
    a.set_grad(golden_tensor(step[0]));
    b.set_grad(golden_tensor(step[1]));
  }
  Variable a, b;
};

std::unique_ptr<Optimizer> optimizer_of(const json& c, const Module& model) {
  const json& given = c.at("options");
  std::string name = c.at("name");
  double decay = given.value("weight_decay", 0.0);
  if (name.starts_with("SGD"))
    return std::make_unique<Sgd>(model.parameters(),
                                 Sgd::Options{.momentum = given.value("momentum", 0.0), .weight_decay = decay});
  Adam::Options options{
      .beta1 = given.at("betas")[0], .beta2 = given.at("betas")[1], .epsilon = given.at("eps"), .weight_decay = decay};
  if (name.starts_with("AdamW")) return std::make_unique<AdamW>(model.parameters(), options);
  return std::make_unique<Adam>(model.parameters(), options);
}

}  // namespace

BOOST_AUTO_TEST_CASE(optimizers_are_pytorchs) {
  json goldens = golden("optimizers.json");
  for (const json& c : goldens.at("cases")) BOOST_TEST_CONTEXT(c.at("name")) {
      TwoParameters model;
      model.set(goldens.at("start"));
      if (!c.contains("options")) {
        model.set_gradients(goldens.at("steps")[2]);
        double norm = c.at("norm");
        BOOST_TEST(std::abs(clip_gradients(model.parameters(), 1).item() - norm) < 1e-9);
        // PyTorch divides by norm + 1e-6.
        BOOST_TEST(largest_difference(model.a.grad().value(), golden_tensor(c.at("gradients")[0])) < 2e-8);
        BOOST_TEST(largest_difference(model.b.grad().value(), golden_tensor(c.at("gradients")[1])) < 2e-8);
        continue;
      }
      auto optimizer = optimizer_of(c, model);
      for (std::size_t step = 0; step < c.at("after").size(); ++step) {
        model.set_gradients(goldens.at("steps")[step]);
        optimizer->step(c.at("options").at("lr"));
        check(model.a, c.at("after")[step][0]);
        check(model.b, c.at("after")[step][1]);
      }
    }
}

BOOST_AUTO_TEST_CASE(encoder_layers_are_pytorchs) {
  json goldens = golden("encoder_layer.json");
  Tensor lengths = lengths_of(goldens.at("lengths"));
  Tensor cotangent = golden_tensor(goldens.at("cotangent"));
  for (const json& c : goldens.at("cases")) BOOST_TEST_CONTEXT(c.at("name")) {
      TransformerOptions options{.model_dim = 6,
                                 .heads = goldens.at("heads"),
                                 .feed_forward_dim = 5,
                                 .norm = c.at("name") == "pre-norm" ? Norm::pre : Norm::post,
                                 .dropout = 0};
      TransformerLayer layer(options, 0, Place::encoder, encoder_layer(plain_attention));
      layer.to(DType::f64);
      layer.to(test_device());
      for (NamedParameter& p : layer.parameters()) {  // "attention.query.weight" is their "query.weight"
        std::string name = p.name;
        for (std::string part : {"attention.", "feed_forward."})
          if (name.starts_with(part)) name = name.substr(part.size());
        p.variable.value().copy_from(golden_tensor(goldens.at("weights").at(name)));
      }
      Variable x = leaf(goldens.at("x"));
      Variable output = layer.forward({x, lengths});
      Tensor expected = golden_tensor(c.at("output"));
      for (std::int64_t b = 0; b < 2; ++b) {
        std::int64_t n = lengths.to_vector<std::int64_t>()[static_cast<std::size_t>(b)];
        BOOST_TEST(largest_difference(output.value().select(0, b).slice(0, 0, n),
                                      expected.select(0, b).slice(0, 0, n)) < tolerance);
      }
      check(grad(output, {x}, cotangent)[0], c.at("x.gradient"));
    }
}
