#include "experiments/support/training/training.h"

#include <chrono>
#include <filesystem>
#include <limits>

#include <omp.h>

#include "experiments/support/program/csv.h"
#include "experiments/support/program/interrupt.h"
#include "experiments/support/program/program.h"
#include "experiments/support/program/progress.h"
#include "experiments/support/program/spent_time.h"
#include "nn/checkpoint.h"
#include "nn/optimizer.h"
#include "nn/schedule.h"
#include "tensor/cpu/parallel.h"
#include "tensor/format/safetensors.h"
#include "tensor/formula/functors.h"
#include "tensor/gemm.h"
#include "tensor/kernels.h"
#include "tensor/map.h"

namespace fovea {

namespace {

/// The schedules with their defaults, one after the other.
std::string schedules() {
  std::string list = schedule_help();
  while (!list.empty() && list.back() == '\n') list.pop_back();
  for (std::size_t at = list.find('\n'); at != std::string::npos; at = list.find('\n', at)) list.replace(at, 1, "; ");
  return list;
}

}  // namespace

void TrainingOptions::add_to(Cli& cli) {
  cli.group("Training");
  cli.option("--updates", updates, "optimizer steps").at_least(1);
  cli.option("--schedule", schedule,
             "of the learning rate; a cosine with updates=0 ends with the training: " + schedules());
  cli.option("--clip", clip, "largest global norm of the gradient; 0: any").at_least(0);
  cli.option("--weight-decay", adam.weight_decay, "decoupled weight decay").range(0, 1);
  cli.option("--evaluate-every", evaluate_every, "between evaluations on the development set")
      .at_least(1)
      .unit("steps");
  cli.option("--patience", patience, "evaluations without a better one before training ends; 0: never").at_least(0);
  cli.option("--average", average, "the model is the mean of those of this many last evaluations; 0: the best one")
      .range(0, 1000);
  cli.option("--beta1", adam.beta1, "Adam's decay of the mean").range(0, 0.9999);
  cli.option("--beta2", adam.beta2, "Adam's decay of the mean square").range(0, 0.999999);
  cli.option("--epsilon", adam.epsilon, "Adam's, beside the root of the mean square").positive();
  cli.option("--checkpoint-every", checkpoint_every, "between checkpoints").at_least(1).unit("steps").unsaved();
  cli.option("--seed", seed, "of initial values, order of batches and dropout");
  cli.option("--precision", precision, "of matrix products").one_of({"f32", "bf16"});
  cli.option("--device", device, "where to compute").one_of({"cpu", "cuda"});
  cli.option("--threads", threads, "0: one per core").range(0, 1024).unsaved();
}

void TrainingOptions::apply() const {
  with_flag("--schedule", [&] { Schedule::parse(schedule); });
  if (parse_device(device) == Device::cuda) {
    kernels(Device::cuda);  // throws where there is no GPU
    fail(
        "--device cuda: training needs kernels that are there for the CPU only (softmax, layer norm, ...); use "
        "--device cpu");
  }
  if (threads > 0) omp_set_num_threads(threads);
  set_matmul_precision(precision == "bf16" ? Precision::bf16 : Precision::f32);
  set_flush_denormals(true);  // tails of Gaussians and of softmax are denormal, and slow
}

namespace {

/// One run between two updates: everything that a checkpoint holds besides tensors.
struct Progression {
  std::int64_t updates = 0, best_update = 0, evaluations = 0, evaluations_since_best = 0;
  double best_score = -std::numeric_limits<double>::infinity();
  double seconds = 0;
  SpentTime earlier;  ///< by the processes before this one
};

class Run {
 public:
  Run(Module& model, TrainingTask& task, const TrainingOptions& options, const TrainingRun& run)
      : model_(model),
        task_(task),
        run_(run),
        directory_(run.directory),
        options_(options),
        schedule_(Schedule::parse(options.schedule, options.updates)),
        optimizer_(model.parameters(), options.adam) {}

  TrainingResult run() {
    if (std::filesystem::exists(directory_.checkpoint())) restore();
    MetricsFile metrics = MetricsFile::resume(
        directory_.metrics(),
        {"update", "epoch", "loss", "learning_rate", "gradient_norm", "dev_" + task_.score_name()}, now_.updates);
    InterruptGuard guard;
    Progress::Options shown;
    shown.start = now_.updates;
    Progress progress(run_.title, options_.updates, shown);
    while (now_.updates < options_.updates && !out_of_patience()) {
      if (interrupted()) stop(progress, metrics);
      std::int64_t epoch = task_.epoch();
      Update update = step();
      std::vector<CsvValue> row{epoch, update.loss, update.rate, update.norm};
      if (now_.updates % options_.evaluate_every == 0 || now_.updates == options_.updates) row.emplace_back(evaluate());
      progress.note(fmt::format("loss {:.3f}{}", update.loss, best_note()));
      progress.advance();
      if (row.size() > 4 || now_.updates % 10 == 0) metrics.row(now_.updates, row);
      if (now_.updates % options_.checkpoint_every == 0) save(metrics);
    }
    save(metrics);
    if (options_.average > 0) average();
    load_best();
    const SpentTime all = spent();
    return {now_.updates, now_.best_update, now_.best_score, now_.seconds, all.wall, all.cpu};
  }

 private:
  struct Update {
    double loss, rate, norm;
  };

  Update step() {
    auto begin = std::chrono::steady_clock::now();
    model_.train(true);
    optimizer_.zero_grad();
    double rate = schedule_.rate(now_.updates, task_.epoch() + 1), value = 0;
    double divisor = task_.next_update(now_.updates, [&value](const Variable& loss) {
      backward(loss);
      value += loss.item();
    });
    value /= divisor;
    double norm = gradient_norm(optimizer_.parameters()) / divisor;
    require(
        std::isfinite(value) && std::isfinite(norm),
        "training: at update {} the loss is {} and the gradient's norm {}; a smaller learning rate (--schedule) in a "
        "run of its own may help",
        now_.updates + 1, value, norm);
    optimizer_.step(rate, clip_scale(norm, options_.clip) / divisor);
    ++now_.updates;
    now_.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return {value, rate, norm};
  }

  double evaluate() {
    model_.train(false);
    NoGrad off;
    double score = task_.score();
    if (score > now_.best_score) {
      now_.best_score = score;
      now_.best_update = now_.updates;
      now_.evaluations_since_best = 0;
      if (options_.average == 0) write_safetensors(directory_.best(), prefixed("", state(model_)), {});
    } else {
      ++now_.evaluations_since_best;
    }
    if (options_.average > 0) keep_snapshot();
    return score;
  }

  std::filesystem::path snapshot(std::int64_t evaluation) const {
    return directory_.file(fmt::format("snapshot-{}.safetensors", evaluation % options_.average));
  }

  /// The last `average` models are in files that take turns.
  void keep_snapshot() {
    write_safetensors(snapshot(now_.evaluations), prefixed("", state(model_)), {});
    ++now_.evaluations;
  }

  /// Makes the mean of the snapshots the best model, with its own score.
  void average() {
    std::int64_t count = std::min(now_.evaluations, options_.average);
    NamedTensors mean;
    for (std::int64_t k = now_.evaluations - count; k < now_.evaluations; ++k)
      for (auto& [name, tensor] : read_safetensors(snapshot(k)).tensors) {
        Tensor part = map(Multiply{}, tensor, Tensor::full({}, 1 / static_cast<double>(count), tensor.dtype()));
        mean[name] = mean.contains(name) ? map(Add{}, mean[name], part) : part;
      }
    load_state(model_, mean, "the mean of the last models");
    model_.train(false);
    NoGrad off;
    now_.best_score = task_.score();
    now_.best_update = now_.updates;
    write_safetensors(directory_.best(), prefixed("", mean), {});
  }

  bool out_of_patience() const { return options_.patience > 0 && now_.evaluations_since_best >= options_.patience; }

  std::string best_note() const {
    return now_.best_update ? fmt::format(" · best dev {} {:.2f}", task_.score_name(), now_.best_score) : "";
  }

  [[noreturn]] void stop(Progress& progress, MetricsFile& metrics) {
    progress.finish();
    save(metrics);
    throw Interrupted(fmt::format("stopped after update {}; --resume {} goes on, with the same configuration",
                                  now_.updates, run_.resume.string()));
  }

  SpentTime spent() const { return now_.earlier + (SpentTime::until_now() - began_); }

  using TensorList = std::vector<std::pair<std::string, Tensor>>;

  static TensorList prefixed(const std::string& prefix, const NamedTensors& tensors) {
    TensorList out;
    for (const auto& [name, tensor] : tensors) out.emplace_back(prefix + name, tensor);
    return out;
  }

  void save(MetricsFile& metrics) {
    metrics.sync();
    TensorList tensors = prefixed("model.", state(model_));
    for (auto& entry : prefixed("optimizer.", optimizer_.state())) tensors.push_back(std::move(entry));
    Json where = {{"updates", now_.updates},
                  {"best_update", now_.best_update},
                  {"best_score", now_.best_update ? Json(now_.best_score) : Json(nullptr)},
                  {"evaluations", now_.evaluations},
                  {"evaluations_since_best", now_.evaluations_since_best},
                  {"seconds", now_.seconds},
                  {"wall_seconds", spent().wall},
                  {"cpu_seconds", spent().cpu},
                  {"place", task_.place()}};
    write_safetensors(directory_.checkpoint(), tensors,
                      {{"run", where.dump()}, {"configuration", run_.configuration.dump()}});
  }

  static Safetensors readable(const std::string& path) {
    try {
      return read_safetensors(path);
    } catch (const Error& error) {
      fail("{}; without this file the run begins anew", error.what());
    }
  }

  void restore() {
    std::string path = directory_.checkpoint();
    Safetensors file = readable(path);
    auto metadata = [&](const char* key) {
      auto found = file.metadata.find(key);
      require(found != file.metadata.end(), "{}: no '{}' in the metadata; this is not a checkpoint of a run", path,
              key);
      return Json::parse(found->second);
    };
    reading_run_file(path, [&] {
      require_same_configuration(path, metadata("configuration"), run_.configuration);
      NamedTensors model, optimizer;
      for (auto& [name, tensor] : file.tensors) {
        if (name.starts_with("model."))
          model[name.substr(6)] = tensor;
        else if (name.starts_with("optimizer."))
          optimizer[name.substr(10)] = tensor;
      }
      load_state(model_, model, path);
      optimizer_.load_state(optimizer, path);
      Json where = metadata("run");
      now_.updates = where.at("updates");
      now_.best_update = where.at("best_update");
      if (!where.at("best_score").is_null()) now_.best_score = where.at("best_score");
      now_.evaluations = where.at("evaluations");
      now_.evaluations_since_best = where.at("evaluations_since_best");
      now_.seconds = where.at("seconds");
      now_.earlier = {where.value("wall_seconds", now_.seconds), where.value("cpu_seconds", now_.seconds)};
      task_.seek(where.at("place"));
      // Checkpoints of earlier versions also have "random". It is ignored: dropout follows from the number of updates.
    });
  }

  void load_best() {
    require(now_.best_update > 0,
            "training: at no evaluation was the development set's {} a finite number; a smaller learning rate "
            "(--schedule) in a run of its own may help",
            task_.score_name());
    load_state(model_, directory_.best());
  }

  Module& model_;
  TrainingTask& task_;
  const TrainingRun& run_;
  const RunDirectory& directory_;
  const TrainingOptions& options_;
  Schedule schedule_;
  AdamW optimizer_;
  Progression now_;
  SpentTime began_ = SpentTime::until_now();
};

}  // namespace

TrainingResult train(Module& model, TrainingTask& task, const TrainingOptions& options, const TrainingRun& run) {
  return Run(model, task, options, run).run();
}

}  // namespace fovea
