/// The training loop that every experiment shares: updates, evaluation, model selection, checkpoints, exact resuming.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "experiments/support/program/json_file.h"
#include "experiments/support/program/run_directory.h"
#include "nn/module.h"
#include "tensor/optimizer_step.h"

namespace fovea {

class Cli;

struct TrainingOptions {
  std::int64_t updates = 3000;
  std::string schedule = "inverse_sqrt(peak=1e-3, warmup=400)";
  double clip = 1;                    ///< largest global norm of the gradient; 0: any
  AdamOptions adam;                   ///< of AdamW
  std::int64_t evaluate_every = 250;  ///< updates between evaluations on the development set
  std::int64_t patience = 0;          ///< evaluations without a better one after which training ends; 0: never
  std::int64_t checkpoint_every = 250;
  std::int64_t average = 0;  ///< the model is the mean of those of this many last evaluations; 0: the best one
  std::uint64_t seed = 1;
  std::string precision = "f32";  ///< of matrix products: f32 or bf16
  std::string device = "cpu";
  int threads = 0;  ///< 0: as many as there are cores

  void add_to(Cli& cli);
  /// Checks what only training knows, and sets threads, precision and the handling of denormals for this process.
  void apply() const;
};

/// The parts of a training that differ from task to task. A task is deterministic: its batches depend on its seed and
/// its place in the data, its dropout on its seed and the numbers of the update and the micro-batch.
class TrainingTask {
 public:
  virtual ~TrainingTask() = default;

  /// Hands the loss of each micro-batch of the next update, recorded, to `add`, which runs the backward pass. Their sum
  /// over what is returned (a number of tokens, or 1) is the update's loss. Each micro-batch has a RandomScope of its
  /// own, made of the task's seed, `update`, which counts from 0, and the micro-batch's number.
  virtual double next_update(std::int64_t update, const std::function<void(const Variable& loss)>& add) = 0;
  /// Where the next batch comes from, to be put into a checkpoint and back.
  virtual Json place() const = 0;
  virtual void seek(const Json& place) = 0;
  virtual std::int64_t epoch() const = 0;

  /// The model's score on the development set: larger is better.
  virtual double score() = 0;
  virtual std::string score_name() const = 0;
};

struct TrainingResult {
  std::int64_t updates = 0;
  std::int64_t best_update = 0;
  double best_score = 0;
  double seconds = 0;  ///< in updates alone, without evaluation
  /// From the first update to the last and to the choice of the model, evaluation included; of all threads. The time
  /// between a stop and the --resume is not counted.
  double wall_seconds = 0, cpu_seconds = 0;
};

/// Where a run lives and what it is called.
struct TrainingRun {
  const RunDirectory& directory;
  const Json& configuration;  ///< a checkpoint of another one is refused
  std::string title;          ///< of the progress bar
  std::filesystem::path
      resume;  ///< what --resume gets to go on: the directory, or that of the comparison it is part of
};

/// Trains `model`, which has been initialised, and leaves the best parameters (or the mean of the last) in it. Where
/// the directory has a checkpoint the run goes on from there, bit for bit as if it had never stopped. On Ctrl-C writes
/// a checkpoint and throws Interrupted with how to resume.
TrainingResult train(Module& model, TrainingTask& task, const TrainingOptions& options, const TrainingRun& run);

}  // namespace fovea
