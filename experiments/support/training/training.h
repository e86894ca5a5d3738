/// The training that all programs share: updates, evaluation, model selection, checkpoints, exact resuming.
///
///   const auto optimizer = make_optimizer(model.parameters(), options.optimizer);
///   Training training(run, model, *optimizer, batches, options);  // continues from the run's checkpoint
///   while (training.has_next_update()) {
///     optimizer->zero_grad();
///     for (const std::int64_t k : training.micro_batches()) {
///       RandomScope random = training.random(k);
///       Batch batch = batches.next();
///       training.backward(loss of the batch, number of its tokens);
///     }
///     const auto [norm, count] = training.gradient();
///     const double rate = schedule.rate(training.updates(), training.epoch());
///     optimizer->step(rate, clip_scale(norm, options.clip, count));
///     training.end_update(rate, [&] { return scores of the development set; });
///   }
///   training.finish(...);  // now the model is the best one, or the mean of the last ones
///
/// Several processes (nn/parallel/process_group.h) run this program alike. Each computes its share of an update's
/// micro-batches and of the evaluations; all of them then have the same gradients, parameters and scores, on the CPU
/// bit for bit those of one process. The first one writes the files.
#pragma once
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "experiments/support/data/batches.h"
#include "experiments/support/program/interrupt.h"
#include "experiments/support/program/progress.h"
#include "experiments/support/program/run_directory.h"
#include "experiments/support/program/run_log.h"
#include "experiments/support/record/record.h"
#include "experiments/support/training/shared_work.h"
#include "nn/module.h"
#include "nn/optimizer.h"
#include "nn/schedule.h"
#include "tensor/error.h"
#include "tensor/random.h"

namespace fovea {

class Cli;

/// One training of an experiment: a row of the comparison with one seed.
struct Run {
  std::string row = {};    ///< title of the row: "gaussian"
  std::string trial = {};  ///< values of a --search: "rate=0.001"; empty without one
  std::uint64_t seed = 1;
  std::vector<std::string> arguments = {};  ///< those of row, trial and seed, after those of the command line
  Json configuration = {};                  ///< every option of this run; a checkpoint with another one is refused
  /// The words after --resume in the command that continues the run: a directory, and --only if it was given.
  std::filesystem::path resume = {};
  std::int64_t number = 1, runs = 1;                   ///< run `number` of the `runs` that this process makes
  double seconds_of_others = 0;                        ///< estimated duration of the runs after this one; 0: unknown
  std::shared_ptr<const RunDirectory> directory = {};  ///< null: a trained model is tested, and nothing is kept
  /// Called once, when nothing can be wrong with the flags any more: a checkpoint was restored or is written, or an
  /// update was made.
  std::function<void()> begun = {};

  /// "gaussian rate=0.001 seed 1"
  std::string title() const { return row + (trial.empty() ? "" : " " + trial) + " seed " + std::to_string(seed); }
};

struct TrainingOptions {
  std::int64_t updates = 3000;
  std::string schedule = "inverse_sqrt(peak=1e-3, warmup=400)";
  std::optional<double> rate;  ///< the peak of the learning rate; empty: the schedule's own
  double clip = 1;             ///< largest global norm of the gradient; 0: no limit
  OptimizerOptions optimizer;
  std::int64_t evaluate_every = 250;  ///< updates between evaluations on the development set
  std::int64_t patience = 0;          ///< training ends after this many evaluations without a better one; 0: never
  std::int64_t checkpoint_every = 250;
  std::int64_t average = 0;  ///< the final model is the mean of this many last evaluations' models; 0: the best one
  std::int64_t keep = 0;     ///< the models of this many last evaluations stay in the run's directory
  std::uint64_t seed = 1;
  std::string precision = "f32";  ///< of matrix products: f32 or bf16
  std::string device = "cpu";     ///< cpu, cuda or cuda:N
  int threads = 0;                ///< of each process; 0: the cores, shared by the processes on this machine
  int processes = 1;              ///< that train together on this machine

  void add_to(Cli& cli);
  /// Throws Error, with the flag, for an unknown schedule or a missing device.
  void check() const;
  /// The schedule of the learning rate, with the peak of --rate.
  Schedule learning_rate() const;
  /// A warning if the warm-up is longer than the training, with a shorter one; empty otherwise.
  std::string warmup_warning() const;
  /// Checks, and sets threads, precision and the handling of denormals for this process.
  void apply() const;
};

/// Loads the parameters of a trained run into the model: the best ones, or with average > 0 the mean of the last
/// `average` models that the run kept (--keep). `from` may also be a .safetensors file, or a model of Hugging Face's,
/// which load_hugging_face() reads. Throws Error if there are fewer models.
void load_parameters(Module& model, const std::filesystem::path& from, std::int64_t average = 0);

/// A score of the development set. The first one of an evaluation selects the model.
struct DevScore {
  std::string name;
  double value = 0;
  bool higher_is_better = true;
};
using DevScores = std::function<std::vector<DevScore>()>;

/// All scores of a test on the development set, in their order.
std::vector<DevScore> dev_scores_of(const TestResult& test);

/// Thrown if the loss is NaN, infinite or far above the first one, or if no score of the development set was finite.
/// The message has the update and advice.
class Diverged : public Error {
 public:
  using Error::Error;
};

/// The state of a training between two updates: what a checkpoint has besides tensors. Its times are those until the
/// checkpoint.
struct Progression : TrainingResult {
  std::int64_t evaluations_since_best = 0;
  double first_loss = 0;
  std::vector<std::int64_t> kept = {};   ///< updates of the models that are kept, oldest first
  std::int64_t epoch = 0, position = 0;  ///< of the next batch
  std::string log_checksum = {};         ///< of the log when the checkpoint was written; empty: there was none
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Progression, updates, best_update, best_score, score_name, higher_is_better,
                                   evaluations_since_best, first_loss, kept, seconds, update_cpu_seconds, wall_seconds,
                                   cpu_seconds, epoch, position, log_checksum)

class Training {
 public:
  /// `model` has its initial values. If the run has a checkpoint, the training continues from it, bit for bit as if it
  /// had never stopped. All arguments must outlive this object. Throws Error for a checkpoint of another configuration.
  Training(const Run& run, Module& model, Optimizer& optimizer, BatchPlace& place, const TrainingOptions& options);

  /// Begins the next update, if there is one: false after options.updates, or if patience ran out. After Ctrl-C, writes
  /// a checkpoint and throws Interrupted with the command that continues.
  bool has_next_update();
  std::int64_t updates() const { return now_.updates; }  ///< updates before this one
  std::int64_t epoch() const { return epoch_ + 1; }      ///< of the update's first batch, from 1
  /// The numbers of this process's micro-batches in an update: with one process, all of them.
  const std::vector<std::int64_t>& micro_batches() const { return micro_batches_; }
  /// Dropout draws from this scope in one micro-batch of the update. The numbers are a function of seed, update and
  /// micro-batch.
  RandomScope random(std::int64_t micro_batch) const {
    return RandomScope({.seed = run_.seed, .update = now_.updates, .micro_batch = micro_batch});
  }
  /// Runs the backward pass of `loss`, the sum of the losses of `count` tokens or examples. `unsmoothed` is the same
  /// sum without label smoothing and without auxiliary losses, of one element; the log has both.
  void backward(const Variable& loss, double count, const Tensor& unsmoothed);
  void backward(const Variable& loss, double count) { backward(loss, count, loss.value()); }

  /// The gradient of the sum of all micro-batches' losses, of all processes, which the parameters now have.
  struct Gradient {
    Tensor norm;       ///< f64 [], on the model's device
    double count = 0;  ///< tokens or examples: the gradient of their mean loss is that of the sum divided by this
  };
  /// Throws Diverged if the loss is not finite or has grown without bound: on the CPU at once. With a GPU the host
  /// reads losses only for the log and before checkpoints, so that it does not wait in every update.
  Gradient gradient();
  /// The optimizer has made its step with the learning rate `rate`. Every options.evaluate_every updates calls
  /// dev_scores(), with the model in evaluation mode; every options.checkpoint_every updates writes a checkpoint, never
  /// of a diverged model: throws Diverged before.
  void end_update(double rate, const DevScores& dev_scores);
  /// Loads the best parameters, or the mean of the last ones, into the model and puts it into evaluation mode. Throws
  /// Diverged if no evaluation had a finite score.
  TrainingResult finish(const DevScores& dev_scores);

 private:
  /// The mean losses of an update with and without label smoothing and auxiliary losses, and the norm of its gradient.
  struct Reading {
    double loss = 0, unsmoothed = 0, norm = 0;
  };
  void add_losses(const Tensor& loss, double count, const Tensor& unsmoothed);
  void read();
  void require_convergence(std::int64_t update, const Reading& reading);
  [[noreturn]] void fail_as_diverged(std::int64_t update, const std::string& what) const;
  void begin();

  std::vector<DevScore> scores(const DevScores& dev_scores);
  std::vector<DevScore> evaluate(const DevScores& dev_scores);
  void save_model(const std::filesystem::path& file, bool with_update = false) const;
  std::filesystem::path kept_model(std::int64_t update) const;
  std::int64_t kept_count() const { return std::max(options_.average, options_.keep); }
  void remove_old_models();
  void average(const DevScores& dev_scores);

  Progression so_far() const;
  void save();
  void require_best() const;
  void restore();
  void share_restored();
  void continue_from(const Progression& state);
  void require_known_best(const std::string& checkpoint, const Json& before) const;
  [[noreturn]] void stop();

  bool out_of_patience() const { return options_.patience > 0 && now_.evaluations_since_best >= options_.patience; }
  bool saves(std::int64_t update) const { return update % options_.checkpoint_every == 0; }
  bool is_evaluated(std::int64_t update) const {
    return update % options_.evaluate_every == 0 || update == options_.updates;
  }
  bool logs(std::int64_t update) const { return is_evaluated(update) || update % log_interval == 0; }
  std::string progress_note() const;

  /// Every tenth update is in the log, besides those with an evaluation.
  static constexpr std::int64_t log_interval = 10;

  const Run& run_;
  const RunDirectory& directory_;
  Module& model_;
  Optimizer& optimizer_;
  BatchPlace& place_;
  const TrainingOptions& options_;
  const bool is_first_ = processes().is_first();
  std::vector<std::int64_t> micro_batches_;
  std::optional<SharedUpdate> shared_;     ///< empty: this process is alone
  Progression now_;                        ///< with the times before the last resume
  std::int64_t restored_ = 0, saved_ = 0;  ///< updates when this process began; of the last checkpoint
  std::int64_t epoch_ = 0;                 ///< of the first batch of the update
  /// Sums of the updates that the host has not read yet: losses, losses without smoothing, norms of the gradients; f64
  /// [log_interval, 3] on the model's device. With a GPU the host waits once for many updates.
  Tensor sums_;
  std::vector<double> counts_;   ///< tokens or examples of these updates
  std::int64_t read_ = 0;        ///< updates whose losses the host has read
  std::optional<Reading> last_;  ///< of the last of them
  SpentTime began_ = SpentTime::until_now(), update_began_;
  SpentTime in_updates_;  ///< of this process
  std::function<void()> begun_ = run_.begun;
  InterruptGuard guard_;
  std::optional<RunLog> log_;
  std::optional<Progress> progress_;
};

}  // namespace fovea
