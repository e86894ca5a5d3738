// The tape and the backward pass: what is promised beside the derivatives themselves.
#include <atomic>
#include <mutex>
#include <queue>
#include <thread>

#include <boost/test/unit_test.hpp>

#include "autograd/node.h"
#include "autograd/operations.h"
#include "autograd/scope_times.h"
#include "autograd/tape.h"
#include "tests/autograd/random_inputs.h"
#include "tests/refusal.h"

using namespace fovea;
using namespace fovea::test;

namespace {

std::vector<double> values(const Variable& x) { return x.value().to_vector<double>(); }

/// Runs an action in a thread of its own, to its end.
void in_another_thread(const std::function<void()>& action) { std::thread(action).join(); }

}  // namespace

BOOST_AUTO_TEST_SUITE(engine)

BOOST_AUTO_TEST_CASE(a_variable_used_twice_gets_both_gradients) {
  // z = x + y, w = 3 x, u = z + w: du/dx = 4, du/dy = 1.
  Variable x = random_input({1}, 1), y = random_input({1}, 2);
  backward(x + y + x * 3.0);
  BOOST_TEST(x.grad().item() == 4);
  BOOST_TEST(y.grad().item() == 1);
}

BOOST_AUTO_TEST_CASE(the_same_variable_on_both_sides) {
  Variable x = random_input({3}, 1);
  backward(sum(x + x));
  BOOST_TEST(x.grad().value().to_vector<double>() == std::vector<double>(3, 2), boost::test_tools::per_element());
  x.clear_grad();
  backward(sum(x * x));
  BOOST_TEST(x.grad().value().to_vector<double>() == (x * 2.0).value().to_vector<double>(),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(gradients_of_two_passes_add_up) {
  Variable x = random_input({3}, 1);
  for (int pass = 0; pass < 3; ++pass) backward(sum(x * 2.0));
  BOOST_TEST(x.grad().value().to_vector<double>() == std::vector<double>(3, 6), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_pass_adds_a_finished_gradient) {
  Variable x(here(Tensor::full({1}, 3, DType::f32)), true);
  auto pass = [&](double first, double second) { backward(first * x + second * x); };
  pass(1e8, 0);
  pass(4, 4);  // f32 has 100000000 and 100000008, but nothing between: 1e8 + 4 = 1e8
  BOOST_TEST(x.grad().item() == 100000008);
}

BOOST_AUTO_TEST_CASE(a_pass_that_fails_leaves_gradients_as_they_were) {
  Variable x(here(Tensor::full({1}, 3, DType::f64)), true);
  backward(2 * x);
  Variable y = record("broken", x.value(), {x}, [](const Gradients&, const Node&) -> Gradients { fail("broken"); });
  BOOST_CHECK_THROW(backward(5 * x + exp(y)), Error);
  BOOST_TEST(x.grad().item() == 2);
}

BOOST_AUTO_TEST_CASE(accumulating_never_writes_into_a_gradient_that_is_shared) {
  // y's gradient is the cotangent itself; x's accumulates on top of it.
  Variable x = random_input({3}, 1), y = random_input({3}, 2);
  Variable cotangent(here(Tensor::of({1, 2, 3}, {3})));
  backward(x + y + x, cotangent);
  BOOST_TEST(cotangent.value().to_vector<double>() == (std::vector<double>{1, 2, 3}), boost::test_tools::per_element());
  BOOST_TEST(y.grad().value().to_vector<double>() == (std::vector<double>{1, 2, 3}), boost::test_tools::per_element());
  BOOST_TEST(x.grad().value().to_vector<double>() == (std::vector<double>{2, 4, 6}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_long_chain_neither_overflows_the_stack_nor_leaks) {
  std::size_t bytes = allocator_statistics(test_device()).bytes_in_use;
  std::weak_ptr<Node> first, last;
  // the stand-in for a GPU maps each block of memory by itself, and the kernel has a limit for that
  const int steps = by_device(200000, 10000);
  auto chain = [&](const Variable& x, const Variable& factor) {
    Variable y = x * factor;
    first = y.node();
    for (int step = 1; step < steps; ++step) y = y * factor;
    last = y.node();
    return y;
  };
  {
    Variable x = random_input({1}, 1), y = chain(x, here(Tensor::of({1}, {1})));
    BOOST_TEST(y.node()->sequence() == first.lock()->sequence() + static_cast<std::uint64_t>(steps - 1));
    backward(y);
    BOOST_TEST(x.grad().item() == 1);
    BOOST_TEST(first.expired());
  }
  BOOST_TEST(last.expired());
  BOOST_TEST(allocator_statistics(test_device()).bytes_in_use == bytes);
  {  // dropped without a backward pass
    Variable x = random_input({1}, 1), y = chain(x, x);
  }
  BOOST_TEST((first.expired() && last.expired()));
  BOOST_TEST(allocator_statistics(test_device()).bytes_in_use == bytes);
  std::shared_ptr<Node> node;  // dropped with the node, after every variable
  {
    Variable x = random_input({1}, 1);
    node = chain(x, x).node();
  }
  node.reset();
  BOOST_TEST((first.expired() && last.expired()));
  BOOST_TEST(allocator_statistics(test_device()).bytes_in_use == bytes);
}

BOOST_AUTO_TEST_CASE(backward_frees_as_it_goes) {
  Variable x = random_input({1000}, 1), inner = exp(x);
  Variable y = sum(exp(exp(inner)));
  std::weak_ptr<Node> freed = inner.node();
  inner = {};
  std::size_t before = allocator_statistics(test_device()).bytes_in_use;
  backward(y);
  BOOST_TEST(allocator_statistics(test_device()).bytes_in_use < before);
  BOOST_TEST(message_of([&] { backward(y); }) ==
             "backward: the graph of 'sum' was freed by an earlier pass; pass retain_graph to run it twice");
  BOOST_TEST(message_of([&] { grad(y, {x}); }) ==
             "backward: the graph of 'sum' was freed by an earlier pass; pass retain_graph to run it twice");
  BOOST_TEST(freed.expired());
}

BOOST_AUTO_TEST_CASE(a_retained_graph_runs_again) {
  Variable x = random_input({4}, 1);
  Variable y = sum(exp(x));
  backward(y, {}, {.retain_graph = true});
  std::vector<double> once = x.grad().value().to_vector<double>();
  backward(y);
  std::vector<double> twice = x.grad().value().to_vector<double>();
  for (std::size_t k = 0; k < once.size(); ++k) BOOST_TEST(twice[k] == 2 * once[k]);
}

BOOST_AUTO_TEST_CASE(nothing_is_recorded_under_no_grad_or_for_constants) {
  Variable x = random_input({3}, 1), constant(here(Tensor::of({1, 2, 3}, {3})));
  {
    NoGrad off;
    Variable y = exp(x) * x;
    BOOST_TEST(!y.requires_grad());
  }
  Variable z = exp(constant) + x.detach();
  BOOST_TEST(!z.requires_grad());
  BOOST_TEST(message_of([&] { backward(sum(z)); }) ==
             "backward: f64 [] does not depend on anything that requires a gradient");
}

BOOST_AUTO_TEST_CASE(gradients_of_intermediate_variables_and_of_strangers) {
  Variable x = random_input({3}, 1), stranger = random_input({2}, 2);
  Variable y = exp(x), z = sum(y * y);
  Gradients gradients = grad(z, {y, x, stranger});
  for (int k = 0; k < 3; ++k) {
    double value = y.value().to_vector<double>()[k];
    BOOST_TEST(std::abs(gradients[0].value().to_vector<double>()[k] - 2 * value) < 1e-12);
    BOOST_TEST(std::abs(gradients[1].value().to_vector<double>()[k] - 2 * value * value) < 1e-11);
  }
  BOOST_TEST(gradients[2].value().to_vector<double>() == (std::vector<double>{0, 0}), boost::test_tools::per_element());
  BOOST_TEST(!x.grad().defined());
}

BOOST_AUTO_TEST_CASE(hessian_vector_product) {
  // f = Σ x³ + (Σ x)²: H v = 6 x v + 2 Σ v.
  Variable x = random_input({4}, 1);
  Variable v(random_input({4}, 2).value());
  Variable f = sum(x * x * x) + square(sum(x));
  Variable gradient = grad(f, {x}, {}, {.create_graph = true})[0];
  std::vector<double> product = grad(sum(gradient * v), {x})[0].value().to_vector<double>();
  std::vector<double> xs = x.value().to_vector<double>(), vs = v.value().to_vector<double>();
  double total = vs[0] + vs[1] + vs[2] + vs[3];
  for (std::size_t k = 0; k < 4; ++k) BOOST_TEST(std::abs(product[k] - (6 * xs[k] * vs[k] + 2 * total)) < 1e-12);
}

BOOST_AUTO_TEST_CASE(anomaly_mode_names_the_first_bad_operation) {
  set_anomaly_detection(true);
  Variable x(here(Tensor::of({1, -1}, {2})), true);
  std::string message = message_of([&] {
    Scope outer("encoder"), inner("attention");
    sum(log(x) * 0.0);
  });
  BOOST_TEST(message == "log: the result f64 [2] has a NaN or an infinity; recorded in encoder.attention");
  Variable zero(here(Tensor::of({0, 1}, {2})), true);
  Variable root = sum(sqrt(zero));
  BOOST_TEST(message_of([&] { backward(root); }) == "sqrt: the gradient f64 [2] has a NaN or an infinity");
  set_anomaly_detection(false);
  BOOST_TEST(message_of([&] { sum(log(x)); }) == "no error");
}

BOOST_AUTO_TEST_CASE(the_tape_prints_what_was_recorded) {
  KeepValues keep;
  Variable x = Variable(here(Tensor::of({1, 2}, {1, 2})), true).named("x");
  Variable w = Variable(here(Tensor::of({3, 4}, {2, 1})), true).named("w");
  Variable y;
  {
    Scope scope("layer");
    y = tanh(matmul(x, w));
  }
  std::string text = tape_text(y);
  BOOST_TEST(text.find("matmul(x, w)") != std::string::npos, text);
  BOOST_TEST(text.find("tanh(#1)") != std::string::npos, text);
  BOOST_TEST(text.find("in layer") != std::string::npos, text);
  BOOST_TEST(text.find("11.00000") != std::string::npos, text);
  const std::vector<TapeNode> graph = tape_graph(y);
  BOOST_TEST_REQUIRE(graph.size() == 4u);  // x, w, matmul, tanh
  BOOST_TEST(graph[0].lines[0] == "x");
  BOOST_TEST(graph[0].is_leaf);
  BOOST_TEST(graph[2].lines[0] == "#1 matmul");
  BOOST_TEST((graph[2].inputs == std::vector<std::size_t>{0, 1}));
  BOOST_TEST((graph[3].inputs == std::vector<std::size_t>{2}));
  BOOST_TEST(graph[2].lines.back().find("11.00000") != std::string::npos);
}

// A rule that composes its operation again sees a repeated input twice, but must bring its gradient once.
BOOST_AUTO_TEST_CASE(one_variable_twice_in_a_fused_operation_under_create_graph) {
  Variable x = random_input({3, 4}, 1, -1, 1), g = random_input({4}, 2, 0.5, 1.5);
  auto gradient = [&](bool create_graph) {
    return grad(sum(square(layer_norm(x, g, g))), {g}, {}, {.create_graph = create_graph})[0].value();
  };
  std::vector<double> plain = gradient(false).to_vector<double>(), recorded = gradient(true).to_vector<double>();
  for (std::size_t k = 0; k < plain.size(); ++k) BOOST_TEST(std::abs(plain[k] - recorded[k]) < 1e-12);
}

BOOST_AUTO_TEST_CASE(what_is_not_on_the_way_to_an_input_is_not_run) {
  Variable x = random_input({5}, 3, 0.5, 1.5), y = exp(x), z = sum(y * y);
  int rules = 0;
  BackwardOptions options;
  options.observer = [&](const Node&, const Gradients&) { ++rules; };
  Variable gradient = grad(z, {y}, {}, options)[0];
  BOOST_TEST(rules == 2);  // the sum and the product, not exp
  for (int k = 0; k < 5; ++k)
    BOOST_TEST(gradient.value().to_vector<double>()[static_cast<std::size_t>(k)] ==
               2 * y.value().to_vector<double>()[static_cast<std::size_t>(k)]);
}

BOOST_AUTO_TEST_CASE(a_leaf_is_its_own_gradient_of_one) {
  Variable x = random_input({1}, 1), z = random_input({2}, 2);
  BOOST_TEST(values(grad(x, {x})[0]) == (std::vector<double>{1}), boost::test_tools::per_element());
  BOOST_TEST(values(grad(x, {z})[0]) == (std::vector<double>{0, 0}), boost::test_tools::per_element());
  Gradients gradients = grad(z, {x, z, z}, Variable(here(Tensor::of({3, 4}, {2}))));
  BOOST_TEST(values(gradients[0]) == (std::vector<double>{0}), boost::test_tools::per_element());
  for (int k : {1, 2})
    BOOST_TEST(values(gradients[k]) == (std::vector<double>{3, 4}), boost::test_tools::per_element());
  BOOST_TEST(!x.grad().defined());
  for (int pass = 0; pass < 2; ++pass) backward(x);
  BOOST_TEST(x.grad().item() == 2);
}

BOOST_AUTO_TEST_CASE(a_variable_may_be_the_gradient_that_a_pass_starts_from) {
  std::size_t bytes = allocator_statistics(test_device()).bytes_in_use;
  for (bool is_root : {true, false}) {
    Variable x = random_input({3}, 1);
    backward(is_root ? x : x + 1.0, x);
    BOOST_TEST(values(x.grad()) == values(x), boost::test_tools::per_element());
    BOOST_TEST(!x.grad().requires_grad());
  }
  BOOST_TEST(allocator_statistics(test_device()).bytes_in_use == bytes);
}

// ---- Threads

BOOST_AUTO_TEST_CASE(a_result_may_be_dropped_in_another_thread_than_it_was_made_in) {
  Variable x = random_input({3}, 1), before = exp(x), y;
  std::atomic<int> stage = 0;
  std::thread other([&] {
    y = sum(square(exp(Variable(x.value(), true))));
    stage = 1;
    while (stage == 1) std::this_thread::yield();
    Variable own = random_input({3}, 2), z = own;
    for (int step = 0; step < 100; ++step) z = z * 1.0;
    backward(sum(z));
    BOOST_TEST(values(own.grad()) == std::vector<double>(3, 1), boost::test_tools::per_element());
  });
  while (stage == 0) std::this_thread::yield();
  Variable z = before * 2.0;
  y = {};
  stage = 2;
  backward(sum(z));
  other.join();
  BOOST_TEST(values(x.grad()) == values(exp(x) * 2.0), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_graph_goes_through_several_threads_and_outlives_them) {
  Variable x = random_input({3}, 1), y;
  in_another_thread([&] {
    Variable late = x;  // this thread's numbers are ahead of those of the next one
    for (int step = 0; step < 100000; ++step) late = late * 1.0;
    y = late * x;
  });
  in_another_thread([&] { y = y * x; });
  in_another_thread([&] { y = sum(y * x + exp(x)); });
  Gradients gradient = grad(y, {x}, {}, {.retain_graph = true});
  Variable expected = x * x * x * 4.0 + exp(x);
  for (std::size_t k = 0; k < 3; ++k) BOOST_TEST(std::abs(values(gradient[0])[k] - values(expected)[k]) < 1e-12);
  in_another_thread([&] { backward(y); });
  BOOST_TEST(values(x.grad()) == values(gradient[0]), boost::test_tools::per_element());
  in_another_thread([&] { y = {}; });
}

BOOST_AUTO_TEST_CASE(threads_that_share_parameters_and_hand_on_their_graphs) {
  constexpr int threads = 4, steps = 200;
  Variable w = random_input({5}, 1, 0.5, 1);
  std::mutex mutex;
  std::queue<Variable> losses;  // built in one thread, run or dropped in another
  auto work = [&] {
    for (int step = 0; step < steps; ++step) {
      Variable h = w;
      for (int layer = 0; layer < 3; ++layer) h = h * 1.0 + w;
      Variable loss = sum(h);
      {
        std::lock_guard lock(mutex);
        losses.push(loss);
        loss = losses.front();
        losses.pop();
      }
      if (step % 2 == 0)
        backward(loss);
      else
        grad(loss, {w});
    }
  };
  std::vector<std::thread> running;
  for (int k = 0; k < threads; ++k) running.emplace_back(work);
  for (std::thread& thread : running) thread.join();
  BOOST_TEST(values(w.grad()) == std::vector<double>(5, 4 * threads * steps / 2), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(two_passes_over_one_graph_at_a_time_are_refused_and_do_no_harm) {
  Variable x = random_input({3}, 1), y = exp(x), z = sum(y), w = sum(y * 2.0);
  std::string message, elsewhere;
  BackwardOptions options;
  options.observer = [&](const Node& node, const Gradients&) {
    if (node.name() != "exp") return;
    message = message_of([&] { grad(w, {x}, {}, {.retain_graph = true}); });
    in_another_thread([&] { elsewhere = message_of([&] { backward(w, {}, {.retain_graph = true}); }); });
  };
  options.retain_graph = true;
  backward(z, {}, options);
  const std::string expected =
      "backward: another pass over the graph of 'exp' has not ended; let passes over one graph follow each other";
  BOOST_TEST(message == expected);
  BOOST_TEST(elsewhere == expected);
  BOOST_TEST(values(x.grad()) == values(y), boost::test_tools::per_element());
  BOOST_TEST(values(grad(w, {x})[0]) == values(y * 2.0), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(processor_time_is_added_up_by_scope) {
  auto work = [](const char* name, int times) {
    const Scope scope(name);
    Variable x = random_input({64, 64}, 1);
    for (int k = 0; k < times; ++k) x = tanh(matmul(x, x));
  };
  const Scope older("older");  // open before the times begin: it is not counted
  work("short", 1);            // the first products take time to prepare kernels and threads
  ScopeTimes times;
  {
    const Scope outer("outer");
    work("short", 1), work("long", 200), work("short", 1);
  }
  const auto& sums = times.sums();
  BOOST_TEST(sums.size() == 3u);
  BOOST_TEST(sums.at("older.outer.short").calls == 2);
  BOOST_TEST(sums.at("older.outer.long").seconds > sums.at("older.outer.short").seconds);
  BOOST_TEST(sums.at("older.outer").seconds >= sums.at("older.outer.long").seconds);
  BOOST_TEST(message_of([] { ScopeTimes second; }) == "ScopeTimes: another one measures on this thread");
}

BOOST_AUTO_TEST_CASE(threads_that_run_one_graph_run_it_once) {
  for (int round = 0; round < 100; ++round) {
    Variable x = random_input({3}, 1), y = x;
    for (int step = 0; step < 50; ++step) y = y * 1.0;
    y = sum(y);
    std::atomic<int> passes = 0;
    auto run = [&] { passes += message_of([&] { backward(y); }) == "no error"; };
    std::thread one(run), two(run);
    one.join();
    two.join();
    BOOST_TEST(passes == 1);
    BOOST_TEST(values(x.grad()) == std::vector<double>(3, 1), boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(a_leaf_is_finished_as_soon_as_no_node_can_add_to_its_gradient) {
  auto leaf = [](std::initializer_list<double> values, const Shape& shape, const char* name) {
    return Variable(Tensor::of(values, shape), true).named(name);
  };
  Variable first = leaf({0.3, -0.2, 0.5, 0.7}, {2, 2}, "first"), twice = leaf({0.4, 0.9}, {2}, "twice"),
           last = leaf({1.1, -0.6}, {2, 1}, "last"), unused = leaf({2}, {1}, "unused");
  auto result = [&] {
    const Variable x(Tensor::of({1, 2, -1, 3}, {2, 2}));
    return sum(matmul(tanh(matmul(x * twice, first)) * twice, last));
  };
  const Gradients expected = grad(result(), {first, twice, last});

  std::vector<std::string> events;  // the nodes that run, and the leaves that are finished
  std::vector<Tensor> found;
  BackwardOptions options;
  options.observer = [&](const Node& node, const Gradients&) { events.emplace_back(node.name()); };
  options.leaf_finished = [&](const Variable& which, const Variable& gradient) {
    events.push_back(which.name());
    found.push_back(gradient.value().clone());
  };
  backward(result(), {}, options);
  // `twice` is used by two products, and finished by the one that runs last.
  const std::vector<std::string> order{"sum",    "matmul", "last",     "multiply", "tanh",
                                       "matmul", "first",  "multiply", "twice"};
  BOOST_TEST(events == order, boost::test_tools::per_element());
  BOOST_REQUIRE(found.size() == 3);
  const std::vector<std::size_t> places{2, 0, 1};
  for (std::size_t k = 0; k < found.size(); ++k)
    BOOST_TEST(found[k].to_vector<double>() == expected[places[k]].value().to_vector<double>(),
               boost::test_tools::per_element());
  for (const Variable& each : {first, twice, last, unused}) BOOST_TEST(!each.grad().defined());
}

/// A rule that adds its gradient to what has arrived, that of layer norm, gives the gradients that the engine's
/// additions give, which a recorded pass makes.
BOOST_AUTO_TEST_CASE(what_has_arrived_is_added_once_in_every_kind_of_pass) {
  const Variable gain = random_input({5}, 1, 0.5, 1.5), bias = random_input({5}, 2, -1, 1),
                 leaf = random_input({3, 5}, 3, -2, 2), direction = random_input({3, 5}, 4, -1, 1).detach();
  auto output = [&](const Variable& x) {
    const Variable first = x + layer_norm(x, gain, bias), second = first * direction + layer_norm(first, gain, bias);
    return sum(second * second * direction);
  };
  const std::vector<Variable> inputs{leaf, gain, bias, leaf};
  auto check_alike = [](const Variable& got, const Variable& expected) {
    const std::vector<double> one = values(got), other = values(expected);
    for (std::size_t k = 0; k < one.size(); ++k) BOOST_TEST(std::abs(one[k] - other[k]) < 1e-11);
  };
  for (bool is_leaf : {true, false}) {
    const Variable x = is_leaf ? leaf : leaf * direction;
    const Variable y = output(x);
    const Gradients recorded = grad(y, inputs, {}, {.create_graph = true});
    const Gradients plain = grad(y, inputs, {}, {.retain_graph = true});
    for (std::size_t k = 0; k < inputs.size(); ++k) check_alike(plain[k], recorded[k]);
    for (Variable input : inputs) input.clear_grad();
    backward(y, {}, {.retain_graph = true});
    backward(y);
    for (std::size_t k = 0; k < inputs.size(); ++k) check_alike(inputs[k].grad(), recorded[k] * 2.0);
  }
}

BOOST_AUTO_TEST_CASE(gradients_of_bf16_leaves_are_added) {
  Variable x(Tensor::of({1, 2, -3}, {3}, DType::f32).to(DType::bf16).to(test_device()), true);
  const Variable direction(Tensor::of({4, 5, 6}, {3}, DType::f32).to(test_device()));
  for (int pass = 0; pass < 2; ++pass) backward(sum(cast(x, DType::f32) * cast(x, DType::f32) * direction));
  BOOST_TEST((x.grad().value().dtype() == DType::bf16));
  BOOST_TEST(values(x.grad()) == (std::vector<double>{16, 40, -72}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
