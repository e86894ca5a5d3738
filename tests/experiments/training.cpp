// The training loop, on a model of one parameter whose updates can be computed by hand.
#include "experiments/support/training/training.h"

#include <boost/test/unit_test.hpp>

#include "autograd/operations.h"
#include "nn/checkpoint.h"
#include "tensor/format/safetensors.h"
#include "tests/files.h"

using namespace fovea;

namespace {

struct Point : Module {
  Point() : place(parameter("place", {2}, Initializer::constant(0.5))) {}
  Variable place;
};

/// Minimises Σ (x − t)² of `parts` micro-batches, whose targets are 1, 2, ...; the score is minus the distance from 0.
class Pulling : public TrainingTask {
 public:
  Pulling(Point& point, int parts, bool together) : point_(point), parts_(parts), together_(together) {}

  double next_update(std::int64_t update, const std::function<void(const Variable&)>& add) override {
    updates_ = update + 1;
    Variable all;
    for (int k = 0; k < parts_; ++k) {
      Variable distance = point_.place - static_cast<double>(k + 1);
      Variable loss = sum(distance * distance);
      if (!together_) add(loss);
      all = all.defined() ? all + loss : loss;
    }
    if (together_) add(all);
    return parts_;
  }
  Json place() const override { return updates_; }
  void seek(const Json& place) override { updates_ = place; }
  std::int64_t epoch() const override { return 0; }
  double score() override {
    seen.push_back(point_.place.value().to_vector<double>());
    return -std::abs(seen.back()[0]);
  }
  std::string score_name() const override { return "nearness"; }

  std::vector<std::vector<double>> seen;

 private:
  Point& point_;
  int parts_;
  bool together_;
  std::int64_t updates_ = 0;
};

struct Trained {
  std::vector<double> place;
  std::vector<std::vector<double>> seen;
  TrainingResult result;
};

Trained trained(const std::filesystem::path& out, TrainingOptions options, int parts = 2, bool together = false) {
  Point point;
  point.initialise(1);
  Pulling task(point, parts, together);
  Json configuration = {{"average", options.average}};
  RunDirectory directory = RunDirectory::create("test", out);
  TrainingResult result = train(point, task, options, {directory, configuration, "point", out});
  return {point.place.value().to_vector<double>(), task.seen, result};
}

TrainingOptions options() {
  TrainingOptions options;
  options.updates = 6;
  options.evaluate_every = 1;
  options.checkpoint_every = 2;
  options.schedule = "constant(rate=0.01)";
  return options;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(training)

BOOST_AUTO_TEST_CASE(micro_batches_add_up_to_one_batch) {
  Folder folder;
  for (double clip : {0.0, 0.5}) {
    TrainingOptions clipped = options();
    clipped.clip = clip;
    std::string name = fmt::format("{}", clip);
    Trained apart = trained(folder / (name + "a"), clipped),
            together = trained(folder / (name + "b"), clipped, 2, true);
    for (std::size_t k = 0; k < apart.seen.size(); ++k)
      BOOST_TEST(apart.seen[k] == together.seen[k], boost::test_tools::per_element());
    BOOST_TEST(apart.seen.back()[0] > 0.52);  // it moved
  }
}

BOOST_AUTO_TEST_CASE(the_best_model_is_kept_unless_the_last_are_averaged) {
  Folder folder;
  TrainingOptions averaged = options();
  averaged.average = 4;
  Trained best = trained(folder / "best", options()), mean = trained(folder / "mean", averaged);
  BOOST_TEST(best.place == best.seen.front(), boost::test_tools::per_element());  // nearest to 0: it runs away from it
  BOOST_TEST(best.result.best_update == 1);
  std::vector<double> expected(2);
  for (std::size_t k = 2; k < 6; ++k)
    for (std::size_t i = 0; i < 2; ++i) expected[i] += mean.seen[k][i] / 4;
  for (std::size_t i = 0; i < 2; ++i) BOOST_TEST(mean.place[i] == expected[i], boost::test_tools::tolerance(1e-6));
  BOOST_TEST(mean.seen.size() == 7u);  // the mean is scored too
  BOOST_TEST(mean.result.best_score == -std::abs(mean.place[0]));
  BOOST_TEST(read_safetensors(folder / "mean" / "best.safetensors").at("place").to_vector<double>() == mean.place,
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_model_that_is_no_good_at_any_evaluation_is_refused) {
  Folder folder;
  TrainingOptions far = options();
  far.updates = 1;
  far.schedule = "constant(rate=1e39)";
  const std::string message = message_of([&] { trained(folder / "far", far); });
  BOOST_TEST(contains(message, "at no evaluation was the development set's nearness a finite number"), message);
}

BOOST_AUTO_TEST_CASE(the_mean_of_fewer_evaluations_than_asked_for_is_that_of_all) {
  Folder folder;
  TrainingOptions averaged = options();
  averaged.average = 100;
  Trained mean = trained(folder / "mean", averaged);
  double expected = 0;
  for (std::size_t k = 0; k < 6; ++k) expected += mean.seen[k][1] / 6;
  BOOST_TEST(mean.place[1] == expected, boost::test_tools::tolerance(1e-6));
}

BOOST_AUTO_TEST_SUITE_END()
