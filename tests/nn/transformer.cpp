#include "nn/transformer.h"

#include <boost/test/unit_test.hpp>

#include "autograd/map.h"
#include "autograd/operations.h"
#include "nn/encoder_classifier.h"
#include "nn/transformer_model.h"
#include "tensor/constant.h"
#include "tensor/formula/arithmetic.h"
#include "tests/nn/module_gradcheck.h"
#include "tests/nn/plain_attention.h"
#include "tests/nn/values.h"

using namespace fovea;
using namespace fovea::test;

namespace {

TransformerOptions small(Norm norm, int layers = 1) {
  return {.layers = layers,
          .model_dim = 6,
          .heads = 2,
          .feed_forward_dim = 5,
          .norm = norm,
          .activation = Activation::gelu,
          .dropout = 0.2,
          .feed_forward_dropout = 0.1};
}

Tensor integers(const std::vector<std::int32_t>& values, const Shape& shape) { return Tensor::from(values, shape); }

/// B sentences of T tokens that are real up to their lengths, then 0.
Tensor padded_tokens(const std::vector<std::int32_t>& lengths, std::int64_t T) {
  std::vector<std::int32_t> tokens;
  for (std::size_t b = 0; b < lengths.size(); ++b)
    for (std::int64_t t = 0; t < T; ++t)
      tokens.push_back(t < lengths[b] ? 1 + static_cast<std::int32_t>((7 * b + 3 * static_cast<std::size_t>(t)) % 10)
                                      : 0);
  return integers(tokens, {static_cast<std::int64_t>(lengths.size()), T});
}

}  // namespace

BOOST_AUTO_TEST_CASE(encoder_layers_pass_gradcheck) {
  Tensor x = random_tensor({2, 3, 6}, 1), lengths = integers({3, 2}, {2});
  for (Norm norm : {Norm::pre, Norm::post}) {
    TransformerStack encoder(small(norm), Place::encoder, encoder_layer(plain_attention));
    randomise(encoder);
    BOOST_TEST(module_gradcheck(encoder, [&](auto& in) { return encoder.forward({in[0], lengths}); }, {x}) == "");
  }
}

BOOST_AUTO_TEST_CASE(the_kind_of_all_norms_of_a_stack_is_an_option) {
  const Tensor x = random_tensor({2, 3, 6}, 1), lengths = integers({3, 2}, {2});
  for (Norm norm : {Norm::pre, Norm::post}) {
    TransformerOptions options = small(norm);
    options.norm_kind = NormKind::rms;
    TransformerStack encoder(options, Place::encoder, encoder_layer(plain_attention));
    randomise(encoder);
    BOOST_TEST(module_gradcheck(encoder, [&](auto& in) { return encoder.forward({in[0], lengths}); }, {x}) == "");
    int gains = 0;
    for (const NamedParameter& p : encoder.parameters()) {
      BOOST_TEST(!p.name.ends_with("norm.bias"), p.name);
      gains += p.name.ends_with("norm.gain");
    }
    BOOST_TEST(gains == (norm == Norm::pre ? 3 : 2));
  }
}

// With an epsilon far above the squares of the states, a norm is a division by its root: halved by four times as much.
BOOST_AUTO_TEST_CASE(the_epsilon_of_all_norms_of_a_stack_is_an_option) {
  const Tensor x = map(Multiply{}, random_tensor({2, 3, 6}, 1), constant(1e-6, DType::f64, test_device()));
  for (NormKind kind : {NormKind::layer, NormKind::rms})
    for (Norm norm : {Norm::pre, Norm::post}) {
      auto largest = [&](double epsilon) {
        TransformerOptions options = small(norm);
        options.norm_kind = kind;
        options.norm_epsilon = epsilon;
        options.layers = norm == Norm::pre ? 0 : 1;  // the last norm, or those of a layer
        TransformerStack encoder(options, Place::encoder, {{SubLayer::Kind::feed_forward}});
        encoder.initialise(1);
        encoder.to(DType::f64);
        encoder.to(test_device());
        encoder.train(false);
        return largest_difference(encoder.forward({x}).value(), Tensor::zeros(x.shape(), DType::f64, test_device()));
      };
      BOOST_TEST(largest(4e-2) > 0);
      BOOST_TEST(largest(1e-2) / largest(4e-2) > 1.99);
      BOOST_TEST(largest(1e-2) / largest(4e-2) < 2.01);
    }
}

BOOST_AUTO_TEST_CASE(decoder_layers_pass_gradcheck) {
  Tensor x = random_tensor({2, 3, 6}, 1), memory = random_tensor({2, 4, 6}, 2);
  Tensor lengths = integers({2, 3}, {2}), memory_lengths = integers({4, 1}, {2});
  for (Norm norm : {Norm::pre, Norm::post}) {
    TransformerStack decoder(small(norm), Place::decoder, decoder_layer(plain_attention, plain_attention));
    randomise(decoder);
    auto forward = [&](auto& in) { return decoder.forward({in[0], lengths, in[1], memory_lengths}); };
    BOOST_TEST(module_gradcheck(decoder, forward, {x, memory}) == "");
  }
}

BOOST_AUTO_TEST_CASE(sub_layers_are_normalised_before_or_after) {
  Tensor x = random_tensor({1, 3, 6}, 1);
  for (Norm norm : {Norm::pre, Norm::post}) {
    TransformerLayer layer(small(norm), 0, Place::encoder, encoder_layer(plain_attention));
    randomise(layer);
    layer.train(false);
    // The parts, made again from the layer's own parameters.
    PlainAttention attention({.model_dim = 6, .heads = 2});
    LayerNorm attention_norm(6), feed_forward_norm(6);
    FeedForward feed_forward(6, 5, {.activation = Activation::gelu});
    std::vector<Module*> parts = {&attention, &attention_norm, &feed_forward, &feed_forward_norm};
    std::vector<NamedParameter> from = layer.parameters();
    std::size_t next = 0;
    for (Module* part : parts) {
      part->to(DType::f64);
      part->to(test_device());
      for (NamedParameter& p : part->parameters()) p.variable.value().copy_from(from[next++].variable.value());
    }
    BOOST_TEST(next == from.size());
    auto attend = [&](const Variable& h) { return attention.forward({.query = h, .key = h, .value = h}); };
    Variable y, z;
    if (norm == Norm::pre) {
      y = x + attend(attention_norm.forward(x));
      z = y + feed_forward.forward(feed_forward_norm.forward(y));
    } else {
      y = attention_norm.forward(x + attend(x));
      z = feed_forward_norm.forward(y + feed_forward.forward(y));
    }
    BOOST_TEST(largest_difference(layer.forward({x}).value(), z.value()) < 1e-13);
  }
}

BOOST_AUTO_TEST_CASE(a_decoder_sees_no_future) {
  TransformerStack decoder(small(Norm::pre, 2), Place::decoder, decoder_layer(plain_attention, plain_attention));
  randomise(decoder);
  decoder.train(false);
  Tensor memory = random_tensor({1, 4, 6}, 2), x = random_tensor({1, 5, 6}, 1), changed = x.clone();
  changed.slice(1, 3, 5).copy_from(random_tensor({1, 2, 6}, 3));
  Tensor a = decoder.forward({x, {}, memory}).value(), b = decoder.forward({changed, {}, memory}).value();
  BOOST_TEST(largest_difference(a.slice(1, 0, 3), b.slice(1, 0, 3)) < 1e-14);
  BOOST_TEST(largest_difference(a.slice(1, 3, 5), b.slice(1, 3, 5)) > 1e-3);
}

BOOST_AUTO_TEST_CASE(a_decoder_sees_no_padding) {
  TransformerStack decoder(small(Norm::post, 2), Place::decoder, decoder_layer(plain_attention, plain_attention));
  randomise(decoder);
  decoder.train(false);
  Tensor x = random_tensor({1, 5, 6}, 1), memory = random_tensor({1, 4, 6}, 2);
  Tensor three = integers({3}, {1}), two = integers({2}, {1});
  Tensor padded = decoder.forward({x, three, memory, two}).value();
  Tensor tight = decoder.forward({x.slice(1, 0, 3), {}, memory.slice(1, 0, 2)}).value();
  BOOST_TEST(largest_difference(padded.slice(1, 0, 3), tight) < 1e-14);
}

BOOST_AUTO_TEST_CASE(the_factory_is_told_where_each_attention_sits) {
  std::vector<AttentionShape> shapes;
  auto factory = [&](const AttentionShape& shape) {
    shapes.push_back(shape);
    return plain_attention(shape);
  };
  TransformerOptions options = small(Norm::post, 2);
  options.attention_dropout = 0.25;
  TransformerStack encoder(options, Place::encoder, encoder_layer(factory));
  TransformerStack decoder(options, Place::decoder, decoder_layer(factory, factory));
  std::vector<Place> places = {Place::encoder, Place::encoder, Place::decoder,
                               Place::cross,   Place::decoder, Place::cross};
  std::vector<int> layers = {0, 1, 0, 0, 1, 1};
  BOOST_TEST_REQUIRE(shapes.size() == places.size());
  for (std::size_t k = 0; k < shapes.size(); ++k) {
    BOOST_TEST((shapes[k].place == places[k] && shapes[k].layer == layers[k] && shapes[k].layers == 2));
    BOOST_TEST((shapes[k].model_dim == 6 && shapes[k].heads == 2 && shapes[k].dropout == 0.25));
  }
}

BOOST_AUTO_TEST_CASE(a_stack_refuses_what_cannot_be_added_or_counted) {
  auto narrow = [](AttentionShape shape) {
    shape.model_dim = 4;
    return plain_attention(shape);
  };
  BOOST_TEST(error_of([&] { TransformerStack(small(Norm::pre), Place::encoder, encoder_layer(narrow)); }) ==
             "attention: its result is 4 wide; a layer adds it to states of width 6, so it must be as wide");
  BOOST_TEST(error_of([&] {
               TransformerStack(small(Norm::pre, -1), Place::decoder, encoder_layer(plain_attention));
             }) == "decoder: there are -1 layers; it must be at least 0");
}

BOOST_AUTO_TEST_CASE(traces_have_one_entry_per_attention) {
  TransformerStack decoder(small(Norm::pre, 3), Place::decoder, decoder_layer(plain_attention, plain_attention));
  randomise(decoder);
  decoder.train(false);
  std::vector<AttentionTrace> traces;
  decoder.forward({.states = random_tensor({2, 3, 6}, 1), .source = random_tensor({2, 4, 6}, 2), .traces = &traces});
  BOOST_TEST_REQUIRE(traces.size() == 6u);
  BOOST_TEST(traces[4].name == "2.attention");
  BOOST_TEST((traces[4].weights.shape() == Shape{2, 2, 3, 3}));
  BOOST_TEST(traces[5].name == "2.cross");
  BOOST_TEST((traces[5].weights.shape() == Shape{2, 2, 3, 4}));
}

BOOST_AUTO_TEST_CASE(the_base_model_of_nguyen_has_60915712_parameters) {
  // methods.md section 14 [N]: 6 + 6 layers, d 512, feed-forward 2048, post-norm, one table of 32768 for all.
  TransformerOptions base{.norm = Norm::post};
  TransformerModel model({.source_vocabulary = 32768, .vocabulary = 32768, .encoder = base, .decoder = base},
                         encoder_layer(plain_attention), decoder_layer(plain_attention, plain_attention));
  BOOST_TEST(model.parameter_count() == 60915712);
}

namespace {

EncoderClassifierOptions tiny_classifier(Pool pool = Pool::masked) {
  return {.vocabulary = 11, .classes = 3, .encoder = small(Norm::pre, 2), .pool = pool};
}

Tensor evaluate(EncoderClassifier& model, const Tensor& tokens, const Tensor& lengths) {
  model.train(false);
  NoGrad no_grad;
  return model.forward(tokens, lengths).value();
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_classifier_passes_gradcheck) {
  Tensor lengths = integers({3, 2}, {2}), tokens = padded_tokens({3, 2}, 4);
  for (Pool pool : {Pool::masked, Pool::t2t, Pool::first}) {
    EncoderClassifierOptions options = tiny_classifier(pool);
    options.embedding_norm = pool == Pool::first;
    options.encoder.layers = 1;
    options.encoder.feed_forward_dim = 3;
    EncoderClassifier model(options, plain_attention);
    randomise(model);
    model.train(false);
    // t2t averages the vectors of padding too, which are zeros whatever the padding row holds
    BOOST_TEST(module_gradcheck(model, [&](auto&) { return model.forward(tokens, lengths); }, {}) == "");
  }
}

BOOST_AUTO_TEST_CASE(a_classifier_names_its_parameters_by_place) {
  EncoderClassifier model(tiny_classifier(), plain_attention);
  std::vector<std::string> names;
  for (const NamedParameter& p : model.parameters()) names.push_back(p.name);
  BOOST_TEST(names.front() == "embedding.weight");
  BOOST_TEST(names[1] == "encoder.0.attention.query.weight");
  BOOST_TEST(names[names.size() - 4] == "encoder.norm.gain");
  BOOST_TEST(names.back() == "classifier.bias");
}

BOOST_AUTO_TEST_CASE(padding_changes_nothing) {
  Tensor lengths = integers({5, 1, 3}, {3});
  for (Pool pool : {Pool::masked, Pool::first}) {
    EncoderClassifier model(tiny_classifier(pool), plain_attention);
    randomise(model);
    Tensor tight = evaluate(model, padded_tokens({5, 1, 3}, 5), lengths);
    Tensor wide = evaluate(model, padded_tokens({5, 1, 3}, 9), lengths);
    BOOST_TEST(largest_difference(tight, wide) < 1e-13);
  }

  EncoderClassifier averaging_pads(tiny_classifier(Pool::t2t), plain_attention);
  randomise(averaging_pads);
  BOOST_TEST(largest_difference(evaluate(averaging_pads, padded_tokens({5, 1, 3}, 5), lengths),
                                evaluate(averaging_pads, padded_tokens({5, 1, 3}, 9), lengths)) > 1e-3);
}

// Gradients of parameters are sums over all rows, in which 0 · NaN would be NaN.
BOOST_AUTO_TEST_CASE(padding_that_is_not_finite_changes_no_gradient) {
  const Tensor lengths = integers({3, 2}, {2});
  for (Norm norm : {Norm::pre, Norm::post}) {
    TransformerStack encoder(small(norm, 2), Place::encoder, encoder_layer(plain_attention));
    randomise(encoder);
    encoder.train(false);
    std::vector<Variable> leaves{Variable()};
    for (const NamedParameter& p : encoder.parameters()) leaves.push_back(p.variable);
    auto results = [&](double number) {
      Tensor states = random_tensor({2, 4, 6}, 1).to(Device::cpu).clone(),
             cotangent = random_tensor({2, 4, 6}, 2).to(Device::cpu).clone();
      for (std::int64_t b = 0; b < 2; ++b) {
        states.slice(0, b, b + 1).slice(1, b == 0 ? 3 : 2, 4).fill(number);
        cotangent.slice(0, b, b + 1).slice(1, b == 0 ? 3 : 2, 4).fill(0);
      }
      leaves[0] = Variable(here(states), true);
      const Variable out = encoder.forward({leaves[0], lengths});
      std::vector<double> all = (out * Variable(here(cotangent))).value().to_vector<double>();
      for (const Variable& g : grad(out, leaves, here(cotangent)))
        for (double one : g.value().to_vector<double>()) all.push_back(one);
      return all;
    };
    const std::vector<double> expected = results(0);
    for (double number : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), -1e300})
      BOOST_TEST((results(number) == expected), "padding " << number);
  }
}

BOOST_AUTO_TEST_CASE(padding_changes_no_gradient) {
  EncoderClassifier model(tiny_classifier(), plain_attention);
  randomise(model);
  model.train(false);
  std::vector<Variable> parameters;
  for (const NamedParameter& p : model.parameters()) parameters.push_back(p.variable);
  Tensor lengths = integers({4, 2}, {2});
  auto gradients = [&](std::int64_t T) {
    Variable logits = model.forward(padded_tokens({4, 2}, T), lengths);
    return grad(logits, parameters, Variable(random_tensor({2, 3}, 1)));
  };
  Gradients tight = gradients(4), wide = gradients(7);
  for (std::size_t k = 0; k < tight.size(); ++k)
    BOOST_TEST(largest_difference(tight[k].value(), wide[k].value()) < 1e-12);
}

BOOST_AUTO_TEST_CASE(the_order_of_a_batch_changes_nothing) {
  EncoderClassifier model(tiny_classifier(), plain_attention);
  randomise(model);
  Tensor tokens = padded_tokens({5, 1, 3}, 5), reversed = tokens.clone();
  for (std::int64_t b = 0; b < 3; ++b) reversed.select(0, b).copy_from(tokens.select(0, 2 - b));
  Tensor a = evaluate(model, tokens, integers({5, 1, 3}, {3}));
  Tensor b = evaluate(model, reversed, integers({3, 1, 5}, {3}));
  for (std::int64_t k = 0; k < 3; ++k) BOOST_TEST(largest_difference(a.select(0, k), b.select(0, 2 - k)) < 1e-13);
}

BOOST_AUTO_TEST_CASE(a_batch_that_does_not_fit_is_refused) {
  EncoderClassifier model(tiny_classifier(), plain_attention);
  model.to(test_device());
  model.initialise(1);
  model.train(false);
  Tensor tokens = padded_tokens({3, 2}, 3);
  BOOST_TEST(error_of([&] { model.forward(tokens.select(0, 0), integers({3}, {1})); }) ==
             "EncoderClassifier: the tokens are i32 [3]; expected [B, T]");
  BOOST_TEST(error_of([&] { model.forward(tokens, integers({3}, {1})); }) ==
             "EncoderClassifier: the lengths are i32 [1]; expected one for each of the 2 sentences");
  for (int wrong : {4, 0})
    for (const Tensor& lengths : {integers({3, wrong}, {2}), here(integers({3, wrong}, {2}))})
      BOOST_TEST(error_of([&] {
                   model.forward(tokens, lengths).value().to_vector<double>();  // an error of a GPU comes with a wait
                 }) == fmt::format("EncoderClassifier: the length at [1] of [2] is {}; it must be in 1 to 3", wrong));
}
