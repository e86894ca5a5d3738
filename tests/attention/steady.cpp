// Training steps: a step of known sizes allocates no memory from the system, and the number of threads changes no bit
// of the result.
#include <algorithm>
#include <numeric>
#include <random>

#include <boost/test/unit_test.hpp>
#include <omp.h>
#include <sched.h>

#include "attention/engine/attend.h"
#include "attention/registry.h"
#include "nn/auxiliary_losses.h"
#include "nn/encoder_classifier.h"
#include "nn/loss.h"
#include "nn/optimizer.h"
#include "nn/recurrent_model.h"
#include "nn/transformer_model.h"
#include "tensor/kernels.h"
#include "tests/attention/attentions.h"
#include "tests/device.h"

using namespace fovea;
using namespace fovea::test;

namespace {

/// Lets all threads run on these processors only; returns where the calling one was allowed to run before.
cpu_set_t set_processors(const cpu_set_t& processors) {
  cpu_set_t before;
  sched_getaffinity(0, sizeof before, &before);
#pragma omp parallel
  sched_setaffinity(0, sizeof processors, &processors);
  return before;
}

cpu_set_t first_processor() {
  cpu_set_t all, first;
  sched_getaffinity(0, sizeof all, &all);
  int processor = 0;
  while (!CPU_ISSET(processor, &all)) ++processor;
  CPU_ZERO(&first);
  CPU_SET(processor, &first);
  return first;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(steady)

BOOST_AUTO_TEST_CASE(a_repeated_training_step_allocates_no_memory_from_the_system) {
  for (AttentionEngine engine : {AttentionEngine::fused, AttentionEngine::composed})
    for (const char* attention :
         {"global", "relative", "gaussian", "window(use=additive,segment=2)", "dman+activation",
          "sman+rotary+sinks(logit=true)", "adaptive_span+alibi+t5+soft_cap+sliding", "additive", "general+local_p",
          "location(longest=20)", "fine_grained", "heads(laplace*2, mean*1, local_m*1)"}) {
      AttentionEngineScope chosen(engine);
      EncoderClassifierOptions options;
      options.vocabulary = 50;
      options.encoder.model_dim = 32;
      options.encoder.feed_forward_dim = 64;
      EncoderClassifier model(options, attention_factory(attention));
      model.initialise(1);
      AdamW optimizer(model.parameters(), {});
      Tensor tokens = Tensor::full({6, 11}, 7, DType::i32);
      Tensor lengths = Tensor::from(std::vector<std::int32_t>{11, 3, 7, 1, 10, 5}, {6});
      Tensor labels = Tensor::from(std::vector<std::int32_t>{0, 1, 1, 0, 1, 0}, {6});
      auto step = [&] {
        RandomScope random({1});
        Variable loss = cross_entropy_loss(model.forward(tokens, lengths), labels);
        optimizer.zero_grad();
        backward(loss);
        optimizer.step(1e-3, clip_scale(gradient_norm(optimizer.parameters()), 1));
      };
      for (int warming = 0; warming < 3; ++warming) step();
      std::uint64_t before = allocator_statistics().system_allocations;
      for (int steady = 0; steady < 5; ++steady) step();
      BOOST_TEST(allocator_statistics().system_allocations == before, attention);
    }
}

/// Loss and gradients of a Transformer that translates, with dropout and auxiliary losses, and the most memory that
/// they took.
struct Trained {
  std::vector<std::vector<double>> numbers;
  std::size_t peak = 0;
};
Trained trained(const std::string& attention, Recompute recompute, Device device) {
  TransformerModelOptions options{.source_vocabulary = 12, .vocabulary = 12};
  options.encoder = {.layers = 3,
                     .model_dim = 8,
                     .heads = 2,
                     .feed_forward_dim = 16,
                     .attention_dropout = 0.2,
                     .recompute = recompute};
  options.decoder = options.encoder;
  const AttentionFactory factory = attention_factory(attention);
  TransformerModel model(options, encoder_layer(factory), decoder_layer(factory, attention_factory("global")));
  model.to(device);
  model.initialise(1);
  const Tensor tokens = Tensor::from(std::vector<std::int32_t>{3, 1, 4, 1, 5, 9, 2, 6, 0, 0}, {2, 5});
  const Tensor lengths = Tensor::from(std::vector<std::int32_t>{5, 3}, {2});
  reset_peak(device);
  RandomScope random({.seed = 4});
  AuxiliaryLosses auxiliary;
  Variable loss = model.loss({tokens, lengths, tokens, lengths}, tokens, {.label_smoothing = 0.1, .ignored = 0});
  if (!auxiliary.empty()) loss = loss + sum(auxiliary.per_sentence(lengths));
  backward(loss);
  Trained result{.numbers = {{loss.item()}}, .peak = allocator_statistics(device).peak_bytes};
  for (const NamedParameter& p : model.parameters())
    result.numbers.push_back(p.variable.grad().defined() ? p.variable.grad().value().to_vector<double>()
                                                         : std::vector<double>{});
  return result;
}

BOOST_AUTO_TEST_CASE(recomputed_layers_change_no_bit_of_a_gradient_and_take_less_memory) {
  std::vector<Device> devices{Device::cpu};
  if (cuda_is_available()) devices.push_back(Device::cuda);
  for (Device device : devices)
    for (const char* attention : {"global", "gaussian", "adaptive_span(penalty=0.3)", "activation"})
      BOOST_TEST_CONTEXT(attention << " on " << name(device)) {
        const Trained kept = trained(attention, Recompute::none, device);
        const Trained again = trained(attention, Recompute::layers, device);
        BOOST_TEST_REQUIRE(again.numbers.size() == kept.numbers.size());
        for (std::size_t k = 0; k < kept.numbers.size(); ++k) BOOST_TEST((again.numbers[k] == kept.numbers[k]), k);
        BOOST_TEST(again.peak < kept.peak);
      }
}

/// A training step of a model, which may be called again and again.
using Step = std::function<void()>;

/// Steps of three models on CUDA whose tokens, lengths and targets come from the host: a classifier, a Transformer that
/// translates, and a recurrent model that translates.
std::vector<std::pair<std::string, Step>> steps_on_cuda(const std::string& attention) {
  std::vector<std::pair<std::string, Step>> steps;
  const Tensor tokens = Tensor::from(std::vector<std::int32_t>{3, 1, 4, 1, 5, 9, 2, 6, 0, 0}, {2, 5});
  const Tensor lengths = Tensor::from(std::vector<std::int32_t>{5, 3}, {2});
  auto add = [&](const std::string& name, auto model, auto loss_of) {
    model->to(Device::cuda);
    model->initialise(1);
    auto optimizer = std::make_shared<AdamW>(model->parameters(), AdamW::Options{});
    steps.emplace_back(name, [model, optimizer, loss_of] {
      RandomScope random({1});
      Variable loss = loss_of(*model);
      optimizer->zero_grad();
      backward(loss);
      optimizer->step(1e-3, clip_scale(gradient_norm(optimizer->parameters()), 1));
    });
  };
  EncoderClassifierOptions options;
  options.vocabulary = 12;
  options.encoder = {.layers = 2, .model_dim = 8, .heads = 2, .feed_forward_dim = 8};
  add("classifier", std::make_shared<EncoderClassifier>(options, attention_factory(attention)),
      [=](EncoderClassifier& model) {
        const Tensor labels = Tensor::from(std::vector<std::int32_t>{0, 1}, {2});
        return cross_entropy_loss(model.forward(tokens, lengths), labels, {}, Total::sum);
      });
  const SequenceBatch batch{tokens, lengths, tokens, lengths};
  auto loss_of = [=](SequenceModel& model) {
    Tensor unsmoothed;
    return model.loss(batch, tokens, {.label_smoothing = 0.1, .ignored = 0}, &unsmoothed);
  };
  TransformerModelOptions translator{
      .source_vocabulary = 12, .vocabulary = 12, .encoder = options.encoder, .decoder = options.encoder};
  add("Transformer",
      std::make_shared<TransformerModel>(translator, encoder_layer(attention_factory(attention)),
                                         decoder_layer(attention_factory("global"), attention_factory("global"))),
      loss_of);
  if (attention != "global") return steps;
  RecurrentModelOptions recurrent;
  recurrent.source_vocabulary = recurrent.vocabulary = 12;
  recurrent.dim = recurrent.embedding_dim = 6;
  add("recurrent model", std::make_shared<RecurrentModel>(recurrent, attention_factory("classic(additive)")), loss_of);
  return steps;
}

BOOST_AUTO_TEST_CASE(a_repeated_training_step_on_cuda_takes_no_memory_and_makes_the_host_wait_for_nothing,
                     *with_cuda()) {
  AttentionEngineScope composed(AttentionEngine::composed);
  for (const char* attention :
       {"global", "relative", "gaussian", "window(use=additive,segment=2)", "dman+activation", "sparsemax",
        "sman+rotary+sinks(logit=true)", "adaptive_span+alibi+t5+soft_cap+sliding", "location(longest=20)"})
    for (const auto& [model, step] : steps_on_cuda(attention)) BOOST_TEST_CONTEXT(model << " with " << attention) {
        for (int warming = 0; warming < 2; ++warming) step();
        const std::uint64_t waits = kernels(Device::cuda).synchronizations();
        const std::uint64_t allocated = allocator_statistics(Device::cuda).system_allocations;
        for (int steady = 0; steady < 2; ++steady) step();
        BOOST_TEST(kernels(Device::cuda).synchronizations() == waits);
        BOOST_TEST(allocator_statistics(Device::cuda).system_allocations == allocated);
      }
}

/// How often each kernel is launched by one step of a Transformer with this number of layers in encoder and decoder,
/// with padding and global attention, when earlier steps have made what is made once.
std::map<std::string, std::uint64_t> launches_of_a_step(int layers) {
  const Tensor tokens = Tensor::from(std::vector<std::int32_t>{3, 1, 4, 1, 5, 9, 2, 6, 0, 0}, {2, 5});
  const Tensor lengths = Tensor::from(std::vector<std::int32_t>{5, 3}, {2});
  const TransformerOptions stack{.layers = layers, .model_dim = 8, .heads = 2, .feed_forward_dim = 8};
  const AttentionFactory attention = attention_factory("global");
  TransformerModel model({.source_vocabulary = 12, .vocabulary = 12, .encoder = stack, .decoder = stack},
                         encoder_layer(attention), decoder_layer(attention, attention));
  model.to(Device::cuda);
  model.initialise(1);
  auto step = [&] {
    RandomScope random({1});
    for (NamedParameter& parameter : model.parameters()) parameter.variable.clear_grad();
    backward(model.loss({tokens, lengths, tokens, lengths}, tokens, {.ignored = 0}, nullptr));
  };
  step();
  std::map<std::string, std::uint64_t> launches;
  for (const LaunchCount& count : kernels(Device::cuda).launches()) launches[count.kernel] -= count.launches;
  step();
  for (const LaunchCount& count : kernels(Device::cuda).launches()) launches[count.kernel] += count.launches;
  return launches;
}

BOOST_AUTO_TEST_CASE(further_layers_make_no_masks_positions_or_constants, *with_cuda()) {
  AttentionEngineScope composed(AttentionEngine::composed);
  std::map<std::string, std::uint64_t> few = launches_of_a_step(1), many = launches_of_a_step(3);
  BOOST_TEST(many["softmax"] == 3 * few["softmax"]);
  for (const char* kernel : {"arange", "fill", "less", "less_equal", "logical_or", "logical_not", "minimum", "abs"})
    BOOST_TEST(many[kernel] == few[kernel], kernel << ": " << few[kernel] << " and " << many[kernel]);
  // the states of each self-attention, the queries of each cross-attention, and the source once
  BOOST_TEST(many["within_range"] == 10u);
  BOOST_TEST(many["allowed_sum"] == 9u);
}

BOOST_AUTO_TEST_CASE(a_layer_takes_three_products_for_what_reads_one_input_and_shares_the_map_of_tiles, *with_cuda()) {
  AttentionEngineScope fused(AttentionEngine::fused);
  std::map<std::string, std::uint64_t> few = launches_of_a_step(1), many = launches_of_a_step(3);
  BOOST_TEST(many["attention_tiles"] == few["attention_tiles"]);
  // Products: self-attention has one for queries, keys and values together and one for the output; cross-attention one
  // for queries, one for keys and values, one for the output. Each takes three: one forward, two in the backward pass.
  const std::uint64_t self = 3 * 2, cross = 3 * 3, feed_forward = 3 * 2;
  BOOST_TEST(many["gemm"] - few["gemm"] == 2 * (self + feed_forward + self + cross + feed_forward));
}

BOOST_AUTO_TEST_CASE(a_layer_adds_drops_and_normalises_in_one_launch, *with_cuda()) {
  AttentionEngineScope fused(AttentionEngine::fused);
  std::map<std::string, std::uint64_t> few = launches_of_a_step(1), many = launches_of_a_step(3);
  std::uint64_t more = 0;
  for (const auto& [kernel, count] : many) more += count - few[kernel];
  for (const char* kernel : {"dropout", "layer_norm"}) {
    BOOST_TEST(few[kernel] > 0u, kernel);
    BOOST_TEST(many[kernel] == few[kernel], kernel << ": " << few[kernel] << " and " << many[kernel]);
  }
  BOOST_TEST(many["add_norm"] - few["add_norm"] == 2 * (2u + 3u));
  // an encoder's layer takes 10 launches forward and 14 backward, a decoder's 17 and 26
  BOOST_TEST(more <= 2 * (10u + 14u + 17u + 26u));
}

// On one processor, threads run one after the other; memory that one gave back would serve the next.
BOOST_AUTO_TEST_CASE(a_step_on_a_busy_machine_takes_as_much_memory_as_one_with_all_threads_at_once) {
  const cpu_set_t all = set_processors(first_processor());
  for (const char* attention : {"global", "gaussian", "relative", "window(use=additive,segment=2)", "additive"}) {
    auto mechanism = attention_factory(attention)({.model_dim = 64, .heads = 4, .layers = 1, .place = Place::encoder});
    mechanism->initialise(1);
    Generator generator(3);
    Tensor x = Tensor::empty({8, 70, 64});
    fill_normal(x, generator);
    AttentionEngineScope chosen(AttentionEngine::fused);
    release_cache();
    auto step = [&] {
      Variable states(x);
      backward(sum(mechanism->forward({.query = states, .key = states, .value = states})));
    };
    set_processors(first_processor());
    for (int warming = 0; warming < 2; ++warming) step();
    set_processors(all);
    const std::uint64_t before = allocator_statistics().system_allocations;
    for (int steady = 0; steady < 20; ++steady) step();
    BOOST_TEST(allocator_statistics().system_allocations == before, attention);
  }
}

// In f64. In f32 it holds where it holds for matrix products (gemm.h).
BOOST_AUTO_TEST_CASE(the_number_of_threads_changes_no_loss_and_no_norm_of_a_training) {
  auto train = [](int threads) {
    const int before = omp_get_max_threads();
    omp_set_num_threads(threads);
    EncoderClassifierOptions options;
    options.vocabulary = 500;
    options.encoder.model_dim = 32;
    options.encoder.feed_forward_dim = 64;
    options.encoder.dropout = 0.2;
    options.encoder.attention_dropout = 0.1;
    EncoderClassifier model(options, attention_factory("gaussian+relative(clip=2)"));
    model.initialise(1);
    model.to(DType::f64);
    AdamW optimizer(model.parameters(), {});
    std::mt19937 generator(3);
    std::vector<double> losses_and_norms;
    for (std::int64_t update = 0; update < 50; ++update) {
      std::vector<std::int32_t> tokens(500), labels, lengths;
      std::iota(tokens.begin(), tokens.end(), 0);
      std::shuffle(tokens.begin(), tokens.end(), generator);
      for (int row = 0; row < 20; ++row) labels.push_back(row % 2), lengths.push_back(25 - row);
      RandomScope random({.seed = 1, .update = update});
      Variable loss = cross_entropy_loss(model.forward(Tensor::from(tokens, {20, 25}), Tensor::from(lengths, {20})),
                                         Tensor::from(labels, {20}));
      optimizer.zero_grad();
      backward(loss);
      losses_and_norms.push_back(loss.item());
      const Tensor norm = gradient_norm(optimizer.parameters());
      losses_and_norms.push_back(norm.item());
      optimizer.step(1e-3, clip_scale(norm, 1));
    }
    omp_set_num_threads(before);
    return losses_and_norms;
  };
  const std::vector<double> one = train(1);
  for (int threads : {2, 3}) BOOST_TEST(train(threads) == one, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
