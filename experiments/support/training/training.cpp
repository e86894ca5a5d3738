#include "experiments/support/training/training.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <omp.h>

#include "experiments/support/program/device_flag.h"
#include "experiments/support/program/interrupt.h"
#include "experiments/support/program/program.h"
#include "experiments/support/program/progress.h"
#include "experiments/support/program/run_log.h"
#include "experiments/support/text/number.h"
#include "experiments/support/training/shared_work.h"
#include "nn/checkpoint.h"
#include "tensor/cpu/parallel.h"
#include "tensor/format/safetensors.h"
#include "tensor/formula/functors.h"
#include "tensor/gemm.h"
#include "tensor/kernels.h"
#include "tensor/map.h"
#include "tensor/reduce.h"

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
  cli.option("--updates", updates, "optimizer steps; with --resume, more steps continue a finished run").at_least(1);
  cli.option("--schedule", schedule,
             "schedule of the learning rate; a cosine with updates=0 ends with the training: " + schedules());
  cli.option("--rate", rate, "peak of the learning rate, in place of the schedule's").range(0, 1e6);
  cli.rare("--clip", clip, "largest norm of the gradient; 0: no limit").at_least(0);
  cli.choice(
         "--optimizer", optimizer.kind,
         {{"adam", OptimizerKind::adam},
          {"adamw", OptimizerKind::adamw},
          {"sgd", OptimizerKind::sgd},
          {"lion", OptimizerKind::lion},
          {"adafactor", OptimizerKind::adafactor}},
         "the rule of an update; lion needs a rate 3 to 10 times smaller than adamw; adafactor's rate is relative to "
         "the size of each parameter")
      .rare();
  cli.rare("--weight-decay", optimizer.weight_decay,
           "weight decay; adam and sgd add it to the gradient, the others shrink the parameters")
      .range(0, 1);
  cli.choice("--decayed", optimizer.decayed, {{"all", Decayed::all}, {"matrices", Decayed::matrices}},
             "the parameters that --weight-decay applies to; matrices: not norms, biases and other vectors")
      .rare();
  cli.rare("--momentum", optimizer.momentum, "momentum of --optimizer sgd").range(0, 0.9999);
  cli.option("--evaluate-every", evaluate_every, "steps between evaluations on the development set").at_least(1);
  cli.rare("--patience", patience, "end the training after this many evaluations without a better score; 0: never")
      .at_least(0);
  cli.option("--average", average, "use the mean of the models of this many last evaluations, or with 0 the best model")
      .range(0, 1000);
  cli.rare("--keep", keep, "keep the models of this many last evaluations, for --average-kept").range(0, 1000);
  cli.rare("--beta1", optimizer.beta1, "decay of the mean of gradients, of adam, adamw and lion").range(0, 0.9999);
  cli.rare("--beta2", optimizer.beta2,
           "decay of the mean of squared gradients, of adam and adamw; of lion: of the mean that is kept")
      .range(0, 0.999999);
  cli.rare("--epsilon", optimizer.epsilon, "of adam and adamw: added to the root of the mean square").positive();
  cli.rare("--checkpoint-every", checkpoint_every, "steps between checkpoints").at_least(1);
  cli.option("--seed", seed, "seed of initial values, order of batches and dropout");
  cli.rare("--precision", precision,
           "precision of matrix products; bf16 rounds the operands of large products on the CPU; on a GPU it may round "
           "those of any product")
      .one_of({"f32", "bf16"});
  device_flag(cli, device);
  cli.rare("--threads", threads, "threads of a process; 0: one per core, shared by the processes of this machine")
      .range(0, 1024)
      .unsaved();
  cli.rare("--processes", processes,
           "processes of this machine that train together: each computes its share of the batches of an update "
           "(--accumulate), with the same result as one process; needs Open MPI")
      .range(1, 1024)
      .unsaved();
}

void TrainingOptions::check() const {
  with_flag("--schedule", [&] { Schedule::parse(schedule); });
  require(optimizer.momentum == 0 || optimizer.kind == OptimizerKind::sgd,
          "--momentum {}: only --optimizer sgd has a momentum; adam, adamw and lion have --beta1", optimizer.momentum);
  kernels(device_of(device));  // throws where there is no GPU
}

Schedule TrainingOptions::learning_rate() const {
  const Schedule own = Schedule::parse(schedule, updates);
  return rate ? own.with_peak(*rate) : own;
}

std::string TrainingOptions::warmup_warning() const {
  const Schedule own = learning_rate();
  if (own.warmup() <= double(updates)) return {};
  std::string shorter = own.str();
  const std::size_t at = shorter.find("warmup=") + 7;
  shorter.replace(at, shorter.find_first_of(",)", at) - at, std::to_string(std::max<std::int64_t>(updates / 10, 1)));
  return fmt::format(
      "warning: the warm-up of {} updates is longer than the training of {}; a shorter one: --schedule \"{}\"",
      own.warmup(), updates, shorter);
}

void TrainingOptions::apply() const {
  check();
  omp_set_num_threads(threads > 0 ? threads : threads_of_a_process());
  set_matmul_precision(precision == "bf16" ? Precision::bf16 : Precision::f32);
  set_flush_denormals(true);  // tails of Gaussians and of softmax are denormal, and slow
}

namespace training_parts {

/// The state of a training between two updates: everything in a checkpoint besides tensors.
struct Progression {
  std::int64_t updates = 0, best_update = 0, evaluations_since_best = 0;
  double best_score = 0, first_loss = 0;
  SpentTime in_updates, earlier;   ///< before the last resume: in updates alone, and with evaluation
  std::vector<std::int64_t> kept;  ///< updates of the models that are kept for --average, oldest first
};

using TensorList = std::vector<std::pair<std::string, Tensor>>;

TensorList prefixed(const std::string& prefix, const NamedTensors& tensors) {
  TensorList out;
  for (const auto& [name, tensor] : tensors) out.emplace_back(prefix + name, tensor);
  return out;
}

NamedTensors with_prefix(const std::string& prefix, const TensorList& all) {
  NamedTensors found;
  for (const auto& [name, tensor] : all)
    if (name.starts_with(prefix)) found[name.substr(prefix.size())] = tensor;
  return found;
}

/// The mean of the tensors with the same names. The sums are in the order of the files.
NamedTensors mean_of_models(const std::vector<std::filesystem::path>& files) {
  NamedTensors mean;
  for (const std::filesystem::path& file : files)
    for (auto& [name, tensor] : read_safetensors(file).tensors) {
      const double share = 1 / double(files.size());
      Tensor part = map(Multiply{}, tensor, Tensor::full({}, share, tensor.dtype()));
      mean[name] = mean.contains(name) ? map(Add{}, mean[name], part) : part;
    }
  return mean;
}

/// The models that a run kept, by their updates.
std::map<std::int64_t, std::filesystem::path> kept_models(const std::filesystem::path& run) {
  std::map<std::int64_t, std::filesystem::path> models;
  for (const auto& entry : std::filesystem::directory_iterator(run)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("model-") || !name.ends_with(".safetensors")) continue;
    if (const auto update = leading_number<std::int64_t>(std::string_view(name).substr(6)))
      models[*update] = entry.path();
  }
  return models;
}

Safetensors readable_checkpoint(const std::string& path) {
  try {
    return read_safetensors(path);
  } catch (const Error& error) {
    fail("{}; if you delete this file, the run begins anew", error.what());
  }
}

Json metadata(const Safetensors& file, const std::string& path, const char* key) {
  auto found = file.metadata.find(key);
  require(found != file.metadata.end(), "{}: no '{}' in the metadata; this is not a checkpoint of a run", path, key);
  return parse_json(found->second);
}

/// Whether a parameter is not finite, or the parameters are so large that the next loss would overflow.
bool has_lost_its_parameters(const Module& model) {
  constexpr double largest_norm = 1e8;
  std::vector<Tensor> values;
  for (const NamedParameter& parameter : model.parameters()) values.push_back(parameter.variable.value());
  return !(global_norm(values).item() < largest_norm);
}

/// Throws Error, with the name of the parameter, if one has a number that is not finite.
void require_finite(const Module& model, const std::string& source) {
  for (const NamedParameter& parameter : model.parameters()) {
    const Tensor values = parameter.variable.value();
    if (std::isfinite(global_norm({&values, 1}).item())) continue;
    const std::vector<double> all = values.to_vector<double>();
    const auto bad = std::ranges::find_if(all, [](double value) { return !std::isfinite(value); });
    fail("{}: parameter '{}' {} has {} at place {} (from 0); no model can be trained or used with it", source,
         parameter.name, values.shape(), *bad, bad - all.begin());
  }
}

/// Every tenth update is in the log, besides those with an evaluation.
constexpr std::int64_t log_interval = 10;

/// The loss and gradient norm of each update, which stay on the model's device until the host reads them: with a GPU
/// the host waits once for many updates.
class UpdateReadings {
 public:
  /// The mean losses with and without label smoothing and auxiliary losses, and the norm of the loss's gradient.
  struct Values {
    double loss = 0, unsmoothed = 0, norm = 0;
  };

  /// `updates` have been made before.
  UpdateReadings(Device device, std::int64_t updates)
      : updates_(updates), sums_(Tensor::zeros({log_interval, 3}, DType::f64, device)) {}

  bool are_on_the_host() const { return sums_.device() == Device::cpu; }
  std::int64_t updates() const { return updates_; }  ///< the number of updates so far

  /// Begins an update.
  void open() {
    row_ = sums_.select(0, std::ssize(counts_));
    row_.fill(0);
    count_ = 0;
  }
  /// Adds the sums of the losses of `count` tokens or examples.
  void add(const Tensor& loss, double count, const Tensor& unsmoothed) {
    count_ += count;
    for (const auto& [place, value] : {std::pair(0, &loss), std::pair(1, &unsmoothed)}) {
      Tensor sum = row_.select(0, place);
      map_into(sum, Add{}, sum, value->to(DType::f64).reshape({}));
    }
  }
  /// Ends an update, with the norm of the gradient of the summed loss. Returns the number of its tokens or examples.
  double close(const Tensor& norm) {
    row_.select(0, 2).copy_from(norm);
    counts_.push_back(count_);
    ++updates_;
    return count_;
  }
  /// The values of the updates since the last call, in order.
  std::vector<Values> read() {
    std::vector<Values> all;
    if (counts_.empty()) return all;
    const std::vector<double> sums = sums_.slice(0, 0, std::ssize(counts_)).to_vector<double>();
    for (std::size_t k = 0; k < counts_.size(); ++k)
      all.push_back({sums[3 * k] / counts_[k], sums[3 * k + 1] / counts_[k], sums[3 * k + 2] / counts_[k]});
    counts_.clear();
    return all;
  }

 private:
  std::int64_t updates_;
  Tensor sums_;  ///< of each update that is not read yet: losses, losses without smoothing, norm; [log_interval, 3]
  Tensor row_;   ///< of this update
  double count_ = 0;
  std::vector<double> counts_;
};

}  // namespace training_parts

using namespace training_parts;

class Training::Implementation {
 public:
  Implementation(const Run& run, Module& model, Optimizer& optimizer, BatchPlace& place, const TrainingOptions& options)
      : run_(run), directory_(*run.directory), model_(model), optimizer_(optimizer), place_(place), options_(options) {
    for (std::int64_t k = processes().rank(); k < place.accumulate(); k += processes().size())
      micro_batches_.push_back(k);
    if (processes().size() > 1) {
      require_same_data_everywhere(directory_);
      require_same_threads();
      shared_.emplace(model.parameters(), place.accumulate());
    }
    if (is_first_ && std::filesystem::exists(directory_.checkpoint())) restore();
    share_restored();
    require_finite(model_, restored_ > 0 ? directory_.checkpoint().string() : "the initial model");
    readings_.emplace(model.device(), now_.updates);
    log_ = std::make_unique<RunLog>(directory_.log(), now_.updates);
    require(!is_first_ || log_checksum_.empty() || file_checksum(directory_.log()) == log_checksum_,
            "{}: damaged: up to update {} it differs from the log that the checkpoint was written with",
            directory_.log().string(), now_.updates);
    Progress::Options shown;
    shown.start = now_.updates;
    progress_ = std::make_unique<Progress>(progress_title(), options.updates, shown);
  }

  bool has_next_update() {
    if (now_.updates >= options_.updates || out_of_patience()) return false;
    if (shared_ ? shared_->is_stopped() : interrupted()) stop();
    begin_update();
    return true;
  }

  const std::vector<std::int64_t>& micro_batches() const { return micro_batches_; }

  std::int64_t updates() const { return now_.updates; }
  std::int64_t epoch() const { return epoch_ + 1; }

  RandomSource random(std::int64_t micro_batch) const {
    return {.seed = run_.seed, .update = now_.updates, .micro_batch = micro_batch};
  }

  void backward(const Variable& loss, double count, const Tensor& unsmoothed) {
    if (shared_) return shared_->add(loss, count, unsmoothed);
    fovea::backward(loss);
    readings_->add(loss.value(), count, unsmoothed);
  }

  Gradient gradient() {
    if (shared_) {
      const SharedUpdate::Sums all = shared_->finish();
      readings_->add(all.loss, all.count, all.unsmoothed);
    }
    Gradient gradient{.norm = gradient_norm(optimizer_.parameters())};
    gradient.count = readings_->close(gradient.norm);
    if (logs(now_.updates + 1) || saves(now_.updates + 1) || readings_->are_on_the_host()) read();
    return gradient;
  }

  void end_update(double rate, const DevScores& dev_scores) {
    ++now_.updates;
    in_updates_ = in_updates_ + (SpentTime::until_now() - update_began_);
    if (logs(now_.updates)) {
      Json line = {{"update", now_.updates}, {"epoch", epoch_},
                   {"loss", last_->loss},    {"unsmoothed_loss", last_->unsmoothed},
                   {"learning_rate", rate},  {"gradient_norm", last_->norm}};
      if (is_evaluated(now_.updates))
        for (const DevScore& score : evaluate(dev_scores)) line["dev"][score.name] = score.value;
      log_->write(line);
    }
    progress_->note(loss_note() + best_note() + whole_note());
    progress_->advance();
    if (saves(now_.updates)) save();
  }

  TrainingResult finish(const DevScores& dev_scores) {
    if (score_name_.empty()) evaluate(dev_scores);  // resumed to end at an update before the first evaluation
    if (interrupted_anywhere()) stop();             // during the last evaluation
    save();
    progress_->finish();
    if (options_.average > 0) average(dev_scores);
    if (now_.best_update == 0 || !std::isfinite(now_.best_score))
      throw Diverged(
          fmt::format("training diverged: the development set's {} was not a finite number at any evaluation; a "
                      "smaller learning rate (--schedule) may help",
                      score_name_));
    if (is_first_) load_state(model_, directory_.best());
    share(state(model_));
    model_.train(false);
    const SpentTime all = spent(), updates = spent_in_updates();
    return {.updates = now_.updates,
            .best_update = now_.best_update,
            .score_name = score_name_,
            .best_score = now_.best_score,
            .higher_is_better = higher_is_better_,
            .seconds = updates.wall,
            .update_cpu_seconds = updates.cpu,
            .wall_seconds = all.wall,
            .cpu_seconds = all.cpu};
  }

 private:
  void begin_update() {
    update_began_ = SpentTime::until_now();
    epoch_ = place_.epoch();
    model_.train(true);
    if (shared_) shared_->begin();
    readings_->open();
  }

  /// Reads the losses that the host has not read yet. Called before each checkpoint, which therefore never has a
  /// diverged model, and on the CPU before the parameters change.
  void read() {
    const std::vector<UpdateReadings::Values> updates = readings_->read();
    std::int64_t update = readings_->updates() - std::ssize(updates);
    for (const UpdateReadings::Values& one : updates) require_convergence(++update, *(last_ = one));
  }

  std::string loss_note() const {
    return last_ ? fmt::format("loss {:.3f}", last_->loss) : "loss not read from the GPU yet";
  }

  void require_convergence(std::int64_t update, const UpdateReadings::Values& of) {
    if (update == 1) now_.first_loss = std::abs(of.loss);
    constexpr double most_growth = 100;
    const bool has_exploded = std::abs(of.loss) > most_growth * (now_.first_loss + 1);
    if (std::isfinite(of.loss) && std::isfinite(of.norm) && !has_exploded) return;
    fail_as_diverged(update, fmt::format("the loss is {:.4g} (at the first update {:.4g}) and the norm of its gradient "
                                         "{:.4g}",
                                         of.loss, now_.first_loss, std::abs(of.norm)));
  }

  [[noreturn]] void fail_as_diverged(std::int64_t update, const std::string& what) {
    const std::string kept = saved_ > 0 ? fmt::format("; the checkpoint of update {} is kept", saved_) : "";
    const std::string clip = options_.clip > 0 ? fmt::format("a smaller --clip (here {})", options_.clip) : "a --clip";
    throw Diverged(fmt::format(
        "training diverged at update {}: {}{}. A smaller learning rate or a longer warm-up (--schedule), or {}, may "
        "help",
        update, what, kept, clip));
  }

  std::vector<DevScore> scores(const DevScores& dev_scores) {
    model_.train(false);
    NoGrad off;
    std::vector<DevScore> scores;
    try {
      scores = dev_scores();
    } catch (const Interrupted&) {
      progress_->finish();
      throw Interrupted(fmt::format("stopped during the evaluation; --resume {} continues after update {}",
                                    run_.resume.string(), saved_));
    }
    score_name_ = scores.front().name;
    higher_is_better_ = scores.front().higher_is_better;
    return scores;
  }

  std::vector<DevScore> evaluate(const DevScores& dev_scores) {
    std::vector<DevScore> scores = this->scores(dev_scores);
    const double score = scores.front().value;
    const bool is_better = higher_is_better_ ? score > now_.best_score : score < now_.best_score;
    if (std::isfinite(score) && (now_.best_update == 0 || is_better)) {
      now_.best_score = score;
      now_.best_update = now_.updates;
      now_.evaluations_since_best = 0;
      if (options_.average == 0 && is_first_)
        write_safetensors(directory_.best(), prefixed("", state(model_)),
                          {{"update", std::to_string(now_.best_update)}});
    } else {
      ++now_.evaluations_since_best;
    }
    if (kept_count() > 0) keep_model();
    return scores;
  }

  std::filesystem::path kept_model(std::int64_t update) const {
    return directory_.file(fmt::format("model-{}.safetensors", update));
  }

  std::int64_t kept_count() const { return std::max(options_.average, options_.keep); }

  /// Keeps the model of this evaluation.
  void keep_model() {
    if (is_first_) write_safetensors(kept_model(now_.updates), prefixed("", state(model_)), {});
    now_.kept.push_back(now_.updates);
  }

  /// Removes the oldest models beyond those that are kept. Called after a checkpoint was written.
  void remove_old_models() {
    while (std::ssize(now_.kept) > kept_count()) {
      std::filesystem::remove(kept_model(now_.kept.front()));
      now_.kept.erase(now_.kept.begin());
    }
  }

  /// Makes the mean of the last models the best model, with its own score.
  void average(const DevScores& dev_scores) {
    std::vector<std::filesystem::path> last;
    for (std::size_t k = now_.kept.size() - std::size_t(std::min(options_.average, std::ssize(now_.kept)));
         k < now_.kept.size(); ++k)
      last.push_back(kept_model(now_.kept[k]));
    if (is_first_) load_state(model_, mean_of_models(last), "the mean of the last models");
    share(state(model_));
    now_.best_score = scores(dev_scores).front().value;
    now_.best_update = now_.updates;
    if (is_first_) write_safetensors(directory_.best(), prefixed("", state(model_)), {});
  }

  bool out_of_patience() const { return options_.patience > 0 && now_.evaluations_since_best >= options_.patience; }

  std::string progress_title() const {
    return run_.runs > 1 ? fmt::format("[{}/{}] {}", run_.number, run_.runs, run_.title()) : run_.title();
  }
  std::string best_note() const {
    if (now_.best_update == 0 || score_name_.empty()) return "";
    const double score = now_.best_score;
    const std::string shown = std::abs(score) < 1e9 ? fmt::format("{:.2f}", score) : fmt::format("{:.3g}", score);
    return fmt::format(" · best dev {} {}", score_name_, shown);
  }
  /// An estimate of the time left for the whole comparison, from the speed of this run.
  std::string whole_note() const {
    if (run_.runs == run_.number) return "";
    const double own = (SpentTime::until_now() - began_).wall / double(now_.updates - restored_);
    const double left = own * double(options_.updates - now_.updates);
    const double later = run_.seconds_of_others > 0 ? run_.seconds_of_others
                                                    : own * double(options_.updates * (run_.runs - run_.number));
    return fmt::format(" · {} left of all", duration_text(left + later));
  }

  [[noreturn]] void stop() {
    progress_->finish();
    save();
    throw Interrupted(
        fmt::format("stopped after update {}; --resume {} continues", now_.updates, run_.resume.string()));
  }

  /// The time of the whole training, and that in updates, so far; of all processes.
  SpentTime spent() const { return now_.earlier + of_all_processes(SpentTime::until_now() - began_); }
  SpentTime spent_in_updates() const { return now_.in_updates + of_all_processes(in_updates_); }

  void save() {
    read();
    if (has_lost_its_parameters(model_))
      fail_as_diverged(now_.updates, "a parameter is not finite, or the norm of all parameters is above 1e8");
    if (shared_) require_same_parameters(model_, now_.updates);
    const SpentTime all = spent(), updates = spent_in_updates();
    saved_ = now_.updates;
    if (is_first_) write_checkpoint(all, updates);
    remove_old_models();
  }

  void write_checkpoint(const SpentTime& all, const SpentTime& updates) {
    log_->sync();
    TensorList tensors = prefixed("model.", state(model_));
    for (auto& entry : prefixed("optimizer.", optimizer_.state())) tensors.push_back(std::move(entry));
    const Json where = {{"updates", now_.updates},
                        {"best_update", now_.best_update},
                        {"best_score", now_.best_score},
                        {"score_name", score_name_},
                        {"higher_is_better", higher_is_better_},
                        {"evaluations_since_best", now_.evaluations_since_best},
                        {"first_loss", now_.first_loss},
                        {"kept", now_.kept},
                        {"seconds", updates.wall},
                        {"update_cpu_seconds", updates.cpu},
                        {"wall_seconds", all.wall},
                        {"cpu_seconds", all.cpu},
                        {"epoch", place_.epoch()},
                        {"position", place_.position()},
                        {"log_checksum", file_checksum(directory_.log())}};
    write_safetensors(directory_.checkpoint(), tensors,
                      {{"run", text_of(where)}, {"configuration", text_of(run_.configuration)}});
  }

  void restore() {
    const std::string path = directory_.checkpoint();
    const Safetensors file = readable_checkpoint(path);
    reading_json(path, [&] {
      require_same_configuration(path, metadata(file, path, "configuration"), run_.configuration, changeable_options);
      load_state(model_, with_prefix("model.", file.tensors), path);
      optimizer_.load_state(with_prefix("optimizer.", file.tensors), path);
      where_ = metadata(file, path, "run");
      continue_from(where_);
      require_known_best(path, metadata(file, path, "configuration"));
      for (const auto& [update, model] : kept_models(directory_.path()))
        if (update > now_.updates) std::filesystem::remove(model);
      require(now_.updates <= options_.updates, "--updates {}: the run has made {} updates already", options_.updates,
              now_.updates);
    });
  }

  void continue_from(const Json& where) {
    now_ = {.updates = where.at("updates"),
            .best_update = where.at("best_update"),
            .evaluations_since_best = where.at("evaluations_since_best"),
            .best_score = where.at("best_score"),
            .first_loss = where.at("first_loss"),
            .in_updates = {where.at("seconds"), where.at("update_cpu_seconds")},
            .earlier = {where.at("wall_seconds"), where.at("cpu_seconds")},
            .kept = where.at("kept")};
    score_name_ = where.at("score_name");
    higher_is_better_ = where.at("higher_is_better");
    place_.seek(where.at("epoch"), where.at("position"));
    log_checksum_ = where.at("log_checksum");
    restored_ = saved_ = now_.updates;
  }

  /// Sends what the first process has restored to the others.
  void share_restored() {
    if (!shared_) return;
    const std::string where = from_first_process([&] { return where_.is_null() ? "" : text_of(where_); });
    if (where.empty()) return;
    if (!is_first_) continue_from(parse_json(where));
    share(state(model_));
    NamedTensors averages = optimizer_.state();
    share(averages);
    if (!is_first_) optimizer_.load_state(averages, "the first process");
  }

  bool saves(std::int64_t update) const { return update % options_.checkpoint_every == 0; }
  bool logs(std::int64_t update) const { return is_evaluated(update) || update % log_interval == 0; }
  bool is_evaluated(std::int64_t update) const {
    return update % options_.evaluate_every == 0 || update == options_.updates;
  }

  /// A run that is killed after it wrote best.safetensors finds the same model again, unless the updates at which it is
  /// evaluated have changed: then the file would be taken for the best model that the checkpoint knows.
  void require_known_best(const std::string& checkpoint, const Json& before) const {
    auto is_unchanged = [&](const char* key) {
      return before.value(key, Json()) == run_.configuration.value(key, Json());
    };
    if (options_.average > 0 || (is_unchanged("updates") && is_unchanged("evaluate-every"))) return;
    if (now_.best_update == 0 || !std::filesystem::exists(directory_.best())) return;
    const auto update = metadata(read_safetensors(directory_.best()), directory_.best(), "update").get<std::int64_t>();
    const bool comes_again = update <= options_.updates && is_evaluated(update);
    require(update == now_.best_update || comes_again,
            "{}: was written before {}, which has the model of update {}: resume first with the --updates and "
            "--evaluate-every that the run had",
            checkpoint, directory_.best().string(), update);
  }

  const Run& run_;
  const RunDirectory& directory_;
  Module& model_;
  Optimizer& optimizer_;
  BatchPlace& place_;
  const TrainingOptions& options_;
  const bool is_first_ = processes().is_first();
  std::vector<std::int64_t> micro_batches_;
  std::optional<SharedUpdate> shared_;  ///< empty: this process is alone
  Json where_;                          ///< what the checkpoint says of the training; null: there was none
  Progression now_;
  std::string score_name_;
  bool higher_is_better_ = true;
  std::int64_t restored_ = 0, saved_ = 0;  ///< updates when this process began; of the last checkpoint
  std::optional<UpdateReadings> readings_;
  std::optional<UpdateReadings::Values> last_;  ///< of the last update that was read
  std::int64_t epoch_ = 0;                      ///< of the first batch of the update
  SpentTime began_ = SpentTime::until_now(), update_began_;
  SpentTime in_updates_;  ///< of this process
  InterruptGuard guard_;
  std::string log_checksum_;  ///< of the log when the checkpoint was written; empty: there was none
  std::unique_ptr<RunLog> log_;
  std::unique_ptr<Progress> progress_;
};

void load_parameters(Module& model, const std::filesystem::path& from, std::int64_t average) {
  if (average == 0 || !std::filesystem::is_directory(from)) {
    const std::filesystem::path file = std::filesystem::is_directory(from) ? from / "best.safetensors" : from;
    load_state(model, file);
    return require_finite(model, file.string());
  }
  std::vector<std::filesystem::path> models;
  for (const auto& [update, file] : kept_models(from)) models.push_back(file);
  require(std::ssize(models) >= average, "--average-kept {}: {} has {} kept models (train with --keep or --average)",
          average, from.string(), models.size());
  models.erase(models.begin(), models.end() - average);
  load_state(model, mean_of_models(models), "the mean of the kept models");
  require_finite(model, "the mean of the kept models");
}

std::vector<DevScore> dev_scores_of(const TestResult& test) {
  std::vector<DevScore> scores;
  for (const TextScore& score : test.scores())
    scores.push_back({score.name, score.metric.value(), score.metric.higher_is_better});
  return scores;
}

Training::Training(const Run& run, Module& model, Optimizer& optimizer, BatchPlace& place,
                   const TrainingOptions& options)
    : self_(std::make_unique<Implementation>(run, model, optimizer, place, options)) {}
Training::~Training() = default;

bool Training::has_next_update() { return self_->has_next_update(); }
std::int64_t Training::updates() const { return self_->updates(); }
std::int64_t Training::epoch() const { return self_->epoch(); }
const std::vector<std::int64_t>& Training::micro_batches() const { return self_->micro_batches(); }
RandomScope Training::random(std::int64_t micro_batch) const { return RandomScope(self_->random(micro_batch)); }
void Training::backward(const Variable& loss, double count, const Tensor& unsmoothed) {
  self_->backward(loss, count, unsmoothed);
}
Training::Gradient Training::gradient() { return self_->gradient(); }
void Training::end_update(double rate, const DevScores& dev_scores) { self_->end_update(rate, dev_scores); }
TrainingResult Training::finish(const DevScores& dev_scores) { return self_->finish(dev_scores); }

}  // namespace fovea
