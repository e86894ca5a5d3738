// A training step that has been made before asks the system for no memory.
#include <boost/test/unit_test.hpp>

#include "attention/registry.h"
#include "nn/encoder_classifier.h"
#include "nn/loss.h"
#include "nn/optimizer.h"
#include "tests/attention/attentions.h"

using namespace fovea;
using namespace fovea::test;

BOOST_AUTO_TEST_SUITE(steady)

BOOST_AUTO_TEST_CASE(a_steady_training_step_asks_the_system_for_nothing) {
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

BOOST_AUTO_TEST_SUITE_END()
