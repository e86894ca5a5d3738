// Training, on a model of two numbers whose updates can be followed by hand.
#include "experiments/support/training/training.h"

#include <cmath>
#include <fstream>
#include <limits>
#include <tuple>

#include <boost/test/unit_test.hpp>

#include "autograd/operations.h"
#include "experiments/support/program/run_log.h"
#include "tensor/format/safetensors.h"
#include "tests/files.h"

using namespace fovea;

namespace {

struct Point : Module {
  Point() : place(parameter("place", {2}, Initializer::constant(0.5))) {}
  Variable place;
};

/// Batches 0, 1, ... of epochs of five batches.
class Batches : public BatchPlace {
 public:
  std::int64_t next() { return next_++; }
  std::int64_t accumulate() const override { return 1; }
  std::int64_t epoch() const override { return next_ / per_epoch; }
  std::int64_t position() const override { return next_ % per_epoch; }
  void seek(std::int64_t epoch, std::int64_t position) override { next_ = epoch * per_epoch + position; }

 private:
  static constexpr std::int64_t per_epoch = 5;
  std::int64_t next_ = 0;
};

/// Moves a point towards 1 and 2 and away from 0: the loss of batch b is (x − 1 − b mod 2)², the development score
/// minus the distance from 0.
struct Task {
  TrainingOptions options;
  std::int64_t accumulate = 2;
  bool adds_once = false;  ///< the batches of an update as one sum
  double dropout = 0;
  bool configures = false;  ///< the configuration has the options of extension
  std::function<double(std::int64_t update)> factor = [](auto) { return 1; };  ///< of the loss
  std::function<double(double)> score = [](double place) { return -std::abs(place); };
  bool higher_is_better = true;
  std::int64_t killed_before = -1;      ///< the update
  std::int64_t killed_in_dev_set = -1;  ///< the evaluation, counted from 0

  Task() {
    options.updates = 6;
    options.evaluate_every = 1;
    options.checkpoint_every = 2;
    options.schedule = "constant(rate=0.01)";
  }
};

struct Killed {};

struct Trained {
  std::vector<double> place;              ///< at the end
  std::vector<std::vector<double>> seen;  ///< at each evaluation
  TrainingResult result;
};

std::vector<double> numbers(const Point& point) { return point.place.value().to_vector<double>(); }

/// Trains in a new directory, or continues the training there. `point` shows what became of the model.
Trained trained(const std::filesystem::path& out, const Task& task, Point& point) {
  point.initialise(1);
  Trained trained;
  const bool is_there = std::filesystem::exists(out);
  Run run{.row = "point", .seed = 3, .configuration = {{"average", task.options.average}}, .resume = out};
  if (task.configures)
    run.configuration.update({{"updates", task.options.updates}, {"evaluate-every", task.options.evaluate_every}});
  run.directory =
      std::make_shared<RunDirectory>(is_there ? RunDirectory::resume(out) : RunDirectory::create("test", out));
  Batches batches;
  const auto optimizer = make_optimizer(point.parameters(), task.options.optimizer);
  const Schedule schedule = task.options.learning_rate();
  Training training(run, point, *optimizer, batches, task.options);
  auto dev_scores = [&] {
    if (std::ssize(trained.seen) == task.killed_in_dev_set) throw Killed{};
    trained.seen.push_back(numbers(point));
    return std::vector{DevScore{"nearness", task.score(trained.seen.back()[0]), task.higher_is_better}};
  };
  while (training.has_next_update()) {
    optimizer->zero_grad();
    const std::int64_t update = batches.epoch() * 5 + batches.position();
    if (update == task.killed_before * task.accumulate) throw Killed{};
    Variable all;
    for (std::int64_t k = 0; k < task.accumulate; ++k) {
      RandomScope random = training.random(k);
      const Variable kept = task.dropout > 0 ? dropout(point.place, task.dropout) : point.place;
      const Variable distance = kept - double(1 + batches.next() % 2);
      const Variable loss = sum(distance * distance) * task.factor(update / task.accumulate);
      if (!task.adds_once) training.backward(loss, 1);
      all = all.defined() ? all + loss : loss;
    }
    if (task.adds_once) training.backward(all, double(task.accumulate));
    const auto [norm, count] = training.gradient();
    const double rate = schedule.rate(training.updates(), training.epoch());
    optimizer->step(rate, clip_scale(norm, task.options.clip, count));
    training.end_update(rate, dev_scores);
  }
  trained.result = training.finish(dev_scores);
  trained.place = numbers(point);
  return trained;
}

Trained trained(const std::filesystem::path& out, const Task& task) {
  Point point;
  return trained(out, task, point);
}

void kill(const std::filesystem::path& out, Task task, std::int64_t update, std::int64_t evaluation = -1) {
  task.killed_before = update, task.killed_in_dev_set = evaluation;
  BOOST_CHECK_THROW(trained(out, task), Killed);
}

/// The tensors of a checkpoint, and what it says of the run without its times and files.
std::string checkpoint_of(const std::filesystem::path& run) {
  const Safetensors file = read_safetensors((run / "checkpoint.safetensors").string());
  std::string text;
  for (const auto& [name, tensor] : file.tensors)
    for (double value : tensor.to_vector<double>()) text += fmt::format("{} {}\n", name, value);
  Json where = Json::parse(file.metadata.at("run"));
  for (const char* other : {"seconds", "update_cpu_seconds", "wall_seconds", "cpu_seconds", "kept"}) where.erase(other);
  return text + where.dump();
}

void check_same_runs(const std::filesystem::path& whole, const std::filesystem::path& other) {
  BOOST_TEST(contents(whole / "log.jsonl") == contents(other / "log.jsonl"));
  BOOST_TEST(contents(whole / "best.safetensors") == contents(other / "best.safetensors"));
  BOOST_TEST(checkpoint_of(whole) == checkpoint_of(other));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(training)

BOOST_AUTO_TEST_CASE(micro_batches_add_up_to_one_batch) {
  Folder folder;
  for (double clip : {0.0, 0.5}) {
    Task task;
    task.options.clip = clip;
    const std::string name = fmt::format("{}", clip);
    Trained apart = trained(folder / (name + "a"), task);
    task.adds_once = true;
    Trained together = trained(folder / (name + "b"), task);
    for (std::size_t k = 0; k < apart.seen.size(); ++k)
      BOOST_TEST(apart.seen[k] == together.seen[k], boost::test_tools::per_element());
    BOOST_TEST(apart.seen.back()[0] > 0.52);  // it moved
  }
}

BOOST_AUTO_TEST_CASE(the_best_model_is_kept_unless_the_last_are_averaged) {
  Folder folder;
  Task task;
  Trained best = trained(folder / "best", task);
  task.options.average = 4;
  Trained mean = trained(folder / "mean", task);
  BOOST_TEST(best.place == best.seen.front(), boost::test_tools::per_element());  // nearest to 0: it runs away from it
  BOOST_TEST(best.result.best_update == 1);
  std::vector<double> expected(2);
  for (std::size_t k = 2; k < 6; ++k)
    for (std::size_t i = 0; i < 2; ++i) expected[i] += mean.seen[k][i] / 4;
  for (std::size_t i = 0; i < 2; ++i) BOOST_TEST(mean.place[i] == expected[i], boost::test_tools::tolerance(1e-6));
  BOOST_TEST(mean.seen.size() == 7u);  // the mean is scored too
  BOOST_TEST(mean.result.best_score == -std::abs(mean.place[0]));
  BOOST_TEST(
      read_safetensors((folder / "mean" / "best.safetensors").string()).at("place").to_vector<double>() == mean.place,
      boost::test_tools::per_element());
  for (int update = 1; update <= 6; ++update)  // models that no average needs are gone
    BOOST_TEST(std::filesystem::exists(folder / "mean" / fmt::format("model-{}.safetensors", update)) == (update > 2));
}

BOOST_AUTO_TEST_CASE(a_lower_score_is_better_where_the_score_says_so) {
  Folder folder;
  Task task;
  task.score = [](double place) { return std::abs(place); };  // it runs away from 0
  for (const auto& [higher_is_better, best] : {std::pair(true, 6), std::pair(false, 1)}) {
    task.higher_is_better = higher_is_better;
    BOOST_TEST(trained(folder / std::to_string(best), task).result.best_update == best);
  }
}

BOOST_AUTO_TEST_CASE(a_training_does_not_end_before_its_updates) {
  Folder folder;
  Task task;
  trained(folder / "run", task);
  task.options.updates = 4;
  BOOST_TEST(message_of([&] { trained(folder / "run", task); }) == "--updates 4: the run has made 6 updates already");
}

BOOST_AUTO_TEST_CASE(models_of_updates_after_the_checkpoint_are_not_kept) {
  Folder folder;
  Task task;
  task.options.keep = 5;
  kill(folder / "run", task, 3);  // model-3 was written after the checkpoint of update 2
  BOOST_TEST(std::filesystem::exists(folder / "run" / "model-3.safetensors"));
  task.options.evaluate_every = 2;
  trained(folder / "run", task);
  BOOST_TEST(!std::filesystem::exists(folder / "run" / "model-3.safetensors"));
  BOOST_TEST(std::filesystem::exists(folder / "run" / "model-2.safetensors"));
}

BOOST_AUTO_TEST_CASE(the_best_model_is_that_of_the_checkpoint_though_evaluations_have_changed) {
  Folder folder;
  Task task;
  task.score = [](double place) { return std::abs(place); };
  task.configures = true;
  kill(folder / "run", task, 3);  // best.safetensors has update 3, the checkpoint knows update 2
  task.options.evaluate_every = 100;
  const std::string message = message_of([&] { trained(folder / "run", task); });
  BOOST_TEST(contains(message, "which has the model of update 3: resume first with"), message);
  task.options.evaluate_every = 1;
  BOOST_TEST(trained(folder / "run", task).result.best_update == 6);
}

BOOST_AUTO_TEST_CASE(a_model_that_is_no_good_at_any_evaluation_is_refused) {
  Folder folder;
  Task task;
  task.score = [](double) { return std::nan(""); };
  BOOST_CHECK_THROW(trained(folder / "far", task), Diverged);
  const std::string message = message_of([&] { trained(folder / "far", task); });
  BOOST_TEST(contains(message, "the development set's nearness was not a finite number at any evaluation"), message);
}

BOOST_AUTO_TEST_CASE(the_mean_of_fewer_evaluations_than_asked_for_is_that_of_all) {
  Folder folder;
  Task task;
  task.options.average = 100;
  Trained mean = trained(folder / "mean", task);
  double expected = 0;
  for (std::size_t k = 0; k < 6; ++k) expected += mean.seen[k][1] / 6;
  BOOST_TEST(mean.place[1] == expected, boost::test_tools::tolerance(1e-6));
}

BOOST_AUTO_TEST_CASE(a_training_without_a_better_score_ends_when_its_patience_does) {
  Folder folder;
  Task task;
  task.options.updates = 100;
  task.options.patience = 3;
  Trained ended = trained(folder / "run", task);
  BOOST_TEST(ended.result.updates == 4);
  BOOST_TEST(ended.result.best_update == 1);
}

BOOST_AUTO_TEST_CASE(options_that_an_optimizer_does_not_have_are_refused) {
  using Set = void (*)(OptimizerOptions&);
  const std::tuple<std::string, OptimizerKind, OptimizerKind, Set> cases[] = {
      {"momentum 0.5: only the optimizer sgd", OptimizerKind::adamw, OptimizerKind::sgd,
       [](OptimizerOptions& options) { options.momentum = 0.5; }},
      {"beta1 0.5: only the optimizers adam, adamw and lion", OptimizerKind::adafactor, OptimizerKind::lion,
       [](OptimizerOptions& options) { options.beta1 = 0.5; }},
      {"beta2 0.5: only the optimizers adam, adamw and lion", OptimizerKind::sgd, OptimizerKind::adam,
       [](OptimizerOptions& options) { options.beta2 = 0.5; }},
      {"epsilon 0.5: only the optimizers adam and adamw", OptimizerKind::lion, OptimizerKind::adamw,
       [](OptimizerOptions& options) { options.epsilon = 0.5; }}};
  for (const auto& [message, without, with, set] : cases) {
    TrainingOptions options;
    set(options.optimizer);
    options.optimizer.kind = without;
    const std::string refusal = message_of([&] { options.check(); });
    BOOST_TEST(refusal.starts_with("--optimizer: " + message), refusal);
    options.optimizer.kind = with;
    options.check();
  }
}

BOOST_AUTO_TEST_CASE(a_killed_training_resumes_bit_for_bit) {
  const std::pair<std::int64_t, OptimizerKind> cases[] = {
      {0, OptimizerKind::adamw}, {2, OptimizerKind::adamw}, {0, OptimizerKind::lion}, {0, OptimizerKind::adafactor}};
  for (const auto& [average, kind] : cases) {
    Folder folder;
    Task task;
    task.options.optimizer.kind = kind;
    task.dropout = 0.3;  // its random numbers depend on the update, not on those before it
    task.options.updates = 23;
    task.options.checkpoint_every = 4;
    task.options.average = average;
    task.score = [](double place) { return std::sin(1000 * place); };  // the best may be anywhere
    const Trained whole = trained(folder / "whole", task);
    for (std::int64_t evaluation : {1, 6}) kill(folder / "killed", task, -1, evaluation);
    for (std::int64_t update : {6, 7, 15, 22})  // the last evaluations came after the last checkpoint
      kill(folder / "killed", task, update);
    const Trained resumed = trained(folder / "killed", task);
    check_same_runs(folder / "whole", folder / "killed");
    BOOST_TEST(resumed.place == whole.place, boost::test_tools::per_element());
    BOOST_TEST(resumed.result.best_update == whole.result.best_update);
    BOOST_TEST(resumed.result.best_score == whole.result.best_score);
    const Trained again = trained(folder / "killed", task);  // there is nothing left to do
    BOOST_TEST(again.place == whole.place, boost::test_tools::per_element());
    BOOST_TEST(again.result.best_score == whole.result.best_score);
    check_same_runs(folder / "whole", folder / "killed");
  }
}

BOOST_AUTO_TEST_CASE(a_finished_training_that_is_extended_equals_a_longer_one) {
  for (std::int64_t average : {0, 3}) {
    Folder folder;
    Task task;
    task.options.evaluate_every = 2;
    task.options.average = average;
    task.score = [](double place) { return std::sin(1000 * place); };
    trained(folder / "extended", task);
    task.options.updates = 13;
    const Trained whole = trained(folder / "whole", task), extended = trained(folder / "extended", task);
    check_same_runs(folder / "whole", folder / "extended");
    BOOST_TEST(whole.place == extended.place, boost::test_tools::per_element());
  }
  Folder folder;
  Task task;
  task.options.updates = 10;
  task.options.patience = 2;
  BOOST_TEST(trained(folder / "extended", task).result.updates == 3);
  task.options.patience = 5;
  BOOST_TEST(trained(folder / "extended", task).result.updates == 6);
  trained(folder / "whole", task);
  check_same_runs(folder / "whole", folder / "extended");
}

BOOST_AUTO_TEST_CASE(a_changed_log_is_noticed_when_a_run_continues) {
  Folder folder;
  Task task;
  task.options.evaluate_every = 1;
  kill(folder / "run", task, 4);
  const std::filesystem::path log = folder / "run" / "log.jsonl";
  std::string text = contents(log);
  const std::size_t digit = text.find_first_of("123456789", text.find("\"loss\":") + 7);
  text[digit] = text[digit] == '9' ? '8' : char(text[digit] + 1);
  std::ofstream(log) << text;
  const std::string message = message_of([&] { trained(folder / "run", task); });
  BOOST_TEST(contains(message, "log.jsonl: damaged: up to update "), message);
}

BOOST_AUTO_TEST_CASE(a_model_that_the_end_needs_is_missed_before_a_run_continues) {
  for (const auto& [average, model] : {std::pair(0, "best.safetensors"), std::pair(2, "model-4.safetensors")}) {
    Folder folder;
    Task task;
    task.options.average = average;
    kill(folder / "run", task, 5);
    const std::filesystem::path file = folder / "run" / model, elsewhere = folder / "elsewhere";
    const std::string before = contents(folder / "run" / "log.jsonl");
    std::filesystem::rename(file, elsewhere);
    const std::string message = message_of([&] { trained(folder / "run", task); });
    BOOST_TEST(message.starts_with(file.string() + ": is missing, and the run cannot end without it"), message);
    BOOST_TEST(contents(folder / "run" / "log.jsonl") == before);
    std::filesystem::rename(elsewhere, file);
    trained(folder / "run", task);
    trained(folder / "whole", task);
    check_same_runs(folder / "whole", folder / "run");
  }
}

BOOST_AUTO_TEST_CASE(a_training_may_end_before_its_first_evaluation) {
  Folder folder;
  Task task;
  task.options.evaluate_every = 100;
  kill(folder / "run", task, 4);
  task.options.updates = 4;  // those of the checkpoint
  const Trained ended = trained(folder / "run", task);
  BOOST_TEST(ended.result.updates == 4);
  BOOST_TEST(ended.result.best_update == 4);
  BOOST_TEST(ended.place == ended.seen.at(0), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_training_that_diverges_stops_before_its_parameters_change) {
  for (double factor : {std::nan(""), std::numeric_limits<double>::infinity(), 1e3}) {
    Folder folder;
    Task task;
    const Trained whole = trained(folder / "whole", task);
    Task broken = task;
    broken.factor = [&](std::int64_t update) { return update == 4 ? factor : 1; };
    Point point;
    std::string message;
    try {
      trained(folder / "run", broken, point);
    } catch (const Diverged& diverged) {
      message = diverged.what();
    }
    BOOST_TEST(message.starts_with("training diverged at update 5: the loss is "), message);
    BOOST_TEST(contains(message, "the checkpoint of update 4 is kept"), message);
    for (const char* remedy : {"--schedule", "a smaller --clip (here 1)"})
      BOOST_TEST(contains(message, remedy), message);
    BOOST_TEST(numbers(point) == whole.seen[3], boost::test_tools::per_element());
    trained(folder / "run", task);  // the checkpoint is of a good model
    check_same_runs(folder / "whole", folder / "run");
  }
}

BOOST_AUTO_TEST_CASE(a_checkpoint_whose_optimizer_has_numbers_that_are_not_finite_is_refused) {
  Folder folder;
  Task task;
  trained(folder / "run", task);
  const std::string path = (folder / "run" / "checkpoint.safetensors").string();
  Safetensors file = read_safetensors(path);
  std::string changed;
  for (auto& [name, tensor] : file.tensors)
    if (name.starts_with("optimizer.") && is_float(tensor.dtype()) && tensor.elements() > 1) {
      tensor.reshape({tensor.elements()}).slice(0, 1, 2).fill(std::numeric_limits<double>::infinity());
      changed = name.substr(std::string("optimizer.").size());
      break;
    }
  BOOST_TEST_REQUIRE(changed != "");
  write_safetensors(path, file.tensors, file.metadata);
  task.options.updates += 2;
  BOOST_CHECK_EXCEPTION(trained(folder / "run", task), Error, [&](const Error& error) {
    return contains(error.what(), "checkpoint.safetensors: the optimizer's '" + changed + "' [") &&
           contains(error.what(), "] has inf at place 1 (from 0)");
  });
}

BOOST_AUTO_TEST_CASE(a_loss_may_grow_a_hundredfold) {
  Folder folder;
  Task task;
  task.factor = [](std::int64_t update) { return update == 4 ? 50 : 1; };
  BOOST_TEST(trained(folder / "run", task).result.updates == 6);
}

BOOST_AUTO_TEST_CASE(parameters_that_are_lost_never_reach_a_checkpoint) {
  Folder folder;
  Task task;
  task.options.updates = 2;
  trained(folder / "run", task);
  const std::string checkpoint = contents(folder / "run" / "checkpoint.safetensors");
  task.options.updates = 6;
  task.options.checkpoint_every = 1;
  task.options.evaluate_every = 100;
  for (const char* rate : {"1e20", "1e39"}) {
    task.options.schedule = fmt::format("constant(rate={})", rate);
    const std::string message = message_of([&] { trained(folder / "run", task); });
    BOOST_TEST(message.starts_with("training diverged at update 3: a parameter is not finite, or the norm of all "
                                   "parameters is above 1e8; the checkpoint of update 2"),
               message);
    BOOST_TEST(contents(folder / "run" / "checkpoint.safetensors") == checkpoint);
    BOOST_CHECK_THROW(trained(folder / (std::string("new") + rate), task), Diverged);
    BOOST_TEST(!std::filesystem::exists(folder / (std::string("new") + rate) / "checkpoint.safetensors"));
  }
}

BOOST_AUTO_TEST_CASE(a_log_has_a_line_every_ten_updates_and_at_evaluations) {
  Folder folder;
  Task task;
  task.options.updates = 25;
  task.options.evaluate_every = 4;
  Point point;
  trained(folder / "run", task, point);
  std::vector<std::int64_t> updates, evaluations;
  for (const Json& line : read_log(folder / "run" / "log.jsonl")) {
    updates.push_back(line.at("update"));
    if (line.contains("dev")) evaluations.push_back(line.at("update"));
    for (const char* key : {"epoch", "loss", "unsmoothed_loss", "learning_rate", "gradient_norm"})
      BOOST_TEST(line.at(key).is_number(), line.dump());
    BOOST_TEST(line.at("epoch").get<std::int64_t>() == (line.at("update").get<std::int64_t>() - 1) * 2 / 5);
  }
  BOOST_TEST((updates == std::vector<std::int64_t>{4, 8, 10, 12, 16, 20, 24, 25}));
  BOOST_TEST((evaluations == std::vector<std::int64_t>{4, 8, 12, 16, 20, 24, 25}));
}

BOOST_AUTO_TEST_CASE(a_checkpoint_that_is_no_checkpoint_is_named) {
  Folder folder;
  Task task;
  trained(folder / "run", task);
  const std::filesystem::path path = folder / "run" / "checkpoint.safetensors";
  std::filesystem::copy_file(folder / "run" / "best.safetensors", path,
                             std::filesystem::copy_options::overwrite_existing);
  BOOST_TEST(contains(message_of([&] { trained(folder / "run", task); }), path.string() + ": no 'configuration'"));
  std::ofstream(path) << "broken";
  const std::string message = message_of([&] { trained(folder / "run", task); });
  BOOST_TEST(message.starts_with(path.string() + ": "), message);
  BOOST_TEST(message.ends_with("if you delete this file, the run begins anew"), message);
}

BOOST_AUTO_TEST_SUITE_END()
